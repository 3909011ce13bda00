// SPDX-License-Identifier: GPL-2.0-only
//! Loading, scheduling, unloading, and what happens when the loader dies.

use crate::guest::{assert_quiet, job, machine};
use crate::kernel::kernels;

/// Both on every kernel, in one boot each: a normal life, then one that ends by SIGKILL under load.
const LIVES: &str = "
    echo before=$(state)
    start --verbose --slice-us 6440 --no-place-lag --exec-balance least_loaded
    grep -o 'verified .*' /tmp/log
    echo during=$(state) ops=$(cat $SYS/root/ops)
    hackbench -g 2 -l 20 >/dev/null; echo work=$?
    lab hogs --hog count=12 --seconds 2 >/dev/null; echo hogs=$?
    lab burst --programs 64 --cpu-ms 1,20 >/dev/null; echo programs=$?
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

/// What a program may cost the verifier, in instructions that it looks at; its limit is a million, and kernels differ in
/// how well they prune. Twice what was seen on the worst of them, so that growth by accident shows here before it shows as
/// a kernel that refuses to load.
const VERIFIER_BUDGET: u64 = 50_000;

fn assert_verifier_budgets(minor: &str, output: &str) {
    let mut seen = 0;
    for line in output.lines().filter_map(|l| l.strip_prefix("verified ")) {
        let (program, rest) = line.split_once(": ").unwrap();
        let count: u64 = rest.strip_suffix(" instructions").unwrap().parse().unwrap();
        assert!(count <= VERIFIER_BUDGET, "{program} on {minor}: {count}");
        println!("{minor} {line}");
        seen += 1;
    }
    assert!(seen >= 15, "{seen} programs on {minor}:\n{output}");
}

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
            ("programs", "0"),
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
        assert_verifier_budgets(minor, &outcome.output);
        assert!(value("ops").starts_with("eevdfx_"), "{}", outcome.output);
        assert_quiet(&outcome.dmesg);
    }
}

/// CPU 5 goes and comes twenty times, the first time until it is attached anew, under load and with the counters printed.
const HOTPLUG: &str = "
    cpu5() { echo $1 >/sys/devices/system/cpu/cpu5/online; }
    # Anew: a CPU that comes while it is down is no event to it.
    attached() { [ $(grep -c attached /tmp/log) -gt 1 ] && [ \"$(state)\" = enabled ]; }
    touch /tmp/go
    (while [ -e /tmp/go ]; do hackbench -g 1 -l 50 >/dev/null || exit 1; done) &
    WORK=$!
    start --slice-us 20000 --stats 1 >/tmp/stats
    cpu5 0
    until attached; do sleep 0.2; done
    for i in $(seq 19); do
        cpu5 1; sleep 0.3
        cpu5 0; sleep 0.3
    done
    cpu5 1
    ended=$(cut -d. -f1 /proc/uptime)
    # All is quiet: it is on, and stays so for longer than a pause.
    still=0
    while [ $still -lt 30 ]; do
        sleep 0.1
        still=$((still + 1))
        [ \"$(state)\" = enabled ] || still=0
    done
    echo back_s=$(($(cut -d. -f1 /proc/uptime) - ended))
    rm /tmp/go
    wait $WORK; echo work=$?
    lines=$(wc -l </tmp/stats)
    lab hogs --seconds 2 --hog cpu=1,count=2
    echo restarts=$(grep -c restarting /tmp/log) printed=$(($(wc -l </tmp/stats) - lines))
    grep -E 'restarting|attached' /tmp/log
    stop";

/// Three seconds of quiet, a pause of two, and two starts, since the one under way is in vain: each took 12 s on a guest
/// with a fifth of a CPU.
const BACK_S: u32 = 60;

#[test]
fn a_cpu_that_goes_and_comes_restarts_it_with_its_knobs() {
    let outcome = machine("7.3").run(&job(HOTPLUG)).unwrap().success();
    for key in ["work", "stopped"] {
        assert_eq!(outcome.value(key), Some("0"), "{key}: {}", outcome.output);
    }
    let number = |key| outcome.get::<u32>(key).unwrap();
    assert!(number("restarts") >= 2, "{}", outcome.output);
    assert!(number("back_s") <= BACK_S, "{}", outcome.output);
    assert!(number("printed") >= 1, "{}", outcome.output);
    // The default would be 2.8 ms.
    let run_us: f64 = outcome.get("run_p50_us").unwrap();
    assert!((15_000.0..25_000.0).contains(&run_us), "{}", outcome.output);
    assert_quiet(&outcome.dmesg);
}
