// SPDX-License-Identifier: GPL-2.0-only
//! A machine made of files, and what its tables must keep to.

use crate::fake_root::FakeRoot;

use super::super::*;

/// As in bpf/intf.h; the limits on CPUs and nodes see to it.
const MAX_BLOCKS: usize = 128;

/// A sysfs tree in a temporary folder.
pub struct Machine(FakeRoot);

impl Machine {
    pub fn new(test: &str, possible: &str, online: &str) -> Self {
        let machine = Machine(FakeRoot::new(&format!("topology-{test}")));
        machine.write("cpu/possible", possible);
        machine.write("cpu/online", online);
        machine
    }

    pub fn write(&self, file: &str, text: &str) {
        self.0
            .write(&format!("sys/devices/system/{file}"), &format!("{text}\n"));
    }

    /// Gives each CPU of `cpus` this core, package and LLC, of level 3. Empty text leaves a file out.
    pub fn cpus(&self, cpus: &[u16], siblings: &str, package: &str, llc: Option<&str>) {
        for cpu in cpus {
            let topology = format!("cpu/cpu{cpu}/topology");
            for (file, text) in [
                ("thread_siblings_list", siblings),
                ("package_cpus_list", package),
            ] {
                if !text.is_empty() {
                    self.write(&format!("{topology}/{file}"), text);
                }
            }
            if let Some(llc) = llc {
                self.cache(*cpu, 3, "Unified", llc);
            }
        }
    }

    pub fn cache(&self, cpu: u16, level: u16, kind: &str, shared: &str) {
        let index = if kind == "Instruction" { 9 } else { level };
        let dir = format!("cpu/cpu{cpu}/cache/index{index}");
        self.write(&format!("{dir}/level"), &level.to_string());
        self.write(&format!("{dir}/type"), kind);
        self.write(&format!("{dir}/shared_cpu_list"), shared);
    }

    pub fn read(&self) -> Topology {
        let topology = Topology::read(self.0.path()).expect("a readable machine");
        check(&topology);
        topology
    }

    pub fn error(&self) -> String {
        Topology::read(self.0.path())
            .expect_err("an error")
            .to_string()
    }
}

/// The CPUs of the LLC of CPU `id`.
pub fn llc(t: &Topology, id: usize) -> &[u16] {
    cpus_of(t, &t.places[id].llc)
}

/// The CPUs of the node with this index.
pub fn node(t: &Topology, index: usize) -> &[u16] {
    cpus_of(t, &t.nodes[index].chunks)
}

fn cpus_of<'a>(t: &'a Topology, chunks: &Range<u16>) -> &'a [u16] {
    let (first, last) = (usize::from(chunks.start), usize::from(chunks.end) - 1);
    let range = t.chunks[first].cpus.start..t.chunks[last].cpus.end;
    &t.order[usize::from(range.start)..usize::from(range.end)]
}

/// How many CPUs in use, LLCs and nodes.
pub fn counts(t: &Topology) -> (usize, usize, usize) {
    (t.nr_online, t.nr_llcs, t.nodes.len())
}

/// What BPF relies on whatever the machine looks like.
pub fn check(t: &Topology) {
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
