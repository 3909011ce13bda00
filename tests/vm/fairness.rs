// SPDX-License-Identifier: GPL-2.0-only
//! Shares of one CPU by weight, over seconds and within any single one, under icount.

use crate::guest::{assert_quiet, job, machine};
use crate::outcome::Outcome;
use crate::topology::Topology;

/// Percent that a hog's CPU time may be off its share over 6 s. A request is 2.8 ms; the least hog gets 366 ms.
const SHARE_PCT: f64 = 3.0;

/// Least part of its share that a hog may get within a window of 1 s.
const WORST_WINDOW: f64 = 0.5;

/// Shares of the weights 1024, 1024, 335 and 3121.
const SHARES: [f64; 4] = [0.18605, 0.18605, 0.06087, 0.56704];

/// CPU time of each hog, in the order of the output, for lines that have all of `words`.
fn cpu_ms(outcome: &Outcome, words: &[&str]) -> Vec<f64> {
    let lines = outcome.output.lines().filter(|line| {
        line.starts_with("hog=")
            && words
                .iter()
                .all(|word| line.split(' ').any(|w| w.starts_with(word)))
    });
    let values = lines.filter_map(|line| {
        line.split(' ')
            .find_map(|word| word.strip_prefix("cpu_ms="))
    });
    values.map(|value| value.parse().unwrap()).collect()
}

#[track_caller]
fn assert_shares(outcome: &Outcome) {
    let ms = cpu_ms(outcome, &["nice="]);
    assert_eq!(ms.len(), SHARES.len(), "{}", outcome.output);
    let total: f64 = ms.iter().sum();
    assert!(total > 5600.0, "the CPU was not busy: {ms:?}");
    for (ms, share) in ms.iter().zip(SHARES) {
        let off = (ms / (total * share) - 1.0) * 100.0;
        assert!(
            off.abs() <= SHARE_PCT,
            "{ms} ms is {off:+.2} % off:\n{}",
            outcome.output
        );
    }
    for window in 0..6 {
        let ms = cpu_ms(outcome, &[&format!("window={window}")]);
        assert_eq!(
            ms.len(),
            SHARES.len(),
            "window {window}:\n{}",
            outcome.output
        );
        let total: f64 = ms.iter().sum();
        for (ms, share) in ms.iter().zip(SHARES) {
            let got = ms / (total * share);
            assert!(
                got >= WORST_WINDOW,
                "window {window}: {got:.2} of its share: {}",
                outcome.output
            );
        }
    }
}

/// Runs the four hogs under each set of options, in one boot, and returns their outputs.
fn run_hogs(topology: Topology, kinds: [&str; 2], arms: &[&str]) -> Vec<Outcome> {
    let [a, b] = kinds;
    let mut text = String::new();
    for options in arms {
        text += &format!(
            "start {options}
            lab hogs --seconds 6 --window-ms 1000 --hog nice=0,{a} --hog nice=0,{b} --hog nice=5,{a} --hog nice=-5,{b}
            stop\n"
        );
    }
    let outcome = machine("7.3")
        .topology(topology)
        .icount(true)
        .run(&job(&text))
        .unwrap()
        .success();
    assert_quiet(&outcome.dmesg);
    let ends = outcome.output.split_inclusive("stopped=0\n");
    let outputs: Vec<_> = ends
        .filter(|part| part.contains("hog="))
        .map(str::to_owned)
        .collect();
    assert_eq!(outputs.len(), arms.len(), "{}", outcome.output);
    let one = |output| Outcome {
        code: 0,
        output,
        dmesg: String::new(),
        boot: outcome.boot,
        wall: outcome.wall,
    };
    outputs.into_iter().map(one).collect()
}

#[test]
fn hogs_pinned_to_one_cpu_get_their_shares() {
    assert_shares(&run_hogs(Topology::default(), ["cpu=1", "cpu=1"], &[""])[0]);
}

#[test]
fn pinned_and_free_hogs_share_a_single_cpu_alike_also_when_slices_end_at_ticks() {
    for outcome in run_hogs(Topology::t4(), ["cpu=0", "count=1"], &["", "--no-hrtick"]) {
        assert_shares(&outcome);
    }
}
