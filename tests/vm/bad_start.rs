// SPDX-License-Identifier: GPL-2.0-only
//! Every start that cannot work ends with exit code 1 and one line that names cause and remedy. One boot serves all
//! cases but the last.

use std::sync::LazyLock;

use crate::guest::{assert_was_on_to_the_end, job, machine};
use crate::outcome::Outcome;

/// Name, what takes something away, the start, and what brings it back.
const CASES: [(&str, &str, &str, &str); 5] = [
    (
        "second",
        "start",
        "scx_eevdfx",
        "echo holder=$(state); stop",
    ),
    (
        "user",
        "",
        "/usr/bin/setpriv --reuid 65534 --clear-groups scx_eevdfx",
        "",
    ),
    (
        "sched_ext",
        "mount -t tmpfs none /sys/kernel",
        "scx_eevdfx",
        "umount /sys/kernel",
    ),
    (
        "btf",
        "mount -t tmpfs none /sys/kernel/btf",
        "scx_eevdfx",
        "umount /sys/kernel/btf",
    ),
    (
        "ftrace",
        "cp /proc/sys/kernel/osrelease /tmp/osrelease
         mount -t tmpfs none /proc/sys/kernel
         cp /tmp/osrelease /proc/sys/kernel/osrelease",
        "scx_eevdfx",
        "umount /proc/sys/kernel",
    ),
];

static RUN: LazyLock<Outcome> = LazyLock::new(|| {
    let mut text = String::new();
    for (name, setup, command, cleanup) in CASES {
        text += &format!(
            "{setup}
            RUST_BACKTRACE=1 {command} 2>/tmp/err; echo {name}:code=$?
            sed 's/^/{name}:line /' /tmp/err
            {cleanup}\n"
        );
    }
    machine("7.3")
        .file("/usr/bin/setpriv", "/usr/bin/setpriv")
        .run(&job(&text))
        .unwrap()
        .success()
});

#[track_caller]
fn assert_refused(case: &str, words: &[&str]) {
    let code: i32 = RUN.get(&format!("{case}:code")).unwrap();
    assert_eq!(code, 1, "{}", RUN.output);
    let prefix = format!("{case}:line ");
    let lines: Vec<_> = RUN
        .output
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix))
        .collect();
    assert_eq!(lines.len(), 1, "not one line: {lines:#?}");
    for word in words {
        assert!(lines[0].contains(word), "no {word:?} in: {}", lines[0]);
    }
}

#[test]
fn a_second_start_names_the_holder_and_leaves_it_alone() {
    assert_refused("second", &["eevdfx_0.1.0", "stop it first"]);
    assert_eq!(RUN.value("holder"), Some("enabled"), "{}", RUN.output);
    assert_eq!(RUN.value("stopped"), Some("0"), "{}", RUN.output);
}

#[test]
fn without_root_it_says_how_to_get_it() {
    assert_refused("user", &["root", "sudo"]);
}

#[test]
fn without_sched_ext_it_names_the_kernel_and_the_option() {
    assert_refused("sched_ext", &["7.3", "CONFIG_SCHED_CLASS_EXT"]);
}

#[test]
fn without_btf_it_names_the_option() {
    assert_refused("btf", &["CONFIG_DEBUG_INFO_BTF"]);
}

#[test]
fn without_function_tracing_it_names_the_option() {
    assert_refused("ftrace", &["CONFIG_FUNCTION_TRACER"]);
}

#[test]
fn a_kernel_whose_config_is_not_to_be_had_is_no_obstacle() {
    let outcome = machine("7.3")
        .with_config(false)
        .run(&job(
            "for config in /boot/config* /proc/config.gz; do ! [ -e $config ] || echo found=$config; done
            start; echo state=$(state); hackbench -g 1 -l 10 >/dev/null; stop",
        ))
        .unwrap()
        .success();
    assert_eq!(outcome.value("found"), None);
    assert_was_on_to_the_end(&outcome);
}
