// SPDX-License-Identifier: GPL-2.0-only
//! Loading, scheduling, unloading, and what happens when the loader dies.

use crate::guest::{assert_quiet, job, machine};
use crate::kernel::kernels;
use crate::topology::Topology;

/// Both on every kernel, in one boot each: a normal life, then one that ends by SIGKILL under load.
const LIVES: &str = "
    echo before=$(state)
    start --slice-us 6440 --no-place-lag
    echo during=$(state) ops=$(cat $SYS/root/ops)
    hackbench -g 2 -l 20 >/dev/null; echo work=$?
    lab hogs --hog count=12 --seconds 2 >/dev/null; echo hogs=$?
    stop
    echo after=$(state)

    start
    hackbench -g 2 -l 100 >/dev/null &
    WORK=$!
    sleep 1
    kill -9 $PID
    wait $WORK; echo killed_work=$?
    until_free
    echo killed_after=$(state)
    start
    kill $PID; wait $PID; echo again=$?";

#[test]
fn on_every_kernel_it_loads_schedules_and_unloads_and_its_death_harms_nobody() {
    for minor in kernels().unwrap() {
        let outcome = machine(minor).run(&job(LIVES)).unwrap().success();
        let value = |key| outcome.value(key).unwrap_or("missing");
        let expected = [
            ("before", "disabled"),
            ("during", "enabled"),
            ("work", "0"),
            ("hogs", "0"),
            ("stopped", "0"),
            ("after", "disabled"),
            ("killed_work", "0"),
            ("killed_after", "disabled"),
            ("again", "0"),
        ];
        for (key, expected) in expected {
            assert_eq!(
                value(key),
                expected,
                "{key} on {minor}:\n{}",
                outcome.output
            );
        }
        assert!(value("ops").starts_with("eevdfx_"), "{}", outcome.output);
        assert_quiet(&outcome.dmesg);
    }
}

#[test]
fn it_runs_on_any_shape_of_machine() {
    let shapes = [
        Topology::t1(),
        Topology::t2(),
        Topology::t3(),
        Topology::t4(),
        Topology::t5(),
    ];
    for topology in shapes {
        let outcome = machine("7.3")
            .topology(topology.clone())
            .run(&job(
                "start; hackbench -g 1 -l 20 >/dev/null; echo work=$?; stop",
            ))
            .unwrap()
            .success();
        assert_eq!(outcome.value("work"), Some("0"), "{topology:?}");
        assert_eq!(outcome.value("stopped"), Some("0"), "{topology:?}");
        assert_quiet(&outcome.dmesg);
    }
}

#[test]
fn a_cpu_that_goes_and_comes_restarts_it_with_its_knobs() {
    let outcome = machine("7.3")
        .run(&job("start --slice-us 20000
            hackbench -g 2 -l 200 >/dev/null &
            WORK=$!
            # Attached anew for the Nth time: a CPU that comes while it is down is no event to it.
            attached() { [ $(grep -c attached /tmp/log) -gt $1 ] && [ \"$(state)\" = enabled ]; }
            echo 0 >/sys/devices/system/cpu/cpu5/online
            until attached 1; do sleep 0.2; done
            echo 1 >/sys/devices/system/cpu/cpu5/online
            until attached 2; do sleep 0.2; done
            wait $WORK; echo work=$?
            echo restarts=$(grep -c restarting /tmp/log)
            lab hogs --seconds 2 --hog cpu=1,count=2
            stop"))
        .unwrap()
        .success();
    assert_eq!(outcome.value("work"), Some("0"), "{}", outcome.output);
    assert!(
        outcome.get::<u32>("restarts").unwrap() >= 2,
        "{}",
        outcome.output
    );
    // The default would be 2.8 ms.
    let run_us: f64 = outcome.get("run_p50_us").unwrap();
    assert!((15_000.0..25_000.0).contains(&run_us), "{}", outcome.output);
    assert_eq!(outcome.value("stopped"), Some("0"), "{}", outcome.output);
    assert_quiet(&outcome.dmesg);
}
