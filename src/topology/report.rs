// SPDX-License-Identifier: GPL-2.0-only
//! Decides how the topology is shown: as text for people, as JSON for scripts.
//!
//! The JSON's names are an interface: they may become more, but none changes.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Node, Topology};

/// What `scx_eevdfx topology` shows; CPUs and nodes by their ids in the kernel.
#[derive(Debug, Serialize)]
pub struct Report {
    nr_cpus: usize,
    offline_cpus: Vec<u16>,
    nr_cores: usize,
    nr_llcs: usize,
    nr_nodes: usize,
    nodes: Vec<NodeReport>,
}

#[derive(Debug, Serialize)]
struct NodeReport {
    id: u16,
    /// To the other nodes, nearest first.
    distances: Vec<Distance>,
    llcs: Vec<Llc>,
}

#[derive(Debug, Serialize)]
struct Distance {
    node: u16,
    distance: u8,
}

#[derive(Debug, Serialize)]
struct Llc {
    /// The CPUs of each.
    cores: Vec<Vec<u16>>,
}

impl Report {
    /// Describes `topology`.
    pub fn new(topology: &Topology) -> Self {
        let nodes: Vec<_> = topology
            .nodes
            .iter()
            .map(|node| NodeReport::new(topology, node))
            .collect();
        let llcs = nodes.iter().flat_map(|node| &node.llcs);
        Report {
            nr_cpus: topology.nr_online,
            offline_cpus: topology.offline.clone(),
            nr_cores: llcs.map(|llc| llc.cores.len()).sum(),
            nr_llcs: topology.nr_llcs,
            nr_nodes: nodes.len(),
            nodes,
        }
    }

    /// Writes it to stdout. That a reader closes the pipe early is no error.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn print(&self, as_json: bool) -> Result<()> {
        let text = if as_json {
            serde_json::to_string(self)? + "\n"
        } else {
            self.to_string()
        };
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to stdout")
            }
            _ => Ok(()),
        }
    }
}

impl NodeReport {
    fn new(topology: &Topology, node: &Node) -> Self {
        let mut llcs = Vec::new();
        let mut chunk = node.chunks.start;
        while chunk < node.chunks.end {
            let first = topology.order[usize::from(topology.chunks[usize::from(chunk)].cpus.start)];
            let llc = &topology.places[usize::from(first)].llc;
            llcs.push(Llc::new(topology, llc));
            chunk = llc.end;
        }
        let distances = node.order.iter().map(|other| Distance {
            node: topology.nodes[usize::from(*other)].id,
            distance: node.dist[usize::from(*other)],
        });
        NodeReport {
            id: node.id,
            distances: distances.collect(),
            llcs,
        }
    }
}

impl Llc {
    fn new(topology: &Topology, chunks: &Range<u16>) -> Self {
        let chunks = &topology.chunks[usize::from(chunks.start)..usize::from(chunks.end)];
        let mut cores = Vec::new();
        for chunk in chunks {
            let mut pos = chunk.cpus.start;
            while pos < chunk.cpus.end {
                let id = topology.order[usize::from(pos)];
                let core = &topology.places[usize::from(id)].siblings;
                cores.push(topology.order[usize::from(core.start)..usize::from(core.end)].to_vec());
                pos = core.end;
            }
        }
        Llc { cores }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.nodes.iter().flat_map(NodeReport::cpus);
        write!(f, "{} online: {}", count(self.nr_cpus, "CPU"), list(cpus))?;
        if !self.offline_cpus.is_empty() {
            let offline = list(self.offline_cpus.iter().copied());
            write!(f, "; {} offline: {offline}", self.offline_cpus.len())?;
        }
        writeln!(
            f,
            "\n{}, {}, {}",
            count(self.nr_cores, "core"),
            count(self.nr_llcs, "LLC"),
            count(self.nr_nodes, "node")
        )?;
        self.nodes.iter().try_for_each(|node| node.fmt(f))
    }
}

impl NodeReport {
    fn cpus(&self) -> impl Iterator<Item = u16> {
        self.llcs.iter().flat_map(Llc::cpus)
    }
}

impl Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "node {}: CPUs {}", self.id, list(self.cpus()))?;
        if !self.distances.is_empty() {
            let distances: Vec<String> = self
                .distances
                .iter()
                .map(|to| format!("{} to node {}", to.distance, to.node))
                .collect();
            writeln!(f, "  distances: {}", distances.join(", "))?;
        }
        self.llcs.iter().try_for_each(|llc| llc.fmt(f))
    }
}

impl Llc {
    fn cpus(&self) -> impl Iterator<Item = u16> {
        self.cores.iter().flatten().copied()
    }
}

/// Cores are listed where there is more to say than that each is a CPU.
impl Display for Llc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  LLC: CPUs {}", list(self.cpus()))?;
        if self.cores.iter().any(|core| core.len() > 1) {
            let cores: Vec<String> = self
                .cores
                .iter()
                .map(|core| list(core.iter().copied()))
                .collect();
            write!(f, "; cores {}", cores.join(" "))?;
        }
        writeln!(f)
    }
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The kernel's list format, `0-3,8,10-11`.
fn list(cpus: impl Iterator<Item = u16>) -> String {
    let sorted: Vec<u16> = cpus.collect::<BTreeSet<_>>().into_iter().collect();
    let ranges: Vec<String> = sorted
        .chunk_by(|a, b| a + 1 == *b)
        .map(|range| match range {
            [first, .., last] => format!("{first}-{last}"),
            _ => range[0].to_string(),
        })
        .collect();
    ranges.join(",")
}
