// SPDX-License-Identifier: GPL-2.0-only
//! Decides what libbpf is told about the kernel's configuration.
//!
//! The BPF part refers to a few CONFIG_ values. libbpf looks them up in /boot/config-RELEASE or
//! /proc/config.gz, and refuses to load, with a bare -EINVAL, when there is neither: in containers
//! without /boot, in initramfs, on some distributions. It does not look there once a text it was
//! given answers every one of them. A user's text comes first and the system's files second; ours
//! is used only where both leave something open and there are no files.

use std::fs::File;
use std::path::Path;

use crate::preflight;

/// Answers to all values that the headers of scx refer to; those the object lacks do no harm.
/// The texts are only printed in a dump. Strings need their quotes.
const FIXED: &str = "CONFIG_CC_VERSION_TEXT=\"unknown\"\nCONFIG_LOCALVERSION=\"\"\n";

/// The text for libbpf, if it needs one: `user` (content of the file given by the user) as it is
/// when the system's own files exist, else completed from `preempt_rcu`, whether the kernel has
/// CONFIG_PREEMPT_RCU. `root` is `/` but in tests.
pub fn text(root: &Path, user: Option<String>, preempt_rcu: impl Fn() -> bool) -> Option<String> {
    let release = preflight::kernel_release(root);
    let files = [
        format!("boot/config-{release}"),
        "proc/config.gz".to_string(),
    ];
    if files.iter().any(|file| File::open(root.join(file)).is_ok()) {
        return user;
    }
    let yes_no = |on: bool| if on { 'y' } else { 'n' };
    // libbpf keeps the first answer that it reads.
    Some(format!(
        "{}\n{FIXED}CONFIG_PREEMPT_RCU={}\nCONFIG_X86_64={}\n",
        user.unwrap_or_default(),
        yes_no(preempt_rcu()),
        yes_no(cfg!(target_arch = "x86_64")),
    ))
}

/// Whether the kernel says in its version line that it can preempt itself. Such a kernel has
/// CONFIG_PREEMPT_RCU, except one built with nothing but lazy preemption since 6.13.
pub fn version_says_preempt(root: &Path) -> bool {
    let version = std::fs::read_to_string(root.join("proc/sys/kernel/version")).unwrap_or_default();
    version
        .split_whitespace()
        .any(|word| word.starts_with("PREEMPT"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use super::*;

    /// A root folder with the given files.
    fn root(test: &str, files: &[(&str, &str)]) -> PathBuf {
        let dir = env::temp_dir().join(format!("eevdfx-kconfig-{}-{test}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        for (file, content) in [&[("proc/sys/kernel/osrelease", "7.3.4\n")], files].concat() {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().expect("a file in a folder")).expect("temp folder");
            fs::write(path, content).expect("temp file");
        }
        dir
    }

    #[test]
    fn the_system_files_are_left_to_libbpf() {
        for (test, file) in [("boot", "boot/config-7.3.4"), ("proc", "proc/config.gz")] {
            let dir = root(test, &[(file, "")]);
            assert_eq!(text(&dir, None, || true), None);
            assert_eq!(
                text(&dir, Some("CONFIG_A=y".to_string()), || true),
                Some("CONFIG_A=y".to_string())
            );
            fs::remove_dir_all(dir).expect("temp folder");
        }
    }

    #[test]
    fn without_files_every_value_is_answered() {
        let dir = root("none", &[("boot/config-6.1.0", "")]);
        let answers = text(&dir, None, || true).expect("a text");
        for line in [
            "CONFIG_PREEMPT_RCU=y",
            "CONFIG_LOCALVERSION=\"\"",
            "CONFIG_CC_VERSION_TEXT=\"unknown\"",
        ] {
            assert!(answers.lines().any(|l| l == line), "{line}");
        }
        assert!(
            text(&dir, None, || false)
                .expect("a text")
                .contains("CONFIG_PREEMPT_RCU=n\n")
        );
        fs::remove_dir_all(dir).expect("temp folder");
    }

    #[test]
    fn the_users_answers_come_first_and_stay_lines_of_their_own() {
        let dir = root("user", &[]);
        let answers =
            text(&dir, Some("CONFIG_PREEMPT_RCU=n".to_string()), || true).expect("a text");
        assert!(answers.starts_with("CONFIG_PREEMPT_RCU=n\nCONFIG_"));
        fs::remove_dir_all(dir).expect("temp folder");
    }

    #[test]
    fn preemption_is_read_from_the_version_line() {
        for (version, preempts) in [
            ("#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1 (2026-11-02)\n", true),
            ("#1 SMP PREEMPT_RT x\n", true),
            ("#1 SMP Debian 6.18.15-1 (2026-02-01)\n", false),
        ] {
            let dir = root("version", &[("proc/sys/kernel/version", version)]);
            assert_eq!(version_says_preempt(&dir), preempts, "{version}");
            fs::remove_dir_all(dir).expect("temp folder");
        }
    }
}
