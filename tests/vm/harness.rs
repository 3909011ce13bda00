// SPDX-License-Identifier: GPL-2.0-only
//! The virtual machines do what they promise, so that a failure elsewhere is the scheduler's.

use std::env;
use std::fs;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::kernel::kernels;
use crate::machine::{Machine, has_virtualization};
use crate::topology::Topology;

const NEWEST: &str = "7.3";

/// One boot: exit code, output complete and in order, the kernel's messages apart from it, and its config in place.
#[test]
fn a_job_returns_its_exit_code_and_its_output_apart_from_the_kernels_messages() {
    let minor = *kernels().unwrap().first().unwrap();
    let outcome = Machine::new(minor)
        .dmesg(true)
        .run(
            "uname -r
            ls /boot/config-$(uname -r) >/dev/null || exit 1
            echo '<1>a message' >/dev/kmsg
            seq 1 2000; echo to-stderr >/dev/stderr; printf 'no line feed'
            exit 7",
        )
        .unwrap();
    assert_eq!(outcome.code, 7, "{outcome:?}");
    let (release, rest) = outcome.output.split_once('\n').unwrap();
    assert!(release.starts_with(minor), "{release}");
    let numbers: String = (1..=2000).map(|i| format!("{i}\n")).collect();
    assert_eq!(rest, format!("{numbers}to-stderr\nno line feed"));
    assert!(
        outcome.dmesg.contains("a message") && outcome.dmesg.contains("Linux version"),
        "{}",
        outcome.dmesg
    );
}

#[test]
fn a_job_that_hangs_is_killed_at_its_limit_and_leaves_no_process() {
    let name = format!("hang-{}", process::id());
    let machine = Machine::new(NEWEST)
        .name(&name)
        .timeout(Duration::from_secs(20));
    let error = format!(
        "{:#}",
        machine.run("echo about to hang; sleep 1000").unwrap_err()
    );
    assert!(
        error.contains("did not end within 20s") && error.contains("about to hang"),
        "{error}"
    );
    assert!(!is_running(&name));
}

#[test]
fn a_kernel_that_panics_is_an_error_that_shows_its_console() {
    let error = format!(
        "{:#}",
        Machine::new(NEWEST)
            .run("echo c >/proc/sysrq-trigger; sleep 60")
            .unwrap_err()
    );
    assert!(
        error.contains("the machine stopped") && error.contains("sysrq triggered crash"),
        "{error}"
    );
}

/// The guest cannot tell one try from the next: all of them end so.
#[test]
fn a_guest_that_the_emulator_broke_is_run_again() {
    for (said, fault) in [
        ("Oops: int3: 0000", "lost a patch of the kernel's code"),
        (
            "qemu-system-x86_64: hw/x.c:1: Assertion failed",
            "failed an assertion of its own",
        ),
    ] {
        let error = Machine::new(NEWEST)
            .run(&format!(
                "echo '<0>{said}' >/dev/kmsg; echo c >/proc/sysrq-trigger; sleep 60"
            ))
            .unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains(&format!("{fault}, 3 times")), "{error}");
    }
}

/// The test runs itself a second time to have something to kill.
#[test]
fn killing_the_harness_kills_its_machine() {
    const ROLE: &str = "VM_TEST_VICTIM";
    if let Ok(name) = env::var(ROLE) {
        Machine::new(NEWEST).name(&name).run("sleep 1000").unwrap();
        return;
    }
    let name = format!("victim-{}", process::id());
    let mut harness = Command::new(env::current_exe().unwrap())
        .args(["--exact", "harness::killing_the_harness_kills_its_machine"])
        .env(ROLE, &name)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| is_running(&name));
    harness.kill().unwrap();
    harness.wait().unwrap();
    wait_until(|| !is_running(&name));
}

#[test]
fn virtual_time_passes_when_the_guest_sleeps() {
    let job = "a=$(cut -d. -f1 /proc/uptime); sleep 60; b=$(cut -d. -f1 /proc/uptime); echo slept=$((b - a))";
    let outcome = Machine::new(NEWEST)
        .icount(true)
        .run(job)
        .unwrap()
        .success();
    assert!(
        (60..=61).contains(&outcome.get::<u64>("slept").unwrap()),
        "{outcome:?}"
    );
    assert!(outcome.wall < Duration::from_secs(60), "{outcome:?}");
}

#[test]
fn kvm_is_used_only_on_a_cpu_that_has_it() {
    assert!(has_virtualization("flags\t\t: fpu vmx sse\n"));
    assert!(has_virtualization("flags\t\t: fpu svm\n"));
    assert!(!has_virtualization(
        "flags\t\t: fpu sse\nvmx flags\t: vnmi\nmodel name\t: svm\n"
    ));
    assert!(!has_virtualization(""));
}

#[test]
fn topologies_are_read_from_the_command_line() {
    assert_eq!("t2".parse::<Topology>().unwrap(), Topology::t2());
    assert_eq!(
        "cpus=8,nodes=2".parse::<Topology>().unwrap(),
        Topology::default()
    );
    assert_eq!(
        "cpus=8,threads=2".parse::<Topology>().unwrap(),
        Topology::t2()
    );
    for bad in [
        "cpus=8,nodes=3",
        "cpus=0",
        "cpus=7,sockets=2,nodes=1",
        "nodes",
        "cores=2",
    ] {
        assert!(bad.parse::<Topology>().is_err(), "{bad}");
    }
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "waited in vain"
        );
        thread::sleep(Duration::from_millis(100));
    }
}

fn is_running(name: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let command_lines = processes.flat_map(|process| fs::read(process.path().join("cmdline")));
    command_lines
        .filter(|line| line.starts_with(b"qemu"))
        .any(|line| String::from_utf8_lossy(&line).contains(name))
}
