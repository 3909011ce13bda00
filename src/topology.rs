// SPDX-License-Identifier: GPL-2.0-only
//! Decides which CPUs belong together: cores, last-level caches (LLCs) and NUMA nodes. What is known
//! of the machine becomes the tables that BPF works with, described in bpf/intf.h.
//!
//! CPUs without a topology (offline, or a hole in the numbering) come last, each alone, because
//! nothing is known of them; when one comes online the scheduler restarts and reads again.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, bail};

mod sysfs;
#[cfg(test)]
mod tests;

use sysfs::{Cpu, Distances, Machine};

/// CPU ids and nodes that the tables have room for; as in bpf/intf.h.
pub const MAX_CPUS: usize = 1024;
#[allow(missing_docs)]
pub const MAX_NODES: usize = 64;

/// CPUs of a chunk and chunks of a block: the bits of a word.
const WORD: usize = 64;

/// Where one CPU stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its chunk.
    pub chunk: u16,
    /// Its bit in the chunk.
    pub bit: u16,
    /// Chunks of its LLC.
    pub llc: Range<u16>,
    /// Index of its node; 0 without a topology.
    pub node: u16,
    /// The node's id in the kernel; 0 without a topology.
    pub node_id: u16,
    /// Positions of its core's CPUs.
    pub siblings: Range<u16>,
}

/// At most 64 CPUs of one LLC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Positions in [`Topology::order`].
    pub cpus: Range<u16>,
    /// Index of its node.
    pub node: u16,
}

/// A node that has CPUs in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// In the kernel.
    pub id: u16,
    /// Its chunks.
    pub chunks: Range<u16>,
    /// Its blocks, of 64 chunks each but the last.
    pub blocks: Range<u16>,
    /// Indices of the other nodes, nearest first.
    pub order: Vec<u8>,
    /// Distance to each node, by index.
    pub dist: Vec<u8>,
}

/// The machine's CPUs.
#[derive(Debug, Default)]
pub struct Topology {
    /// All CPU ids below the kernel's nr_cpu_ids, sorted by node, LLC, core and id.
    pub order: Vec<u16>,
    /// By CPU id; as long as `order`.
    pub places: Vec<Place>,
    /// Those of the nodes, then one for each CPU without a topology.
    pub chunks: Vec<Chunk>,
    /// By index, in order of their ids.
    pub nodes: Vec<Node>,
    /// CPUs in use.
    pub nr_online: usize,
    /// CPUs that are not in use but may come.
    pub offline: Vec<u16>,
    /// LLCs with a CPU in use.
    pub nr_llcs: usize,
    /// Chunks of the nodes.
    pub nr_chunks: usize,
    /// Blocks of the nodes.
    pub nr_blocks: usize,
    /// Whether a core has more than one CPU in use.
    pub has_smt: bool,
}

impl Topology {
    /// Reads the topology below `root` (`/` but in tests).
    ///
    /// # Errors
    /// Fails when sysfs does not list the CPUs, or there are more CPUs or nodes than supported.
    pub fn read(root: &Path) -> Result<Self> {
        let machine = sysfs::read(root)?;
        let last = machine.possible.last().copied().unwrap_or_default();
        if usize::from(last) >= MAX_CPUS {
            bail!("this machine has CPU ids up to {last}, the scheduler supports {MAX_CPUS} CPUs");
        }
        let nr_nodes = machine.cpus.chunk_by(|a, b| a.node == b.node).count();
        if nr_nodes > MAX_NODES {
            bail!(
                "this machine has {nr_nodes} NUMA nodes with CPUs, the scheduler supports {MAX_NODES}"
            );
        }
        Ok(Self::arrange(&machine, usize::from(last) + 1))
    }

    fn arrange(machine: &Machine, nr_cpu_ids: usize) -> Self {
        let mut topology = Topology {
            places: vec![Place::default(); nr_cpu_ids],
            nr_online: machine.cpus.len(),
            ..Topology::default()
        };
        for cpus in machine.cpus.chunk_by(|a, b| a.node == b.node) {
            topology.add_node(cpus);
        }
        topology.nr_chunks = topology.chunks.len();
        topology.set_distances(&machine.distances);
        let mut is_known = vec![false; nr_cpu_ids];
        for cpu in &machine.cpus {
            is_known[usize::from(cpu.id)] = true;
        }
        for id in (0..nr_cpu_ids as u16).filter(|id| !is_known[usize::from(*id)]) {
            topology.add_lone_cpu(id);
            if machine.possible.contains(&id) {
                topology.offline.push(id);
            }
        }
        topology
    }

    fn add_node(&mut self, cpus: &[Cpu]) {
        let first = self.chunks.len();
        for llc in cpus.chunk_by(|a, b| a.llc == b.llc) {
            self.add_llc(llc);
        }
        let nr_blocks = (self.chunks.len() - first).div_ceil(WORD);
        self.nodes.push(Node {
            id: cpus[0].node,
            chunks: range(first, self.chunks.len()),
            blocks: range(self.nr_blocks, self.nr_blocks + nr_blocks),
            order: Vec::new(),
            dist: Vec::new(),
        });
        self.nr_blocks += nr_blocks;
    }

    fn add_llc(&mut self, cpus: &[Cpu]) {
        let pieces = pieces(cpus);
        let llc = range(self.chunks.len(), self.chunks.len() + pieces.len());
        for piece in pieces {
            self.add_chunk(piece, &llc);
        }
        self.nr_llcs += 1;
    }

    fn add_chunk(&mut self, cpus: &[Cpu], llc: &Range<u16>) {
        let node = self.nodes.len() as u16;
        let chunk = self.chunks.len() as u16;
        let first = self.order.len();
        for core in cpus.chunk_by(|a, b| a.core == b.core) {
            let siblings = range(self.order.len(), self.order.len() + core.len());
            self.has_smt |= core.len() > 1;
            for cpu in core {
                self.places[usize::from(cpu.id)] = Place {
                    chunk,
                    bit: (self.order.len() - first) as u16,
                    llc: llc.clone(),
                    node,
                    node_id: cpu.node,
                    siblings: siblings.clone(),
                };
                self.order.push(cpu.id);
            }
        }
        self.chunks.push(Chunk {
            cpus: range(first, self.order.len()),
            node,
        });
    }

    fn add_lone_cpu(&mut self, id: u16) {
        let (pos, chunk) = (self.order.len(), self.chunks.len());
        self.places[usize::from(id)] = Place {
            chunk: chunk as u16,
            llc: range(chunk, chunk + 1),
            siblings: range(pos, pos + 1),
            ..Place::default()
        };
        self.chunks.push(Chunk {
            cpus: range(pos, pos + 1),
            node: 0,
        });
        self.order.push(id);
    }

    /// Of nodes equally far away the next one by index is nearest, counted from the own one on and
    /// round, so that what leaves several nodes does not all go to the first.
    fn set_distances(&mut self, distances: &Distances) {
        let ids: Vec<u16> = self.nodes.iter().map(|node| node.id).collect();
        for (own, node) in self.nodes.iter_mut().enumerate() {
            node.dist = ids
                .iter()
                .map(|id| distances.between(node.id, *id))
                .collect();
            node.order = (1..ids.len())
                .map(|step| ((own + step) % ids.len()) as u8)
                .collect();
            // Stable: keeps the round among equals.
            node.order
                .sort_by_key(|other| node.dist[usize::from(*other)]);
        }
    }
}

fn range(first: usize, end: usize) -> Range<u16> {
    first as u16..end as u16
}

/// Cuts an LLC into pieces that fit a word, between cores unless a single one is too large.
fn pieces(llc: &[Cpu]) -> Vec<&[Cpu]> {
    let mut pieces = Vec::new();
    let mut rest = llc;
    while rest.len() > WORD {
        let is_border = |at: &usize| rest[*at - 1].core != rest[*at].core;
        let at = (1..=WORD).rev().find(is_border).unwrap_or(WORD);
        let (piece, behind) = rest.split_at(at);
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}
