// SPDX-License-Identifier: GPL-2.0-only
//! The smallest shares are still given before the kernel ejects everyone; crowds are in cases.rs.

use crate::guest::{assert_quiet, assert_was_on_to_the_end, job, machine};
use crate::topology::Topology;

/// SCHED_IDLE beside 50 hogs is due 4 ms in more than a minute: the watchdog would eject everyone. Its limit is
/// lowered here from 30 s, to wait less for it; it looks twice in that time.
const TINY: &str = "
    export SCX_TIMEOUT_MS=14000
    start --stats 10 >/tmp/stats
    lab hogs --hog policy=idle,count=2 --hog count=50 --seconds 26 >/dev/null; echo hogs=$?
    echo state=$(state)
    stop
    cat /tmp/stats
    unset SCX_TIMEOUT_MS
";

/// Nice 19 beside ten hogs runs once in two seconds, which nobody minds, unless it is preempted inside an RCU read-side
/// section: here in a BPF program that is attached to writes and takes its time.
const READER: &str = "
    rescued() { awk -v name=$1 '$1 == \"time_s\" { for (i = 1; i <= NF; i++) if ($i == \"rescue\") at = i; next }
        { sum += $at } END { print name \"=\" sum + 0 }' /tmp/stats; }
    crowd() {
        start --stats 1 >/tmp/stats
        nice -n 19 dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & WRITER=$!
        lab hogs --hog count=10 --seconds 4 >/dev/null
        kill $WRITER
        stop
    }
    crowd; rescued outside
    lab nomigrate --seconds 60 --one-in 1 >/tmp/tracer & TRACER=$!
    until [ -s /tmp/tracer ]; do sleep 0.1; done
    crowd; rescued inside
    kill $TRACER
";

#[test]
fn a_task_whose_share_is_tiny_does_not_get_everyone_ejected() {
    let outcome = machine("7.3")
        .topology(Topology::t4())
        .icount(true)
        .run(&job(&format!("{TINY}{READER}")))
        .unwrap()
        .success();
    assert_was_on_to_the_end(&outcome);
    assert_quiet(&outcome.dmesg);
    // Every 200 ms it is due, if it was preempted inside. A write has short RCU read-side sections of its own, so a
    // tick may preempt the other one inside as well, once in a while.
    let [outside, inside]: [u32; 2] = ["outside", "inside"].map(|key| outcome.get(key).unwrap());
    assert!(inside >= 3 && outside * 3 <= inside, "{}", outcome.output);
}
