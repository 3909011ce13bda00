// SPDX-License-Identifier: GPL-2.0-only
//! Each knob, switched: what a user sees change. One boot under icount serves all tests; an arm is one set of options,
//! and each arm runs the same scenarios on one CPU.

use std::sync::LazyLock;

use crate::guest::{assert_quiet, job, machine};
use crate::outcome::Outcome;

/// Two equal hogs: how long they run without a break.
const TWO: &str = "lab hogs --seconds 1 --hog cpu=1,count=2";

/// A sleeper that uses a tenth of its share, and a hog with long requests: how soon the sleeper runs.
const LIGHT: &str = "lab hogs --seconds 2 --hog cpu=1,name=sleeper,run_us=300,sleep_us=7300 --hog cpu=1,slice_us=20000";

/// A sleeper that takes more than its share at a time and comes back at once, and a hog with short requests.
const GREEDY: &str = "lab hogs --seconds 2 --hog cpu=1,name=sleeper,slice_us=10000,run_us=8000,sleep_us=1000 --hog cpu=1,slice_us=1000";

/// The same after a sleep that is long enough to pay.
const PATIENT: &str = "lab hogs --seconds 2 --hog cpu=1,name=sleeper,slice_us=10000,run_us=8000,sleep_us=30000 --hog cpu=1,slice_us=1000";

/// Name, options, and scenarios by name.
type Arm = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const ARMS: [Arm; 9] = [
    ("slice700", "--slice-us 700", &[("two", TWO)]),
    ("slice6440", "--slice-us 6440", &[("two", TWO)]),
    ("ticks700", "--slice-us 700 --no-hrtick", &[("two", TWO)]),
    ("parity", "--slice-us 20000", &[("two", TWO)]),
    (
        "noparity",
        "--slice-us 20000 --no-run-to-parity",
        &[("two", TWO)],
    ),
    ("defaults", "", &[("light", LIGHT), ("patient", PATIENT)]),
    ("nopreempt", "--no-wakeup-preemption", &[("light", LIGHT)]),
    (
        "nodelay",
        "--no-delay-dequeue",
        &[("greedy", GREEDY), ("patient", PATIENT)],
    ),
    (
        "nolag",
        "--no-delay-dequeue --no-place-lag",
        &[("greedy", GREEDY)],
    ),
];

static RUN: LazyLock<Outcome> = LazyLock::new(|| {
    let mut text = String::new();
    for (arm, options, scenarios) in ARMS {
        text += &format!("start {options}\n");
        for (scenario, command) in scenarios {
            text += &format!("{command} | sed 's/^/{arm}:{scenario} /'\n");
        }
        text += "stop\n";
    }
    let outcome = machine("7.3")
        .icount(true)
        .run(&job(&text))
        .unwrap()
        .success();
    assert_quiet(&outcome.dmesg);
    outcome
});

/// `key` of the first line of that scenario that has `word`.
fn value(arm: &str, scenario: &str, word: &str, key: &str) -> f64 {
    let prefix = format!("{arm}:{scenario} hog=");
    let line = RUN
        .output
        .lines()
        .find(|line| line.starts_with(&prefix) && line.contains(word) && line.contains(key))
        .unwrap_or_else(|| panic!("no {key} of {arm}:{scenario} in:\n{}", RUN.output));
    let text = line
        .split(' ')
        .find_map(|w| w.strip_prefix(&format!("{key}=")))
        .unwrap();
    text.parse().unwrap()
}

fn run_us(arm: &str) -> f64 {
    value(arm, "two", "", "run_p50_us")
}

fn wakeup_us(arm: &str, scenario: &str) -> f64 {
    value(arm, scenario, "name=sleeper", "wake_p50_us")
}

/// A request may end late by the timer's interrupt and the switch.
#[track_caller]
fn assert_near(us: f64, expected: f64) {
    assert!(
        (us / expected - 1.0).abs() < 0.1,
        "{us} us is not {expected} us\n{}",
        RUN.output
    );
}

#[test]
fn slice_us_is_how_long_equal_hogs_run() {
    assert_near(run_us("slice700"), 700.0);
    assert_near(run_us("slice6440"), 6440.0);
}

#[test]
fn without_hrtick_a_short_slice_lasts_to_the_tick() {
    assert_near(run_us("ticks700"), 4000.0);
}

#[test]
fn without_run_to_parity_a_long_request_is_cut_where_it_becomes_ineligible() {
    assert_near(run_us("parity"), 20_000.0);
    assert!(run_us("noparity") < 10_000.0, "{}", run_us("noparity"));
}

#[test]
fn without_wakeup_preemption_a_wakeup_waits_for_the_request_to_end() {
    let (on, off) = (
        wakeup_us("defaults", "light"),
        wakeup_us("nopreempt", "light"),
    );
    assert!(on < 500.0, "{on} us");
    assert!(off > 5000.0, "{off} us");
}

#[test]
fn without_place_lag_a_task_that_took_too_much_comes_back_at_once() {
    let (on, off) = (wakeup_us("nodelay", "greedy"), wakeup_us("nolag", "greedy"));
    assert!(on > 4000.0, "{on} us");
    assert!(off < 2000.0, "{off} us");
}

#[test]
fn with_delay_dequeue_a_long_sleep_pays_the_debt() {
    let (on, off) = (
        wakeup_us("defaults", "patient"),
        wakeup_us("nodelay", "patient"),
    );
    assert!(on < 2000.0, "{on} us");
    assert!(off > 4000.0, "{off} us");
}
