// SPDX-License-Identifier: GPL-2.0-only
//! Machines made of files.

use crate::fake_root::FakeRoot;

use super::*;

/// As in bpf/intf.h; the limits on CPUs and nodes see to it.
const MAX_BLOCKS: usize = 128;

/// A sysfs tree in a temporary folder.
struct Machine(FakeRoot);

impl Machine {
    fn new(test: &str, possible: &str, online: &str) -> Self {
        let machine = Machine(FakeRoot::new(&format!("topology-{test}")));
        machine.write("cpu/possible", possible);
        machine.write("cpu/online", online);
        machine
    }

    fn write(&self, file: &str, text: &str) {
        self.0
            .write(&format!("sys/devices/system/{file}"), &format!("{text}\n"));
    }

    /// Gives each CPU of `cpus` this core, package and LLC (level 3 above two levels of its own).
    fn cpus(&self, cpus: &[u16], siblings: &str, package: &str, llc: Option<&str>) {
        for cpu in cpus {
            self.write(
                &format!("cpu/cpu{cpu}/topology/thread_siblings_list"),
                siblings,
            );
            self.write(&format!("cpu/cpu{cpu}/topology/package_cpus_list"), package);
            if let Some(llc) = llc {
                for (index, level, kind, shared) in [
                    (0, 1, "Data", siblings),
                    (1, 1, "Instruction", siblings),
                    (2, 2, "Unified", siblings),
                    (3, 3, "Unified", llc),
                ] {
                    let cache = format!("cpu/cpu{cpu}/cache/index{index}");
                    self.write(&format!("{cache}/level"), &level.to_string());
                    self.write(&format!("{cache}/type"), kind);
                    self.write(&format!("{cache}/shared_cpu_list"), shared);
                }
            }
        }
    }

    fn read(&self) -> Topology {
        let topology = Topology::read(self.0.path()).expect("a readable machine");
        check(&topology);
        topology
    }

    fn error(&self) -> String {
        Topology::read(self.0.path())
            .expect_err("an error")
            .to_string()
    }
}

/// The CPUs of the LLC of CPU `id`.
fn llc(t: &Topology, id: usize) -> &[u16] {
    cpus_of(t, &t.places[id].llc)
}

/// The CPUs of the node with this index.
fn node(t: &Topology, index: usize) -> &[u16] {
    cpus_of(t, &t.nodes[index].chunks)
}

fn cpus_of<'a>(t: &'a Topology, chunks: &Range<u16>) -> &'a [u16] {
    let (first, last) = (usize::from(chunks.start), usize::from(chunks.end) - 1);
    let range = t.chunks[first].cpus.start..t.chunks[last].cpus.end;
    &t.order[usize::from(range.start)..usize::from(range.end)]
}

/// How many CPUs in use, LLCs and nodes.
fn counts(t: &Topology) -> (usize, usize, usize) {
    (t.nr_online, t.nr_llcs, t.nodes.len())
}

/// What BPF relies on whatever the machine looks like.
fn check(t: &Topology) {
    let nr_cpu_ids = t.order.len();
    assert!(nr_cpu_ids <= MAX_CPUS && t.nodes.len() <= MAX_NODES && t.nr_blocks <= MAX_BLOCKS);
    assert_eq!(t.places.len(), nr_cpu_ids);
    assert_eq!(t.nr_chunks + (nr_cpu_ids - t.nr_online), t.chunks.len());
    // Chunks follow each other without a gap, and so do the nodes' chunks and blocks.
    let mut pos = 0;
    for chunk in &t.chunks {
        assert_eq!(chunk.cpus.start, pos);
        assert!((1..=64).contains(&chunk.cpus.len()));
        pos = chunk.cpus.end;
    }
    assert_eq!(usize::from(pos), nr_cpu_ids);
    let (mut chunk, mut block) = (0, 0);
    for (index, node) in t.nodes.iter().enumerate() {
        assert_eq!((node.chunks.start, node.blocks.start), (chunk, block));
        assert!(!node.chunks.is_empty());
        assert_eq!(node.blocks.len(), node.chunks.len().div_ceil(64));
        (chunk, block) = (node.chunks.end, node.blocks.end);
        check_distances(t, index, node);
    }
    assert_eq!((chunk as usize, block as usize), (t.nr_chunks, t.nr_blocks));
    for (id, place) in t.places.iter().enumerate() {
        check_place(t, id, place);
    }
    let mut cores = t.places.iter().map(|place| place.siblings.len());
    assert_eq!(t.has_smt, cores.any(|len| len > 1));
}

fn check_distances(t: &Topology, index: usize, node: &Node) {
    assert_eq!(node.dist.len(), t.nodes.len());
    assert_eq!(node.dist[index], 10);
    let dist = |other: &u8| node.dist[usize::from(*other)];
    assert!(node.order.is_sorted_by_key(dist), "nearest first");
    let mut all: Vec<usize> = node.order.iter().map(|other| usize::from(*other)).collect();
    all.push(index);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..t.nodes.len()), "each other node once");
}

fn check_place(t: &Topology, id: usize, place: &Place) {
    let chunk = &t.chunks[usize::from(place.chunk)];
    let pos = chunk.cpus.start + place.bit;
    assert_eq!(usize::from(t.order[usize::from(pos)]), id);
    assert!(chunk.cpus.contains(&pos) && place.siblings.contains(&pos));
    assert!(place.siblings.start >= chunk.cpus.start && place.siblings.end <= chunk.cpus.end);
    assert!(place.llc.contains(&place.chunk));
    assert_eq!(chunk.node, place.node);
    let of = |pos: u16| &t.places[usize::from(t.order[usize::from(pos)])];
    for other in place.siblings.clone() {
        assert_eq!(of(other).siblings, place.siblings);
    }
    for other in place.llc.clone() {
        assert_eq!(of(t.chunks[usize::from(other)].cpus.start).llc, place.llc);
    }
    if usize::from(place.chunk) >= t.nr_chunks {
        assert_eq!((chunk.cpus.len(), place.llc.len()), (1, 1), "alone");
        assert_eq!((place.node, place.node_id), (0, 0));
        return;
    }
    let node = &t.nodes[usize::from(place.node)];
    assert_eq!(node.id, place.node_id);
    assert!(node.chunks.start <= place.llc.start && place.llc.end <= node.chunks.end);
}

#[test]
fn two_sockets_with_threads_numbered_across_cores() {
    let m = Machine::new("t2", "0-7", "0-7");
    for (cpus, siblings, socket) in [
        ([0, 4], "0,4", "0-1,4-5"),
        ([1, 5], "1,5", "0-1,4-5"),
        ([2, 6], "2,6", "2-3,6-7"),
        ([3, 7], "3,7", "2-3,6-7"),
    ] {
        m.cpus(&cpus, siblings, socket, Some(socket));
    }
    m.write("node/node0/cpulist", "0-1,4-5");
    m.write("node/node1/cpulist", "2-3,6-7");
    let t = m.read();
    assert_eq!(t.order, [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!((counts(&t), t.has_smt), ((8, 2, 2), true));
    assert_eq!(
        t.places[6],
        Place {
            chunk: 1,
            bit: 1,
            llc: 1..2,
            node: 1,
            node_id: 1,
            siblings: 4..6,
        }
    );
}

#[test]
fn several_llcs_in_a_node() {
    let m = Machine::new("ccx", "0-7", "0-7");
    m.cpus(&[0, 1, 2, 3], "", "0-7", Some("0-3"));
    m.cpus(&[4, 5, 6, 7], "", "0-7", Some("4-7"));
    m.write("node/node0/cpulist", "0-7");
    let t = m.read();
    assert_eq!((counts(&t), t.has_smt), ((8, 2, 1), false));
    assert_eq!(llc(&t, 5), [4, 5, 6, 7]);
    assert_eq!(node(&t, 0).len(), 8);
}

#[test]
fn an_llc_that_spans_nodes_is_cut_at_their_border() {
    let m = Machine::new("t1", "0-7", "0-7");
    m.cpus(&[0, 1, 2, 3, 4, 5, 6, 7], "", "0-7", Some("0-7"));
    m.write("node/node0/cpulist", "0-3");
    m.write("node/node1/cpulist", "4-7");
    let t = m.read();
    assert_eq!(counts(&t), (8, 2, 2));
    assert_eq!(llc(&t, 4), [4, 5, 6, 7]);
}

#[test]
fn no_numa_is_one_node_and_no_cache_one_llc_per_package() {
    let m = Machine::new("t5", "0-3", "0-3");
    m.cpus(&[0, 1], "", "0-1", None);
    m.cpus(&[2, 3], "", "2-3", None);
    let t = m.read();
    assert_eq!(counts(&t), (4, 2, 1));
    assert_eq!(llc(&t, 3), [2, 3]);
    assert_eq!((node(&t, 0).len(), t.nodes[0].id), (4, 0));
}

#[test]
fn nothing_but_a_list_of_cpus_is_one_llc() {
    let t = Machine::new("bare", "0-3", "0-3").read();
    assert_eq!(t.order, [0, 1, 2, 3]);
    assert_eq!(counts(&t), (4, 1, 1));
}

#[test]
fn one_cpu() {
    let m = Machine::new("t4", "0", "0");
    m.cpus(&[0], "0", "0", Some("0"));
    let t = m.read();
    assert_eq!((t.order.len(), counts(&t)), (1, (1, 1, 1)));
    assert_eq!(
        (&t.nodes[0].order[..], &t.nodes[0].dist[..]),
        (&[][..], &[10][..])
    );
}

#[test]
fn offline_and_missing_cpus_come_last_and_alone() {
    let m = Machine::new("sparse", "0-2,4-7", "0,2,4-5");
    m.cpus(&[0, 2, 4, 5], "", "0,2,4-5", Some("0,2,4-5"));
    m.write("node/node0/cpulist", "0,2,4-5");
    let t = m.read();
    assert_eq!(t.order, [0, 2, 4, 5, 1, 3, 6, 7]);
    assert_eq!((counts(&t), t.nr_chunks), ((4, 1, 1), 1));
    assert_eq!(llc(&t, 5), [0, 2, 4, 5]);
    assert_eq!(llc(&t, 3), [3]);
    assert_eq!(node(&t, 0), [0, 2, 4, 5]);
}

#[test]
fn node_ids_with_gaps_and_nodes_without_cpus() {
    let m = Machine::new("gaps", "0-1", "0-1");
    m.cpus(&[0], "0", "0", Some("0"));
    m.cpus(&[1], "1", "1", Some("1"));
    m.write("node/node2/cpulist", "1");
    m.write("node/node5/cpulist", "");
    m.write("node/node8/cpulist", "0");
    m.write("node/node2/distance", "10 17 28");
    m.write("node/node5/distance", "17 10 17");
    m.write("node/node8/distance", "29 17 10");
    let t = m.read();
    assert_eq!(t.order, [1, 0]);
    assert_eq!([t.places[0].node_id, t.places[1].node_id], [8, 2]);
    assert_eq!(t.nodes[0].dist, [10, 28]);
    assert_eq!(t.nodes[1].dist, [29, 10]);
}

#[test]
fn the_last_level_is_the_third_or_the_highest_below() {
    let m = Machine::new("levels", "0-3", "0-3");
    m.cpus(&[0, 1], "", "0-3", Some("0-1"));
    for cpu in [0, 1] {
        m.write(&format!("cpu/cpu{cpu}/cache/index4/level"), "4");
        m.write(&format!("cpu/cpu{cpu}/cache/index4/shared_cpu_list"), "0-3");
    }
    for cpu in [2, 3] {
        m.write(&format!("cpu/cpu{cpu}/cache/index0/level"), "2");
        m.write(&format!("cpu/cpu{cpu}/cache/index0/shared_cpu_list"), "2-3");
    }
    let t = m.read();
    assert_eq!((llc(&t, 0), llc(&t, 2)), (&[0, 1][..], &[2, 3][..]));
}

#[test]
fn too_many_cpus_are_a_clear_error() {
    assert_eq!(
        Machine::new("many", "0-1024", "0-7").error(),
        "this machine has CPU ids up to 1024, the scheduler supports 1024 CPUs"
    );
}

#[test]
fn too_many_nodes_are_a_clear_error() {
    let m = Machine::new("nodes", "0-64", "0-64");
    for node in 0..65 {
        m.write(&format!("node/node{node}/cpulist"), &node.to_string());
    }
    assert_eq!(
        m.error(),
        "this machine has 65 NUMA nodes with CPUs, the scheduler supports 64"
    );
}

#[test]
fn an_unreadable_list_is_named() {
    let error = Machine::new("junk", "0-3", "zero").error();
    assert!(
        error.contains("cpu/online") && error.contains("zero"),
        "{error}"
    );
}

#[test]
fn the_machine_of_this_test_can_be_read() {
    check(&Topology::read(Path::new("/")).expect("a Linux machine"));
}
