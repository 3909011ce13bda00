// SPDX-License-Identifier: GPL-2.0-only
//! Which NUMA node a CPU belongs to. A kernel without NUMA has one node with all CPUs.

use std::path::Path;

use crate::sys;

pub struct Nodes {
    of_cpu: Vec<usize>,
}

impl Nodes {
    pub fn here() -> Self {
        Self::read(Path::new("/sys/devices/system/node"), sys::nr_cpus())
    }

    fn read(root: &Path, nr_cpus: usize) -> Self {
        let mut of_cpu = vec![0; nr_cpus];
        for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("node"));
            let Some(node) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let list = std::fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
            // A node of memory only has an empty list.
            for cpu in sys::parse_cpus(&list).unwrap_or_default() {
                if cpu >= of_cpu.len() {
                    of_cpu.resize(cpu + 1, 0);
                }
                of_cpu[cpu] = node;
            }
        }
        Nodes { of_cpu }
    }

    #[cfg(test)]
    pub fn even(nr_cpus: usize, nr_nodes: usize) -> Self {
        let of_cpu = (0..nr_cpus).map(|cpu| cpu * nr_nodes / nr_cpus);
        Nodes {
            of_cpu: of_cpu.collect(),
        }
    }

    pub fn nr_cpus(&self) -> usize {
        self.of_cpu.len()
    }

    /// Nodes that have CPUs.
    pub fn nr(&self) -> usize {
        let mut nodes = self.of_cpu.clone();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }

    pub fn cpus(&self, node: usize) -> Vec<usize> {
        let cpus = 0..self.of_cpu.len();
        cpus.filter(|&cpu| self.of_cpu[cpu] == node).collect()
    }

    /// The node that the caller runs on.
    pub fn current(&self) -> usize {
        self.of_cpu.get(sys::current_cpu()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_from_sysfs() {
        let root = std::env::temp_dir().join(format!("lab-nodes-{}", std::process::id()));
        for (name, list) in [("node0", "0-1,4\n"), ("node2", "2-3,5\n"), ("node3", "\n")] {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("cpulist"), list).unwrap();
        }
        std::fs::create_dir_all(root.join("power")).unwrap();
        let nodes = Nodes::read(&root, 6);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((nodes.nr(), nodes.nr_cpus()), (2, 6));
        assert_eq!(nodes.cpus(2), [2, 3, 5]);
        let without = Nodes::read(&root, 4);
        assert_eq!((without.nr(), without.cpus(0).len()), (1, 4));
        assert_eq!(Nodes::even(8, 2).cpus(1), [4, 5, 6, 7]);
    }
}
