// SPDX-License-Identifier: GPL-2.0-only
//! Machines made of files.

use std::{env, fs, process};

use super::*;

/// A sysfs tree in a temporary folder.
struct Machine(PathBuf);

impl Machine {
    fn new(test: &str, possible: &str, online: &str) -> Self {
        let dir = env::temp_dir().join(format!("eevdfx-topology-{}-{test}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        let machine = Machine(dir);
        machine.write("cpu/possible", possible);
        machine.write("cpu/online", online);
        machine
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join("sys/devices/system").join(file);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("temp folder");
        fs::write(path, format!("{text}\n")).expect("temp file");
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
        let topology = Topology::read(&self.0, 1024).expect("a readable machine");
        check(&topology);
        topology
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What BPF relies on whatever the machine looks like.
fn check(topology: &Topology) {
    assert_eq!(topology.order.len(), topology.places.len());
    for (id, place) in topology.places.iter().enumerate() {
        assert_eq!(
            usize::from(topology.order[usize::from(place.pos)]),
            id,
            "order and pos agree"
        );
        for (first, end) in [place.llc, place.node] {
            assert!(
                first <= place.pos && place.pos < end,
                "CPU {id} is in its own ranges"
            );
            assert!(usize::from(end) <= topology.order.len());
        }
        assert!(
            place.node.0 <= place.llc.0 && place.llc.1 <= place.node.1,
            "LLCs nest in nodes"
        );
        for other in place.llc.0..place.llc.1 {
            assert_eq!(
                topology.places[usize::from(topology.order[usize::from(other)])].llc,
                place.llc
            );
        }
    }
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
    assert_eq!((t.nr_online, t.nr_llcs, t.nr_nodes), (8, 2, 2));
    assert_eq!(
        t.places[6],
        Place {
            pos: 5,
            llc: (4, 8),
            node: (4, 8),
            node_id: 1
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
    assert_eq!((t.nr_llcs, t.nr_nodes), (2, 1));
    assert_eq!(
        t.places[5],
        Place {
            pos: 5,
            llc: (4, 8),
            node: (0, 8),
            node_id: 0
        }
    );
}

#[test]
fn an_llc_that_spans_nodes_is_cut_at_their_border() {
    let m = Machine::new("t1", "0-7", "0-7");
    m.cpus(&[0, 1, 2, 3, 4, 5, 6, 7], "", "0-7", Some("0-7"));
    m.write("node/node0/cpulist", "0-3");
    m.write("node/node1/cpulist", "4-7");
    let t = m.read();
    assert_eq!((t.nr_llcs, t.nr_nodes), (2, 2));
    assert_eq!(t.places[4].llc, (4, 8));
}

#[test]
fn no_numa_is_one_node_and_no_cache_one_llc_per_package() {
    let m = Machine::new("t5", "0-3", "0-3");
    m.cpus(&[0, 1], "", "0-1", None);
    m.cpus(&[2, 3], "", "2-3", None);
    let t = m.read();
    assert_eq!((t.nr_llcs, t.nr_nodes), (2, 1));
    assert_eq!(
        t.places[3],
        Place {
            pos: 3,
            llc: (2, 4),
            node: (0, 4),
            node_id: 0
        }
    );
}

#[test]
fn nothing_but_a_list_of_cpus_is_one_llc() {
    let t = Machine::new("bare", "0-3", "0-3").read();
    assert_eq!(
        (t.order.as_slice(), t.nr_llcs, t.nr_nodes),
        ([0, 1, 2, 3].as_slice(), 1, 1)
    );
}

#[test]
fn one_cpu() {
    let m = Machine::new("t4", "0", "0");
    m.cpus(&[0], "0", "0", Some("0"));
    let t = m.read();
    assert_eq!(
        (t.order.len(), t.nr_online, t.nr_llcs, t.nr_nodes),
        (1, 1, 1, 1)
    );
}

#[test]
fn offline_and_missing_cpus_come_last_and_alone() {
    let m = Machine::new("sparse", "0-2,4-7", "0,2,4-5");
    m.cpus(&[0, 2, 4, 5], "", "0,2,4-5", Some("0,2,4-5"));
    m.write("node/node0/cpulist", "0,2,4-5");
    let t = m.read();
    assert_eq!(t.order, [0, 2, 4, 5, 1, 3, 6, 7]);
    assert_eq!(t.nr_online, 4);
    assert_eq!(t.places[5].llc, (0, 4));
    assert_eq!(
        t.places[3],
        Place {
            pos: 5,
            llc: (5, 6),
            node: (5, 6),
            node_id: 0
        }
    );
}

#[test]
fn node_ids_with_gaps_and_nodes_without_cpus() {
    let m = Machine::new("gaps", "0-1", "0-1");
    m.cpus(&[0], "0", "0", Some("0"));
    m.cpus(&[1], "1", "1", Some("1"));
    m.write("node/node2/cpulist", "1");
    m.write("node/node5/cpulist", "");
    m.write("node/node8/cpulist", "0");
    let t = m.read();
    assert_eq!((t.order.as_slice(), t.nr_nodes), ([1, 0].as_slice(), 2));
    assert_eq!([t.places[0].node_id, t.places[1].node_id], [8, 2]);
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
    assert_eq!(m.read().places[2].llc, (2, 4));
    assert_eq!(m.read().places[0].llc, (0, 2));
}

#[test]
fn too_many_cpus_are_a_clear_error() {
    let m = Machine::new("many", "0-1024", "0-7");
    let error = Topology::read(&m.0, 1024)
        .expect_err("too many")
        .to_string();
    assert_eq!(
        error,
        "this machine has CPU ids up to 1024, the scheduler supports 1024 CPUs"
    );
}

#[test]
fn an_unreadable_list_is_named() {
    let m = Machine::new("junk", "0-3", "zero");
    let error = Topology::read(&m.0, 1024).expect_err("junk").to_string();
    assert!(
        error.contains("cpu/online") && error.contains("zero"),
        "{error}"
    );
}

#[test]
fn the_machine_of_this_test_can_be_read() {
    check(&Topology::read(Path::new("/"), 1024).expect("a Linux machine"));
}
