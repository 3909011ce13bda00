// SPDX-License-Identifier: GPL-2.0-only
//! The smallest shares are still given before the kernel's watchdog ejects everyone; crowds are in cases.rs.

use crate::guest::{assert_quiet, assert_was_on_to_the_end, job, machine};
use crate::topology::Topology;

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
