// SPDX-License-Identifier: GPL-2.0-only
//! Machines of any shape.

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};

use super::machine::{Machine, counts, llc, node};

/// `0,2,5`
fn list(cpus: &[u16]) -> String {
    let words: Vec<String> = cpus.iter().map(u16::to_string).collect();
    words.join(",")
}

/// One LLC of `nr_cores` cores of `threads` CPUs each, numbered from `first` on, core by core.
fn add_llc(m: &Machine, first: u16, nr_cores: u16, threads: u16) -> Vec<u16> {
    let all: Vec<u16> = (first..first + nr_cores * threads).collect();
    for core in all.chunks(threads.into()) {
        m.cpus(core, &list(core), "", Some(&list(&all)));
    }
    all
}

#[test]
fn cpu_and_node_ids_may_have_gaps_and_be_mixed() {
    let m = Machine::new("mixed", "0-9,40,90", "0-1,5,7,9,90");
    for cpus in [&[0, 5, 9][..], &[1, 7, 90]] {
        m.cpus(cpus, "", &list(cpus), Some(&list(cpus)));
    }
    m.write("node/node3/cpulist", "0,5,9");
    m.write("node/node12/cpulist", "1,7,90");
    let t = m.read();
    assert_eq!(t.order.len(), 91);
    assert_eq!(counts(&t), (6, 2, 2));
    assert_eq!([t.nodes[0].id, t.nodes[1].id], [3, 12]);
    assert_eq!(
        (node(&t, 0), node(&t, 1)),
        (&[0, 5, 9][..], &[1, 7, 90][..])
    );
    assert_eq!(t.offline, [2, 3, 4, 6, 8, 40]);
}

#[test]
fn cpus_that_sysfs_puts_into_no_node_are_on_node_0() {
    let m = Machine::new("nodeless", "0-3", "0-3");
    m.write("node/node1/cpulist", "2-3");
    m.write("node/node1/distance", "10");
    let t = m.read();
    assert_eq!([t.nodes[0].id, t.nodes[1].id], [0, 1]);
    assert_eq!(node(&t, 0), [0, 1]);
    assert_eq!(t.nodes[1].dist, [20, 10]);
}

#[test]
fn a_core_with_one_of_two_threads_offline_is_a_core_of_one() {
    let m = Machine::new("half", "0-3", "0-2");
    m.cpus(&[0, 1], "0-1", "0-2", Some("0-2"));
    m.cpus(&[2], "2", "0-2", Some("0-2"));
    let t = m.read();
    assert!(t.has_smt);
    assert_eq!(
        (t.places[1].siblings.clone(), t.places[2].siblings.clone()),
        (0..2, 2..3)
    );
    m.write("cpu/online", "0,2");
    m.cpus(&[0], "0", "0,2", Some("0,2"));
    assert!(!m.read().has_smt);
}

#[test]
fn distances_need_not_be_symmetric() {
    let m = Machine::new("asymmetric", "0-3", "0-3");
    let rows = [
        "10 40 20 30",
        "20 10 20 20",
        "21 22 10 11",
        "255 254 4000 10",
    ];
    for (node, row) in rows.iter().enumerate() {
        m.write(&format!("node/node{node}/cpulist"), &node.to_string());
        m.write(&format!("node/node{node}/distance"), row);
    }
    m.write("node/online", "0-3");
    let t = m.read();
    assert_eq!(t.nodes[0].order, [2, 3, 1]);
    assert_eq!(
        t.nodes[1].order,
        [2, 3, 0],
        "equals go round from the next one"
    );
    assert_eq!(t.nodes[2].order, [3, 0, 1]);
    assert_eq!(t.nodes[3].order, [1, 0, 2]);
    assert_eq!(t.nodes[3].dist, [255, 254, 255, 10]);
}

#[test]
fn a_distance_file_that_makes_no_sense_counts_as_none() {
    let m = Machine::new("distance", "0-2", "0-2");
    for node in 0..3 {
        m.write(&format!("node/node{node}/cpulist"), &node.to_string());
        m.write(&format!("node/node{node}/distance"), "17 17 17");
    }
    m.write("node/node0/distance", "10 17 17");
    for bad in [
        "",
        "10",
        "17 10",
        "17 10 17 17",
        "17 10 x",
        "17 10 -17",
        "9 10 17",
        "17,10,17",
    ] {
        m.write("node/node1/distance", bad);
        let t = m.read();
        assert_eq!(t.nodes[0].dist, [10, 17, 17], "{bad}");
        assert_eq!(t.nodes[1].dist, [20, 10, 20], "{bad}");
        assert_eq!(t.nodes[1].order, [2, 0], "{bad}");
        assert_eq!(
            t.nodes[2].dist,
            [17, 17, 10],
            "{bad}: a node is near to itself"
        );
    }
}

#[test]
fn memory_without_cpus_has_a_place_in_the_distances_and_none_in_the_tables() {
    let m = Machine::new("memory", "0-1", "0-1");
    for (node, cpus, row) in [
        (0, "", "10 50 60 70"),
        (1, "0", "50 10 30 40"),
        (4, "", "60 30 10 20"),
        (6, "1", "70 41 20 10"),
    ] {
        m.write(&format!("node/node{node}/cpulist"), cpus);
        m.write(&format!("node/node{node}/distance"), row);
    }
    m.write("node/online", "0-1,4,6");
    m.write("node/possible", "0-7");
    m.write("node/has_memory", "0,4");
    let t = m.read();
    assert_eq!([t.nodes[0].id, t.nodes[1].id], [1, 6]);
    assert_eq!(
        [&t.nodes[0].dist[..], &t.nodes[1].dist[..]],
        [[10, 40], [41, 10]]
    );
}

#[test]
fn five_hundred_cpus_on_sixteen_nodes() {
    let m = Machine::new("big", "0-511", "0-511");
    for n in 0..16u16 {
        for llc in 0..4 {
            add_llc(&m, n * 32 + llc * 8, 4, 2);
        }
        m.write(
            &format!("node/node{n}/cpulist"),
            &format!("{}-{}", n * 32, n * 32 + 31),
        );
        // Two boards of eight nodes.
        let row: Vec<&str> = (0..16)
            .map(|to| match (n == to, n / 8 == to / 8) {
                (true, _) => "10",
                (_, true) => "16",
                _ => "32",
            })
            .collect();
        m.write(&format!("node/node{n}/distance"), &row.join(" "));
    }
    let t = m.read();
    assert_eq!(
        (counts(&t), t.nr_chunks, t.nr_blocks),
        ((512, 64, 16), 64, 16)
    );
    assert_eq!(
        t.nodes[13].order,
        [14, 15, 8, 9, 10, 11, 12, 0, 1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(t.places[511].siblings, 510..512);
}

#[test]
fn an_llc_of_more_than_64_cpus_is_cut_between_cores() {
    for (threads, nr_cores, sizes) in [(1, 100, [64, 36]), (2, 48, [64, 32]), (3, 30, [63, 27])] {
        let last = threads * nr_cores - 1;
        let m = Machine::new(
            &format!("wide{threads}"),
            &format!("0-{last}"),
            &format!("0-{last}"),
        );
        let all = add_llc(&m, 0, nr_cores, threads);
        let t = m.read();
        let cut: Vec<usize> = t.chunks.iter().map(|chunk| chunk.cpus.len()).collect();
        assert_eq!(cut, sizes);
        assert_eq!((llc(&t, 0), llc(&t, last.into())), (&all[..], &all[..]));
        assert_eq!((t.nr_llcs, t.nr_blocks), (1, 1));
    }
}

#[test]
fn a_node_of_more_than_64_llcs_has_several_blocks() {
    let m = Machine::new("llcs", "0-141", "0-141");
    for llc in 0..71 {
        add_llc(&m, 2 * llc, 2, 1);
    }
    m.write("node/node0/cpulist", "0-139");
    m.write("node/node1/cpulist", "140-141");
    let t = m.read();
    assert_eq!((counts(&t), t.nr_blocks), ((142, 71, 2), 3));
    assert_eq!(
        (t.nodes[0].blocks.clone(), t.nodes[1].blocks.clone()),
        (0..2, 2..3)
    );
}

#[test]
fn the_largest_machine_fits() {
    let m = Machine::new("limit", "0-1023", "0-1023");
    for n in 0..64 {
        m.write(
            &format!("node/node{n}/cpulist"),
            &format!("{}-{}", n * 16, n * 16 + 15),
        );
    }
    assert_eq!(counts(&m.read()), (1024, 64, 64));
}

/// A CPU of a random machine, by what it shares with others.
#[derive(Clone, Debug)]
struct Cpu {
    is_online: bool,
    node: u16,
    llc: u16,
    core: u16,
}

fn any_cpu() -> impl Strategy<Value = Cpu> {
    (0..4u8, 0..4u16, 0..3u16, 0..6u16).prop_map(|(state, node, llc, core)| Cpu {
        is_online: state != 0,
        node,
        llc,
        core,
    })
}

fn any_distance_row() -> impl Strategy<Value = String> {
    let numbers = vec(5..300u16, 0..6).prop_map(|row| list(&row).replace(',', " "));
    let row = vec(10..300u16, 4).prop_map(|row| list(&row).replace(',', " "));
    prop_oneof![row, numbers, "[ 0-9a-z-]{0,8}"]
}

/// Cores and LLCs reach beyond the nodes' borders at will; node ids have gaps.
fn random_machine(cpus: &[Cpu], rows: &[String]) -> Machine {
    let online = |with: &dyn Fn(&Cpu) -> bool| {
        let ids = (0..)
            .zip(cpus)
            .filter(|(_, cpu)| cpu.is_online && with(cpu));
        list(&ids.map(|(id, _)| id).collect::<Vec<u16>>())
    };
    let all = format!("0-{}", cpus.len() - 1);
    let m = Machine::new("random", &all, &online(&|_| true));
    for (id, cpu) in (0..).zip(cpus).filter(|(_, cpu)| cpu.is_online) {
        let siblings = online(&|other| other.core == cpu.core);
        let llc = online(&|other| other.llc == cpu.llc);
        m.cpus(&[id], &siblings, "", Some(&llc));
    }
    for (node, row) in (0..).zip(rows) {
        let dir = format!("node/node{}", 2 * node + 1);
        m.write(&format!("{dir}/cpulist"), &online(&|cpu| cpu.node == node));
        m.write(&format!("{dir}/distance"), row);
    }
    m
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_tables_say_what_sysfs_says(
        mut cpus in vec(any_cpu(), 1..40),
        rows in vec(any_distance_row(), 4),
    ) {
        cpus[0].is_online = true;
        let t = random_machine(&cpus, &rows).read();
        let online = || cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_online);
        for (a, cpu) in online() {
            prop_assert_eq!(t.places[a].node_id, 2 * cpu.node + 1);
            for (b, other) in online() {
                let same_llc = (cpu.node, cpu.llc) == (other.node, other.llc);
                prop_assert_eq!(t.places[a].llc == t.places[b].llc, same_llc);
                let same_core = same_llc && cpu.core == other.core;
                prop_assert_eq!(t.places[a].siblings == t.places[b].siblings, same_core);
            }
        }
    }
}
