// SPDX-License-Identifier: GPL-2.0-only
//! Shares of a machine's only CPU by weight, over seconds and within any single one, under icount. Pinned hogs on one of
//! several CPUs are in compare.rs.

use crate::guest::{assert_quiet, job, machine};
use crate::topology::Topology;

/// Percent that a hog's CPU time may be off its share over 6 s. A request is 2.8 ms; the least hog gets 366 ms.
const SHARE_PCT: f64 = 3.0;

/// Least part of its share that a hog may get within a window of 1 s.
const WORST_WINDOW: f64 = 0.5;

/// Shares of the weights 1024, 1024, 335 and 3121.
const SHARES: [f64; 4] = [0.18605, 0.18605, 0.06087, 0.56704];

/// CPU time of each hog, in the order of the output, for lines that have all of `words`.
fn cpu_ms(output: &str, words: &[&str]) -> Vec<f64> {
    let lines = output.lines().filter(|line| {
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
fn assert_shares(output: &str) {
    let ms = cpu_ms(output, &["nice="]);
    assert_eq!(ms.len(), SHARES.len(), "{output}");
    let total: f64 = ms.iter().sum();
    assert!(total > 5600.0, "the CPU was not busy: {ms:?}");
    for (ms, share) in ms.iter().zip(SHARES) {
        let off = (ms / (total * share) - 1.0) * 100.0;
        assert!(
            off.abs() <= SHARE_PCT,
            "{ms} ms is {off:+.2} % off:\n{output}"
        );
    }
    for window in 0..6 {
        let ms = cpu_ms(output, &[&format!("window={window}")]);
        assert_eq!(ms.len(), SHARES.len(), "window {window}:\n{output}");
        let total: f64 = ms.iter().sum();
        for (ms, share) in ms.iter().zip(SHARES) {
            let got = ms / (total * share);
            assert!(
                got >= WORST_WINDOW,
                "window {window}: {got:.2} of its share: {output}"
            );
        }
    }
}

#[test]
fn pinned_and_free_hogs_share_a_single_cpu_alike_also_when_slices_end_at_ticks() {
    let arms = ["", "--no-hrtick"];
    let mut text = String::new();
    for options in arms {
        text += &format!(
            "start {options}
            lab hogs --seconds 6 --window-ms 1000 --hog nice=0,cpu=0 --hog nice=0 --hog nice=5,cpu=0 --hog nice=-5
            stop\n"
        );
    }
    let outcome = machine("7.3")
        .topology(Topology::t4())
        .icount(true)
        .run(&job(&text))
        .unwrap()
        .success();
    assert_quiet(&outcome.dmesg);
    let parts: Vec<_> = outcome
        .output
        .split_inclusive("stopped=0\n")
        .filter(|part| part.contains("hog="))
        .collect();
    assert_eq!(parts.len(), arms.len(), "{}", outcome.output);
    for part in parts {
        assert_shares(part);
    }
}
