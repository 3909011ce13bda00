// SPDX-License-Identifier: GPL-2.0-only
//! Decides whether this machine and this process can run the scheduler at all. Each refusal is one
//! line: the cause, then the remedy. Nothing is changed here.
//!
//! What only another kernel can cure comes first, so that nobody fetches root rights for nothing.
//! Files are read below a root folder, `/` but in tests.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

/// The oldest kernel we support, as (major, minor).
const OLDEST: (u32, u32) = (6, 16);

/// Bits of a capability set, from linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Runs every check.
///
/// # Errors
/// The first thing that stands in the way, and what to do about it.
pub fn check(root: &Path) -> Result<()> {
    kernel_has_sched_ext(root)?;
    kernel_is_recent(root)?;
    kernel_has_btf(root)?;
    kernel_has_function_tracing(root)?;
    process_may_load(root)?;
    nobody_is_attached(root)
}

/// The running kernel's release, `unknown` when /proc does not tell.
pub fn kernel_release(root: &Path) -> String {
    read(root, "proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_string())
}

/// Checks that no sched_ext scheduler holds the place, not even another instance of ours.
///
/// # Errors
/// Names the holder.
pub fn nobody_is_attached(root: &Path) -> Result<()> {
    let state = state(root);
    match state.as_str() {
        "disabled" => Ok(()),
        "enabling" | "disabling" => bail!(
            "a sched_ext scheduler is just {} (/sys/kernel/sched_ext/state): try again in a moment",
            if state == "enabling" {
                "being attached"
            } else {
                "being detached"
            }
        ),
        "enabled" => match read(root, "sys/kernel/sched_ext/root/ops") {
            Some(name) => {
                bail!("{name} is attached; stop it first (only one sched_ext scheduler can run)")
            }
            None => {
                bail!("another sched_ext scheduler is attached; stop it first (only one can run)")
            }
        },
        other => bail!(
            "/sys/kernel/sched_ext/state is {other:?}, expected \"disabled\": is another scheduler in the way?"
        ),
    }
}

/// The state of sched_ext in the kernel's own words; empty when it cannot be read.
pub fn state(root: &Path) -> String {
    read(root, "sys/kernel/sched_ext/state").unwrap_or_default()
}

fn kernel_has_sched_ext(root: &Path) -> Result<()> {
    if root.join("sys/kernel/sched_ext").exists() {
        return Ok(());
    }
    if !root.join("sys/kernel").exists() {
        bail!("sysfs is not mounted on /sys: mount it (mount -t sysfs sysfs /sys)");
    }
    bail!(
        "the running kernel {} has no sched_ext: boot a kernel >= {}.{} built with CONFIG_SCHED_CLASS_EXT",
        kernel_release(root),
        OLDEST.0,
        OLDEST.1
    );
}

fn kernel_is_recent(root: &Path) -> Result<()> {
    let release = kernel_release(root);
    // A release that cannot be read is no reason to refuse: the load will tell.
    if parse_release(&release).is_some_and(|version| version < OLDEST) {
        bail!(
            "the running kernel {release} is too old: boot a kernel >= {}.{}",
            OLDEST.0,
            OLDEST.1
        );
    }
    Ok(())
}

fn kernel_has_btf(root: &Path) -> Result<()> {
    if !root.join("sys/kernel/btf/vmlinux").exists() {
        bail!(
            "the running kernel {} does not describe its types (/sys/kernel/btf/vmlinux): \
             boot one built with CONFIG_DEBUG_INFO_BTF",
            kernel_release(root)
        );
    }
    Ok(())
}

fn kernel_has_function_tracing(root: &Path) -> Result<()> {
    if !root.join("proc/sys/kernel").exists() {
        bail!("procfs is not mounted on /proc: mount it (mount -t proc proc /proc)");
    }
    if !root.join("proc/sys/kernel/ftrace_enabled").exists() {
        bail!(
            "the running kernel {} has no function tracing (/proc/sys/kernel/ftrace_enabled): \
             boot one built with CONFIG_FUNCTION_TRACER",
            kernel_release(root)
        );
    }
    Ok(())
}

/// CAP_SYS_ADMIN includes the two younger capabilities, so either way will do.
fn process_may_load(root: &Path) -> Result<()> {
    let status = read(root, "proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let Some(caps) = field("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok()) else {
        return Ok(());
    };
    let has = |cap: u32| caps >> cap & 1 == 1;
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(cap, _)| !has(*cap) && !has(CAP_SYS_ADMIN))
        .map(|(_, name)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)) == Some("0");
    let (missing, remedy) = (
        missing.join(" and "),
        "to load BPF programs into the kernel",
    );
    if is_root {
        bail!(
            "root here lacks {missing} {remedy}: grant them (container, or CapabilityBoundingSet= of the unit)"
        );
    }
    bail!("not root: {missing} needed {remedy}: run it with sudo");
}

/// `6.16.12-cloud` is (6, 16).
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The trimmed text of a file below `root`; none when it cannot be read.
fn read(root: &Path, file: &str) -> Option<String> {
    fs::read_to_string(root.join(file))
        .ok()
        .map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use std::ops::Deref;

    use super::*;
    use crate::fake_root::{FakeRoot, assert_refusal};

    /// A machine on which every check passes, to be spoilt by a test.
    struct Machine(FakeRoot);

    impl Deref for Machine {
        type Target = FakeRoot;

        fn deref(&self) -> &FakeRoot {
            &self.0
        }
    }

    impl Machine {
        fn new(test: &str) -> Self {
            let machine = Machine(FakeRoot::new(&format!("preflight-{test}")));
            machine.write("sys/kernel/sched_ext/state", "disabled\n");
            machine.write("sys/kernel/btf/vmlinux", "");
            machine.write("proc/sys/kernel/osrelease", "7.3.4-cloud-amd64\n");
            machine.write("proc/sys/kernel/ftrace_enabled", "1\n");
            machine.write(
                "proc/self/status",
                "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
            );
            machine
        }

        #[track_caller]
        fn refuses_with(&self, parts: &[&str]) {
            assert_refusal(check(self.path()).expect_err("a refusal"), parts);
        }
    }

    #[test]
    fn a_good_machine_passes() {
        check(Machine::new("good").path()).expect("nothing is wrong");
    }

    #[test]
    fn a_kernel_without_sched_ext_is_reported_even_to_non_root() {
        let m = Machine::new("noext");
        m.remove("sys/kernel/sched_ext");
        m.write(
            "proc/self/status",
            "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n",
        );
        m.refuses_with(&[
            "7.3.4-cloud-amd64",
            "no sched_ext",
            "CONFIG_SCHED_CLASS_EXT",
            "6.16",
        ]);
    }

    #[test]
    fn a_missing_sysfs_is_not_blamed_on_the_kernel() {
        let m = Machine::new("nosys");
        m.remove("sys");
        m.refuses_with(&["/sys", "mount"]);
    }

    #[test]
    fn an_old_kernel_is_refused_by_its_release() {
        let m = Machine::new("old");
        for old in ["6.12.117+deb13-amd64", "6.15.0", "5.14.0-503.el9"] {
            m.write("proc/sys/kernel/osrelease", old);
            m.refuses_with(&[old, ">= 6.16"]);
        }
        for new in ["6.16.0-rc1", "6.18", "7.0.1", "10.0"] {
            m.write("proc/sys/kernel/osrelease", new);
            check(m.path()).expect(new);
        }
    }

    #[test]
    fn missing_types_name_their_option() {
        let m = Machine::new("nobtf");
        m.remove("sys/kernel/btf");
        m.refuses_with(&["CONFIG_DEBUG_INFO_BTF"]);
    }

    #[test]
    fn missing_function_tracing_names_its_option() {
        let m = Machine::new("noftrace");
        m.remove("proc/sys/kernel/ftrace_enabled");
        m.refuses_with(&["CONFIG_FUNCTION_TRACER"]);
    }

    #[test]
    fn an_ordinary_user_is_told_to_use_sudo() {
        let m = Machine::new("user");
        m.write(
            "proc/self/status",
            "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n",
        );
        m.refuses_with(&["not root", "CAP_BPF and CAP_PERFMON", "sudo"]);
    }

    #[test]
    fn root_without_a_capability_is_told_which() {
        let m = Machine::new("caps");
        m.write(
            "proc/self/status",
            "Uid:\t0\t0\t0\t0\nCapEff:\t0000008000000000\n",
        );
        m.refuses_with(&["lacks CAP_PERFMON to load"]);
    }

    #[test]
    fn either_sys_admin_or_the_two_younger_capabilities_will_do() {
        let m = Machine::new("either");
        for caps in [1u64 << CAP_SYS_ADMIN, 1 << CAP_BPF | 1 << CAP_PERFMON] {
            m.write(
                "proc/self/status",
                &format!("Uid:\t0\t0\t0\t0\nCapEff:\t{caps:016x}\n"),
            );
            check(m.path()).expect("enough");
        }
    }

    #[test]
    fn the_holder_is_named() {
        let m = Machine::new("held");
        m.write("sys/kernel/sched_ext/state", "enabled\n");
        m.refuses_with(&["another sched_ext scheduler is attached"]);
        for name in [
            "bpfland_1.1.4_x86_64_unknown_linux_gnu",
            "eevdfx_0.1.0_x86_64_unknown_linux_gnu",
        ] {
            m.write("sys/kernel/sched_ext/root/ops", &format!("{name}\n"));
            m.refuses_with(&[name, "is attached; stop it first"]);
        }
    }

    #[test]
    fn a_change_under_way_is_told_as_such() {
        let m = Machine::new("change");
        m.write("sys/kernel/sched_ext/state", "enabling\n");
        m.refuses_with(&["being attached"]);
        m.write("sys/kernel/sched_ext/state", "disabling\n");
        m.refuses_with(&["being detached"]);
        m.write("sys/kernel/sched_ext/state", "bypassed\n");
        m.refuses_with(&["bypassed"]);
    }
}
