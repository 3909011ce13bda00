// SPDX-License-Identifier: GPL-2.0-only
//! Machines of any shape: it understands each as the kernel does, and runs on it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::guest::{assert_quiet, job, machine};
use crate::topology::Topology;

/// The shape first, as the guest sees it, so that the run is on what it says. Real time: 64 CPUs under TCG take a
/// minute to boot where they share two, so the work is small.
const SHAPE: &str = "
    cd /sys/devices/system
    echo cpus=$(nproc) nodes=$(ls -d node/node* | wc -l) node0=$(cat node/node0/cpulist)
    echo threads=$(cat cpu/cpu0/topology/thread_siblings_list) cores=$(cat cpu/cpu0/topology/core_siblings_list)
    echo distances=$(tr ' ' , <node/node0/distance)
    grep . node/node*/cpulist node/node*/distance cpu/cpu*/topology/thread_siblings_list \\
        cpu/cpu*/cache/index3/shared_cpu_list
    scx_eevdfx topology 2>/tmp/stderr >/dev/null; echo shown=$?
    echo topology=$(scx_eevdfx topology --json 2>>/tmp/stderr) stderr=$(wc -l </tmp/stderr)
    start; hackbench -g 1 -l 10 >/dev/null; echo work=$?; stop";

#[test]
fn it_runs_on_any_shape_of_machine() {
    let shapes = [
        (Topology::t1(), ["8", "2", "0-3", "0", "0-7", "10,21"]),
        (Topology::t2(), ["8", "2", "0-3", "0-1", "0-3", "10,21"]),
        (Topology::t3(), ["8", "4", "0-1", "0", "0-1", "10,16,28,16"]),
        (
            Topology::triangle(),
            ["6", "3", "0-1", "0", "0-1", "10,30,20"],
        ),
        (
            Topology::large(),
            ["64", "4", "0-15", "0-1", "0-15", "10,16,32,32"],
        ),
        (Topology::t4(), ["1", "1", "0", "0", "0", "10"]),
        (Topology::t5(), ["8", "1", "0-7", "0", "0-3", "10"]),
    ];
    for (topology, expected) in shapes {
        let outcome = machine("7.3")
            .topology(topology.clone())
            .run(&job(SHAPE))
            .unwrap()
            .success();
        let value = |key| outcome.value(key).unwrap_or("missing");
        let keys = ["cpus", "nodes", "node0", "threads", "cores", "distances"];
        assert_eq!(keys.map(value), expected, "{topology:?}");
        assert_eq!(
            ["shown", "stderr", "work", "stopped"].map(value),
            ["0"; 4],
            "{topology:?}: {}",
            outcome.output
        );
        let shown: Value = serde_json::from_str(value("topology")).unwrap();
        assert_eq!(
            shown["nodes"],
            nodes_in_sysfs(&outcome.output),
            "{topology:?}"
        );
        for level in ["[WARN]", "[ERROR]"] {
            assert!(!outcome.output.contains(level), "{}", outcome.output);
        }
        assert_quiet(&outcome.dmesg);
        println!(
            "{topology:?}: {:?}, {:?} to boot",
            outcome.wall, outcome.boot
        );
    }
}

/// The nodes as `topology --json` is to show them, from `FILE:TEXT` lines. These guests have no gaps between their ids.
fn nodes_in_sysfs(lines: &str) -> Value {
    let files: BTreeMap<&str, &str> = lines.lines().filter_map(|l| l.split_once(':')).collect();
    let cpus_in = |file: String| cpus(files[file.as_str()]);
    let row = |node: usize| -> Vec<u64> {
        let words = files[format!("node/node{node}/distance").as_str()].split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let nr_nodes = row(0).len();
    let nodes = (0..nr_nodes).map(|node| {
        let row = row(node);
        let mut others: Vec<usize> = (1..nr_nodes).map(|step| (node + step) % nr_nodes).collect();
        others.sort_by_key(|other| row[*other]);
        let distances: Vec<Value> = others
            .iter()
            .map(|other| json!({ "node": other, "distance": row[*other] }))
            .collect();
        let all = cpus_in(format!("node/node{node}/cpulist"));
        let llcs = groups(&all, |cpu| {
            cpus_in(format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"))
        });
        let cores = |llc: &Vec<u32>| {
            groups(llc, |cpu| {
                cpus_in(format!("cpu/cpu{cpu}/topology/thread_siblings_list"))
            })
        };
        let llcs: Vec<Value> = llcs
            .iter()
            .map(|llc| json!({ "cores": cores(llc) }))
            .collect();
        json!({ "id": node, "distances": distances, "llcs": llcs })
    });
    nodes.collect()
}

/// Divides `cpus` by who shares something with whom; that others share it too does not matter.
fn groups(cpus: &[u32], shared_with: impl Fn(u32) -> Vec<u32>) -> Vec<Vec<u32>> {
    let mut groups = Vec::new();
    let mut rest = cpus.to_vec();
    while let Some(first) = rest.first() {
        let sharers = shared_with(*first);
        let (group, others) = rest.into_iter().partition(|cpu| sharers.contains(cpu));
        groups.push(group);
        rest = others;
    }
    groups
}

/// Reads `0-3,8`.
fn cpus(list: &str) -> Vec<u32> {
    let ranges = list.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse().unwrap()
    });
    ranges.flatten().collect()
}
