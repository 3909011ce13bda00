// SPDX-License-Identifier: GPL-2.0-only
//! What sysfs says about CPUs, caches and NUMA nodes, and what is assumed where it says nothing.
//!
//! Tolerant of what real machines lack: without NUMA there is one node, without cache information
//! one LLC per package. An LLC that spans nodes is cut at the node's border, so that LLCs nest in
//! nodes. Ids in sysfs are not relied on where they need not be unique: an LLC or a core is named
//! by the lowest CPU in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use log::info;

/// Distance of a node to itself, and to another where nothing is known; as the kernel assumes.
const LOCAL_DISTANCE: u8 = 10;
const REMOTE_DISTANCE: u8 = 20;

/// The machine as it is below a root folder.
pub struct Machine {
    /// CPUs in use, sorted.
    pub cpus: Vec<Cpu>,
    /// Ids of all CPUs that may ever be used.
    pub possible: BTreeSet<u16>,
    pub distances: Distances,
}

/// Where a CPU stands. Ordered the way the table for BPF is: node, LLC, core, CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cpu {
    /// Node id in sysfs; 0 for a CPU that sysfs puts into none.
    pub node: u16,
    /// Lowest CPU of the LLC within the node.
    pub llc: u16,
    /// Lowest CPU of the core.
    pub core: u16,
    /// Kernel's CPU id.
    pub id: u16,
}

/// Distances from node to node, by their ids in sysfs. They need not be symmetric.
pub struct Distances(BTreeMap<(u16, u16), u8>);

impl Distances {
    pub fn between(&self, from: u16, to: u16) -> u8 {
        if from == to {
            return LOCAL_DISTANCE;
        }
        self.0.get(&(from, to)).copied().unwrap_or(REMOTE_DISTANCE)
    }
}

/// Reads the machine below `root` (`/` but in tests).
///
/// # Errors
/// Fails when sysfs does not list the CPUs.
pub fn read(root: &Path) -> Result<Machine> {
    let dir = root.join("sys/devices/system/cpu");
    let online = required_list(&dir.join("online"))?;
    let mut possible = cpu_list(&dir.join("possible")).unwrap_or_default();
    possible.extend(&online);
    let node_dir = root.join("sys/devices/system/node");
    let nodes = nodes(&node_dir);
    let mut cpus: Vec<Cpu> = online
        .iter()
        .map(|id| locate(&dir, *id, &online, &nodes))
        .collect();
    cpus.sort_unstable();
    Ok(Machine {
        cpus,
        possible,
        distances: distances(&node_dir),
    })
}

/// A node's file lists its distances to the nodes that are online, in order of their ids; nodes
/// that have only memory are among them.
fn distances(dir: &Path) -> Distances {
    let nodes = numbered(dir, "node");
    let online =
        cpu_list(&dir.join("online")).unwrap_or_else(|| nodes.iter().map(|(id, _)| *id).collect());
    let mut known = BTreeMap::new();
    let mut unknown = Vec::new();
    for (from, path) in nodes {
        match distance_row(&path.join("distance"), online.len()) {
            Some(row) => known.extend(online.iter().map(|to| (from, *to)).zip(row)),
            None => unknown.push(from),
        }
    }
    if !unknown.is_empty() {
        info!("distances of nodes {unknown:?} are not known, taken as {REMOTE_DISTANCE}");
    }
    Distances(known)
}

/// None for what cannot be a row of `len` distances. Beyond 254 is unreachable, which 255 says too.
fn distance_row(path: &Path, len: usize) -> Option<Vec<u8>> {
    let row: Vec<u8> = text(path)?
        .split_whitespace()
        .map(|word| Some(word.parse::<u32>().ok()?.min(u8::MAX.into()) as u8))
        .collect::<Option<_>>()?;
    (row.len() == len && row.iter().all(|distance| *distance >= LOCAL_DISTANCE)).then_some(row)
}

/// The node of every CPU that sysfs puts into one.
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
