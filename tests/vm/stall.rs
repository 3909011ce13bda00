// SPDX-License-Identifier: GPL-2.0-only
//! Crowds, and everything that moves tasks about: nobody is left waiting, nobody is ejected.

use std::time::Duration;

use crate::guest::{assert_quiet, assert_was_on_to_the_end, job, machine};
use crate::topology::Topology;

/// The kernel's own limit is 30 s; a sleeper among 50 hogs on 8 CPUs is due within its request, some 100 ms. Real
/// time on a machine that is shared: the bound is generous, and still far below a stall.
const WORST_WAKEUP_MS: u32 = 10_000;

#[test]
fn five_hundred_sleepers_and_fifty_hogs_then_every_kind_of_churn_do_not_stall() {
    let outcome = machine("7.3")
        .topology(Topology::t2())
        .timeout(Duration::from_secs(420))
        .run(&job(&format!(
            "start
            lab sleepers --count 500 --hogs 50 --seconds 60 --max-late-ms {WORST_WAKEUP_MS}
            echo crowd=$?
            stress-ng --quiet --fork 2 --pipe 4 --futex 4 --affinity 4 --affinity-rand --timeout 60
            echo stress=$?
            echo state=$(state)
            stop"
        )))
        .unwrap()
        .success();
    let value = |key| outcome.value(key).unwrap_or("missing");
    assert_eq!(
        ["crowd", "stress", "state", "stopped"].map(value),
        ["0", "0", "enabled", "0"],
        "{}",
        outcome.output
    );
    assert_quiet(&outcome.dmesg);
}

/// SCHED_IDLE beside 50 hogs is due 4 ms in more than a minute: the watchdog would eject everyone. Its limit is
/// lowered here from 30 s, to wait less for it; it looks twice in that time.
#[test]
fn a_task_whose_share_is_tiny_does_not_get_everyone_ejected() {
    let outcome = machine("7.3")
        .topology(Topology::t4())
        .icount(true)
        .run(&job("export SCX_TIMEOUT_MS=14000
            start --stats 10 >/tmp/stats
            lab hogs --hog policy=idle,count=2 --hog count=50 --seconds 26 >/dev/null; echo hogs=$?
            echo state=$(state)
            stop
            cat /tmp/stats"))
        .unwrap()
        .success();
    assert_was_on_to_the_end(&outcome);
    assert_quiet(&outcome.dmesg);
}
