// SPDX-License-Identifier: GPL-2.0-only
//! What `scx_eevdfx topology` says of a machine.

use serde_json::{Value, json, to_value};

use super::super::report::Report;
use super::machine::Machine;

fn text(m: &Machine) -> String {
    Report::new(&m.read()).to_string()
}

fn json(m: &Machine) -> Value {
    to_value(Report::new(&m.read())).expect("serializable")
}

#[test]
fn text_names_cores_where_they_have_threads() {
    let m = Machine::t2("report-t2", "0-9");
    m.write("node/node0/distance", "10 21");
    m.write("node/node1/distance", "21 10");
    assert_eq!(
        text(&m),
        "8 CPUs online: 0-7; 2 offline: 8-9
4 cores, 2 LLCs, 2 nodes
node 0: CPUs 0-1,4-5
  distances: 21 to node 1
  LLC: CPUs 0-1,4-5; cores 0,4 1,5
node 1: CPUs 2-3,6-7
  distances: 21 to node 0
  LLC: CPUs 2-3,6-7; cores 2,6 3,7
"
    );
}

#[test]
fn text_of_the_smallest_machine() {
    let m = Machine::new("report-t4", "0", "0");
    assert_eq!(
        text(&m),
        "1 CPU online: 0\n1 core, 1 LLC, 1 node\nnode 0: CPUs 0\n  LLC: CPUs 0\n"
    );
}

#[test]
fn distances_are_told_nearest_first_by_the_kernels_ids() {
    let m = Machine::new("report-far", "0-2", "0-2");
    for (node, cpu, row) in [(1, 0, "10 40 20"), (4, 1, "40 10 30"), (6, 2, "20 30 10")] {
        m.write(&format!("node/node{node}/cpulist"), &cpu.to_string());
        m.write(&format!("node/node{node}/distance"), row);
    }
    assert!(text(&m).contains("  distances: 20 to node 6, 40 to node 4\n"));
    assert_eq!(
        json(&m)["nodes"][0]["distances"],
        json!([{ "node": 6, "distance": 20 }, { "node": 4, "distance": 40 }])
    );
}

#[test]
fn json_has_all_that_the_text_has() {
    let m = Machine::t2("report-json", "0-8");
    let llc = |cores: Value| json!([{ "cores": cores }]);
    let distance = |node: u16| json!([{ "node": node, "distance": 20 }]);
    assert_eq!(
        json(&m),
        json!({
            "nr_cpus": 8,
            "offline_cpus": [8],
            "nr_cores": 4,
            "nr_llcs": 2,
            "nr_nodes": 2,
            "nodes": [
                { "id": 0, "distances": distance(1), "llcs": llc(json!([[0, 4], [1, 5]])) },
                { "id": 1, "distances": distance(0), "llcs": llc(json!([[2, 6], [3, 7]])) },
            ],
        })
    );
}

#[test]
fn several_llcs_of_a_node_and_one_that_is_wider_than_a_word_are_told_apart() {
    let m = Machine::new("report-wide", "0-79", "0-79");
    let wide: Vec<u16> = (0..70).collect();
    m.cpus(&wide, "", "", Some("0-69"));
    let narrow: Vec<u16> = (70..80).collect();
    m.cpus(&narrow, "", "", Some("70-79"));
    assert!(text(&m).ends_with("node 0: CPUs 0-79\n  LLC: CPUs 0-69\n  LLC: CPUs 70-79\n"));
}
