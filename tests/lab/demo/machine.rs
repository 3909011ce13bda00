// SPDX-License-Identifier: GPL-2.0-only
//! What the reader of a table must know about the machine.

use std::process::Command;

use crate::nodes::Nodes;
use crate::sys;

pub struct Machine {
    pub kernel: String,
    pub cpus: usize,
    pub nodes: usize,
    /// "unknown" where the kernel does not show its configuration.
    pub hz: String,
}

impl Machine {
    pub fn here() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_string();
        let hz = kernel_config(&kernel)
            .and_then(|config| hz_of(&config))
            .unwrap_or_else(|| "unknown".into());
        Machine {
            kernel,
            cpus: sys::nr_cpus(),
            nodes: Nodes::here().nr(),
            hz,
        }
    }
}

fn kernel_config(release: &str) -> Option<String> {
    if let Ok(text) = std::fs::read_to_string(format!("/boot/config-{release}")) {
        return Some(text);
    }
    // /proc/config.gz; unpacking it is left to the system's own tool, busybox has it too.
    let output = Command::new("zcat").arg("/proc/config.gz").output().ok()?;
    String::from_utf8(output.stdout).ok()
}

fn hz_of(config: &str) -> Option<String> {
    config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))
        .map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hz() {
        assert_eq!(
            hz_of("CONFIG_HZ_250=y\nCONFIG_HZ=250\n").as_deref(),
            Some("250")
        );
        assert_eq!(hz_of("# CONFIG_HZ_250 is not set\n"), None);
    }
}
