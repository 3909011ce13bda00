// SPDX-License-Identifier: GPL-2.0-only
//! What becomes of the parts of a machine; larger and stranger ones are in shapes.rs.

use super::*;

mod machine;
mod shapes;

use machine::{Machine, check, counts, llc, node};

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
        m.cache(cpu, 4, "Unified", "0-3");
    }
    for cpu in [2, 3] {
        m.cache(cpu, 1, "Data", &cpu.to_string());
        m.cache(cpu, 2, "Unified", "2-3");
        m.cache(cpu, 3, "Instruction", "0-3");
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
