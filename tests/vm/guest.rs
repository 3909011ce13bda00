// SPDX-License-Identifier: GPL-2.0-only
//! Shell words that the jobs of the tests share, and what they look for afterwards.

use std::time::Duration;

use crate::machine::Machine;
use crate::outcome::Outcome;

/// The kernel log of the boot is dropped: on some shapes of machine the kernel complains about the firmware.
///
/// - `state`: what the kernel says of sched_ext;
/// - `start OPTIONS`: runs the scheduler in the background until the kernel says enabled; `$PID` is it;
/// - `until_free`: waits for the kernel to end a round that is over for us, 30 s at most;
/// - `stop`: SIGTERM, then its exit code as `stopped=CODE`;
const WORDS: &str = r#"
dmesg -c >/dev/null
SYS=/sys/kernel/sched_ext
state() { cat $SYS/state; }
start() {
    scx_eevdfx "$@" 2>/tmp/log &
    PID=$!
    while [ "$(state)" != enabled ]; do
        kill -0 $PID 2>/dev/null || { echo "did not start:"; cat /tmp/log; exit 90; }
        sleep 0.1
    done
}
until_free() {
    for i in $(seq 300); do
        [ "$(state)" = disabling ] || return 0
        sleep 0.1
    done
}
stop() {
    kill $PID
    wait $PID
    echo "stopped=$?"
    grep -v INFO /tmp/log
    until_free
}
"#;

/// A machine that has the scheduler, the workloads and what they call.
pub fn machine(minor: &str) -> Machine {
    let release = concat!(env!("CARGO_MANIFEST_DIR"), "/target/release");
    Machine::new(minor)
        .program(format!("{release}/scx_eevdfx"))
        .program(format!("{release}/examples/lab"))
        .program("/usr/bin/hackbench")
        .program("/usr/bin/stress-ng")
        .timeout(Duration::from_secs(900))
        .dmesg(true)
}

/// A job that knows the words above.
pub fn job(text: &str) -> String {
    format!("{WORDS}\n{text}")
}

/// What a kernel that is unhappy with us prints.
#[track_caller]
pub fn assert_quiet(dmesg: &str) {
    const COMPLAINTS: [&str; 8] = [
        "WARNING:",
        "BUG:",
        "Call Trace",
        "runnable task stall",
        "lockup",
        "rcu: INFO",
        "disabled (runtime error)",
        "Oops",
    ];
    let found: Vec<_> = dmesg
        .lines()
        .filter(|line| COMPLAINTS.iter().any(|text| line.contains(text)))
        .collect();
    assert!(found.is_empty(), "the kernel complains: {found:#?}");
}

/// For a job that prints `state=$(state)` before it ends with `stop`.
#[track_caller]
pub fn assert_was_on_to_the_end(outcome: &Outcome) {
    for (key, expected) in [("state", "enabled"), ("stopped", "0")] {
        assert_eq!(
            outcome.value(key),
            Some(expected),
            "{key}: {}",
            outcome.output
        );
    }
}
