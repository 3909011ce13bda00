// SPDX-License-Identifier: GPL-2.0-only
//! Loading, scheduling, unloading, and what happens when the loader dies.

use crate::guest::{assert_quiet, job, machine};
use crate::kernel::kernels;
use crate::topology::Topology;

#[test]
fn it_loads_schedules_and_unloads_on_every_kernel() {
    for minor in kernels().unwrap() {
        let outcome = machine(minor)
            .run(&job("echo before=$(state)
                start --slice-us 6440 --no-place-lag
                echo during=$(state) ops=$(cat $SYS/root/ops)
                hackbench -g 2 -l 20 >/dev/null; echo work=$?
                lab hogs --hog count=12 --seconds 2 >/dev/null; echo hogs=$?
                stop
                echo after=$(state)"))
            .unwrap()
            .success();
        let value = |key| outcome.value(key).unwrap_or("missing");
        assert_eq!(
            ["before", "during", "work", "hogs", "stopped", "after"].map(value),
            ["disabled", "enabled", "0", "0", "0", "disabled"],
            "kernel {minor}:\n{}",
            outcome.output
        );
        assert!(value("ops").starts_with("eevdfx_"), "{}", outcome.output);
        assert_quiet(&outcome.dmesg);
    }
}

#[test]
fn when_the_loader_is_killed_the_kernel_takes_over_and_the_work_goes_on() {
    for minor in kernels().unwrap() {
        let outcome = machine(minor)
            .run(&job("start
                hackbench -g 2 -l 100 >/dev/null &
                WORK=$!
                sleep 1
                kill -9 $PID
                wait $WORK; echo work=$?
                echo after=$(state)
                start
                stop"))
            .unwrap()
            .success();
        let value = |key| outcome.value(key).unwrap_or("missing");
        assert_eq!(
            ["work", "after", "stopped"].map(value),
            ["0", "disabled", "0"],
            "{minor}"
        );
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
        .run(&job("start --slice-us 5000
            hackbench -g 2 -l 200 >/dev/null &
            WORK=$!
            echo 0 >/sys/devices/system/cpu/cpu5/online; sleep 3
            echo 1 >/sys/devices/system/cpu/cpu5/online; sleep 3
            wait $WORK; echo work=$?
            while [ \"$(state)\" != enabled ]; do sleep 0.2; done
            echo restarts=$(grep -c restarting /tmp/log)
            stop"))
        .unwrap()
        .success();
    assert_eq!(outcome.value("work"), Some("0"), "{}", outcome.output);
    assert!(
        outcome.get::<u32>("restarts").unwrap() >= 2,
        "{}",
        outcome.output
    );
    assert_eq!(outcome.value("stopped"), Some("0"), "{}", outcome.output);
    assert_quiet(&outcome.dmesg);
}
