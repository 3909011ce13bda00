// SPDX-License-Identifier: GPL-2.0-only
//! Decides which CPUs belong together: cores, last-level caches (LLCs) and NUMA nodes, from sysfs.
//!
//! Tolerant of what real machines lack: without NUMA there is one node, without cache information
//! one LLC per package. An LLC that spans nodes is cut at the node's border, so that LLCs nest in
//! nodes. Ids in sysfs are not relied on where they need not be unique: an LLC or a core is named
//! by the lowest CPU in it.
//!
//! CPUs without a topology (offline, or a hole in the numbering) come last, each alone, because
//! nothing is known of them; when one comes online the scheduler restarts and reads again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where a CPU stands. Ordered the way the table for BPF is: node, LLC, core, CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cpu {
    /// Node id in sysfs.
    node: u16,
    /// Lowest CPU of the LLC within the node.
    llc: u16,
    /// Lowest CPU of the core.
    core: u16,
    /// Kernel's CPU id.
    id: u16,
}

/// Positions of one CPU and of its surroundings in [`Topology::order`]; ranges are [first, end).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Of this CPU.
    pub pos: u16,
    /// Of its LLC.
    pub llc: (u16, u16),
    /// Of its node.
    pub node: (u16, u16),
    /// The node's id in the kernel; 0 for a CPU without a topology.
    pub node_id: u16,
}

/// The machine's CPUs.
#[derive(Debug)]
pub struct Topology {
    /// All CPU ids below the kernel's nr_cpu_ids, sorted by node, LLC, core and id.
    pub order: Vec<u16>,
    /// By CPU id; as long as `order`.
    pub places: Vec<Place>,
    /// CPUs in use.
    pub nr_online: usize,
    /// LLCs with a CPU in use.
    pub nr_llcs: usize,
    /// Nodes with a CPU in use.
    pub nr_nodes: usize,
}

impl Topology {
    /// Reads the topology below `root` (`/` but in tests). CPU ids must be below `max_cpus`.
    ///
    /// # Errors
    /// Fails when sysfs does not list the CPUs, or lists more than `max_cpus`.
    pub fn read(root: &Path, max_cpus: usize) -> Result<Self> {
        let dir = root.join("sys/devices/system/cpu");
        let online = required_list(&dir.join("online"))?;
        let possible = cpu_list(&dir.join("possible")).unwrap_or_else(|| online.clone());
        let nr_cpu_ids = possible
            .union(&online)
            .last()
            .map_or(0, |last| usize::from(*last) + 1);
        if nr_cpu_ids > max_cpus {
            bail!(
                "this machine has CPU ids up to {}, the scheduler supports {max_cpus} CPUs",
                nr_cpu_ids - 1
            );
        }
        let nodes = nodes(&root.join("sys/devices/system/node"));
        let mut cpus: Vec<Cpu> = online
            .iter()
            .map(|id| locate(&dir, *id, &online, &nodes))
            .collect();
        cpus.sort_unstable();
        Ok(Self::arrange(&cpus, nr_cpu_ids))
    }

    /// Lays out sorted `cpus`, and behind them every other id below `nr_cpu_ids` by itself.
    fn arrange(cpus: &[Cpu], nr_cpu_ids: usize) -> Self {
        let mut order: Vec<u16> = cpus.iter().map(|cpu| cpu.id).collect();
        let mut places = vec![Place::default(); nr_cpu_ids];
        let llcs: Vec<_> = cpus
            .chunk_by(|a, b| (a.node, a.llc) == (b.node, b.llc))
            .collect();
        let nodes: Vec<_> = cpus.chunk_by(|a, b| a.node == b.node).collect();
        for (pos, cpu) in cpus.iter().enumerate() {
            let place = &mut places[usize::from(cpu.id)];
            place.pos = pos as u16;
            place.node_id = cpu.node;
        }
        for (first, end, group) in ranges(&llcs) {
            group
                .iter()
                .for_each(|cpu| places[usize::from(cpu.id)].llc = (first, end));
        }
        for (first, end, group) in ranges(&nodes) {
            group
                .iter()
                .for_each(|cpu| places[usize::from(cpu.id)].node = (first, end));
        }
        let known: BTreeSet<u16> = order.iter().copied().collect();
        for id in (0..nr_cpu_ids as u16).filter(|id| !known.contains(id)) {
            let pos = order.len() as u16;
            order.push(id);
            places[usize::from(id)] = Place {
                pos,
                llc: (pos, pos + 1),
                node: (pos, pos + 1),
                node_id: 0,
            };
        }
        Topology {
            order,
            places,
            nr_online: cpus.len(),
            nr_llcs: llcs.len(),
            nr_nodes: nodes.len(),
        }
    }
}

/// Each group with its [first, end) positions, the groups standing one behind the other.
fn ranges<'a>(groups: &[&'a [Cpu]]) -> Vec<(u16, u16, &'a [Cpu])> {
    let mut first = 0;
    groups
        .iter()
        .map(|group| {
            let end = first + group.len() as u16;
            let range = (first, end, *group);
            first = end;
            range
        })
        .collect()
}

/// The node of every CPU that sysfs puts into one. CPUs it leaves out count as node 0.
fn nodes(dir: &Path) -> BTreeMap<u16, u16> {
    let mut nodes = BTreeMap::new();
    for (node, path) in numbered(dir, "node") {
        for cpu in cpu_list(&path.join("cpulist")).unwrap_or_default() {
            nodes.insert(cpu, node);
        }
    }
    nodes
}

/// Where CPU `id` stands; `dir` is sysfs' folder of all CPUs. Of a CPU with neither cache nor
/// package the LLC is its whole node.
fn locate(dir: &Path, id: u16, online: &BTreeSet<u16>, nodes: &BTreeMap<u16, u16>) -> Cpu {
    let cpu = dir.join(format!("cpu{id}"));
    let node_of = |id: &u16| nodes.get(id).copied().unwrap_or(0);
    let node = node_of(&id);
    let llc = llc_cpus(&cpu)
        .or_else(|| some_cpus(&cpu.join("topology/package_cpus_list")))
        .unwrap_or_else(|| online.clone());
    let core = some_cpus(&cpu.join("topology/thread_siblings_list"));
    Cpu {
        node,
        llc: llc
            .iter()
            .copied()
            .find(|other| node_of(other) == node)
            .unwrap_or(id),
        core: core.and_then(|cpus| cpus.first().copied()).unwrap_or(id),
        id,
    }
}

/// The CPUs that share the cache of level 3 with this one, or of the highest level below it.
fn llc_cpus(cpu: &Path) -> Option<BTreeSet<u16>> {
    numbered(&cpu.join("cache"), "index")
        .into_iter()
        .filter(|(_, cache)| text(&cache.join("type")).as_deref() != Some("Instruction"))
        .filter_map(|(_, cache)| {
            let level: u16 = text(&cache.join("level"))?.parse().ok()?;
            let cpus = some_cpus(&cache.join("shared_cpu_list"))?;
            (level <= 3).then_some((level, cpus))
        })
        .max_by_key(|(level, _)| *level)
        .map(|(_, cpus)| cpus)
}

/// The entries `<prefix><number>` of a folder, by number; none when there is no such folder.
fn numbered(dir: &Path, prefix: &str) -> Vec<(u16, PathBuf)> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry
                .file_name()
                .to_str()?
                .strip_prefix(prefix)?
                .parse()
                .ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort_unstable();
    found
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_string())
}

fn cpu_list(path: &Path) -> Option<BTreeSet<u16>> {
    parse_list(&text(path)?)
}

/// Like [`cpu_list`], but the empty list counts as none.
fn some_cpus(path: &Path) -> Option<BTreeSet<u16>> {
    cpu_list(path).filter(|cpus| !cpus.is_empty())
}

fn required_list(path: &Path) -> Result<BTreeSet<u16>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match parse_list(text.trim()) {
        Some(cpus) if !cpus.is_empty() => Ok(cpus),
        _ => bail!("{} is no list of CPUs: {:?}", path.display(), text.trim()),
    }
}

/// Reads the kernel's list format, `0-3,8,10-11`; empty text is the empty list.
fn parse_list(text: &str) -> Option<BTreeSet<u16>> {
    let mut cpus = BTreeSet::new();
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
