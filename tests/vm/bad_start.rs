// SPDX-License-Identifier: GPL-2.0-only
//! Every start that cannot work ends with exit code 1 and one line that names cause and remedy.

use crate::guest::{job, machine};

/// Runs the scheduler after `setup` and returns its exit code and what it wrote to stderr.
fn start_after(setup: &str, command: &str) -> (i32, String) {
    let outcome = machine("7.3")
        .file("/usr/bin/setpriv", "/usr/bin/setpriv")
        .run(&job(&format!(
            "{setup}\n RUST_BACKTRACE=1 {command} 2>/tmp/err; echo code=$?; cat /tmp/err"
        )))
        .unwrap()
        .success();
    let code = outcome.get("code").unwrap();
    let text = outcome.output.split_once("code=").unwrap().1;
    let (_, stderr) = text.split_once('\n').unwrap();
    (code, stderr.to_owned())
}

#[track_caller]
fn assert_refused(setup: &str, command: &str, words: &[&str]) {
    let (code, stderr) = start_after(setup, command);
    assert_eq!(code, 1, "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "not one line:\n{stderr}");
    for word in words {
        assert!(stderr.contains(word), "no {word:?} in: {stderr}");
    }
}

#[test]
fn a_second_start_names_the_holder_and_leaves_it_alone() {
    let outcome = machine("7.3")
        .run(&job("start
            scx_eevdfx 2>/tmp/err; echo code=$?
            echo lines=$(wc -l </tmp/err) state=$(state)
            cat /tmp/err
            stop"))
        .unwrap()
        .success();
    let value = |key| outcome.value(key).unwrap_or("missing");
    assert_eq!(
        ["code", "lines", "state", "stopped"].map(value),
        ["1", "1", "enabled", "0"],
        "{}",
        outcome.output
    );
    assert!(
        outcome.output.contains("eevdfx_0.1.0") && outcome.output.contains("stop it first"),
        "{}",
        outcome.output
    );
}

#[test]
fn without_root_it_says_how_to_get_it() {
    assert_refused(
        "",
        "/usr/bin/setpriv --reuid 65534 --clear-groups scx_eevdfx",
        &["root", "sudo"],
    );
}

#[test]
fn without_sched_ext_it_names_the_kernel_and_the_option() {
    assert_refused(
        "mount -t tmpfs none /sys/kernel/sched_ext && umount /sys/kernel/sched_ext
         mkdir /tmp/none && mount -o bind /sys/kernel /tmp/none
         mount -t tmpfs none /sys/kernel",
        "scx_eevdfx",
        &["7.3", "CONFIG_SCHED_CLASS_EXT"],
    );
}

#[test]
fn without_btf_it_names_the_option() {
    assert_refused(
        "mount -t tmpfs none /sys/kernel/btf",
        "scx_eevdfx",
        &["CONFIG_DEBUG_INFO_BTF"],
    );
}

#[test]
fn without_function_tracing_it_names_the_option() {
    assert_refused(
        "cp /proc/sys/kernel/osrelease /tmp/osrelease
         mount -t tmpfs none /proc/sys/kernel
         cp /tmp/osrelease /proc/sys/kernel/osrelease",
        "scx_eevdfx",
        &["CONFIG_FUNCTION_TRACER"],
    );
}

#[test]
fn a_kernel_whose_config_is_not_to_be_had_is_no_obstacle() {
    let outcome = machine("7.3")
        .with_config(false)
        .run(&job(
            "ls /boot/config* /proc/config.gz 2>/dev/null
            start; echo state=$(state); hackbench -g 1 -l 10 >/dev/null; stop",
        ))
        .unwrap()
        .success();
    assert_eq!(
        outcome.value("state"),
        Some("enabled"),
        "{}",
        outcome.output
    );
    assert_eq!(outcome.value("stopped"), Some("0"), "{}", outcome.output);
}
