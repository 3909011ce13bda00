// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs, sockets and NUMA nodes of a virtual machine. CPUs are dealt to the nodes in order and evenly, as firmware
//! does on real machines; nodes without CPUs, and nodes of unequal size, cannot be described.

use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// What the guest is to see. `nodes == 0` gives the guest no NUMA tables at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub sockets: usize,
    pub cores: usize,
    pub threads: usize,
    pub nodes: usize,
    /// Distances of the pairs of nodes: 0-1, 0-2 and so on, then 1-2 ...; the last one counts for all that follow.
    pub distances: Vec<u32>,
}

impl Default for Topology {
    /// 8 CPUs, 2 sockets, 2 nodes.
    fn default() -> Self {
        Self::new(2, 4, 1, 2)
    }
}

impl Topology {
    pub fn new(sockets: usize, cores: usize, threads: usize, nodes: usize) -> Self {
        Self {
            sockets,
            cores,
            threads,
            nodes,
            distances: vec![21],
        }
    }

    /// One socket on two nodes: the last-level cache spans nodes.
    pub fn t1() -> Self {
        Self::new(1, 8, 1, 2)
    }

    /// Two sockets of two cores of two threads, a node each.
    pub fn t2() -> Self {
        Self::new(2, 2, 2, 2)
    }

    /// Four nodes on a ring: one step away is nearer than two.
    pub fn t3() -> Self {
        Self {
            distances: vec![16, 28, 16, 16, 28, 16],
            ..Self::new(4, 2, 1, 4)
        }
    }

    /// Three nodes, each pair at a distance of its own.
    pub fn triangle() -> Self {
        Self {
            distances: vec![30, 20, 25],
            ..Self::new(3, 2, 1, 3)
        }
    }

    /// 64 CPUs: cores of two threads on four nodes, two pairs of near ones.
    pub fn large() -> Self {
        Self {
            distances: vec![16, 32, 32, 32, 32, 16],
            ..Self::new(4, 8, 2, 4)
        }
    }

    /// A single CPU.
    pub fn t4() -> Self {
        Self::new(1, 1, 1, 0)
    }

    /// Two sockets and no word about NUMA.
    pub fn t5() -> Self {
        Self::new(2, 4, 1, 0)
    }

    pub fn cpus(&self) -> usize {
        self.sockets * self.cores * self.threads
    }

    /// First and last CPU of a node.
    pub fn node_cpus(&self, node: usize) -> (usize, usize) {
        let size = self.cpus() / self.nodes;
        (node * size, (node + 1) * size - 1)
    }

    /// The part of QEMU's command line that describes this machine. Memory is split evenly over the nodes.
    pub fn qemu_args(&self, memory_mib: usize) -> Vec<String> {
        let size = memory_mib / self.nodes.max(1);
        let mut args = vec![
            "-smp".to_owned(),
            format!(
                "{},sockets={},cores={},threads={}",
                self.cpus(),
                self.sockets,
                self.cores,
                self.threads
            ),
            "-m".to_owned(),
            format!("{}M", size * self.nodes.max(1)),
        ];
        for node in 0..self.nodes {
            let (first, last) = self.node_cpus(node);
            args.extend([
                "-object".to_owned(),
                format!("memory-backend-ram,id=m{node},size={size}M"),
            ]);
            args.extend([
                "-numa".to_owned(),
                format!("node,nodeid={node},cpus={first}-{last},memdev=m{node}"),
            ]);
        }
        let nodes = self.nodes;
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        for (index, (a, b)) in pairs.enumerate() {
            let distance = self.distances[index.min(self.distances.len() - 1)];
            args.extend([
                "-numa".to_owned(),
                format!("dist,src={a},dst={b},val={distance}"),
            ]);
        }
        args
    }

    fn checked(self) -> Result<Self> {
        ensure!(self.cpus() > 0, "a machine needs a CPU");
        ensure!(
            self.nodes == 0 || self.cpus().is_multiple_of(self.nodes),
            "{} CPUs cannot be shared evenly by {} nodes",
            self.cpus(),
            self.nodes
        );
        ensure!(!self.distances.is_empty(), "no distance given");
        Ok(self)
    }
}

/// `t2`, or `cpus=8,nodes=2,sockets=2,threads=1,distance=21`: each key may be left out, a socket a node is the default.
impl FromStr for Topology {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "default" => return Ok(Self::default()),
            "t1" => return Ok(Self::t1()),
            "t2" => return Ok(Self::t2()),
            "t3" => return Ok(Self::t3()),
            "t4" => return Ok(Self::t4()),
            "t5" => return Ok(Self::t5()),
            "triangle" => return Ok(Self::triangle()),
            "large" => return Ok(Self::large()),
            _ => (),
        }
        let (mut cpus, mut nodes, mut sockets, mut threads, mut distance) = (8, 2, None, 1, 21);
        for pair in text.split(',') {
            let (key, value) = pair
                .split_once('=')
                .with_context(|| format!("'{pair}' is not key=value"))?;
            let number: usize = value
                .parse()
                .with_context(|| format!("'{pair}': not a number"))?;
            match key {
                "cpus" => cpus = number,
                "nodes" => nodes = number,
                "sockets" => sockets = Some(number),
                "threads" => threads = number,
                "distance" => distance = u32::try_from(number)?,
                _ => bail!("'{key}': want cpus, nodes, sockets, threads or distance"),
            }
        }
        let sockets = sockets.unwrap_or(nodes.max(1));
        ensure!(sockets > 0 && threads > 0, "no sockets or threads");
        ensure!(
            cpus % (sockets * threads) == 0,
            "{cpus} CPUs do not fit {sockets} sockets of cores of {threads} threads"
        );
        let cores = cpus / sockets / threads;
        Self {
            distances: vec![distance],
            ..Self::new(sockets, cores, threads, nodes)
        }
        .checked()
    }
}
