// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler with one set of options after another, in one boot under icount.

use std::time::Duration;

use crate::guest::{assert_quiet, job, machine};
use crate::outcome::Outcome;
use crate::topology::Topology;

/// `arm NAME OPTIONS -- COMMAND`: the command under the scheduler with these options; its output and the sums of the counters,
/// each line with the name before it.
const ARM: &str = r#"
arm() {
    NAME=$1; OPTIONS=; shift
    while [ "$1" != -- ]; do OPTIONS="$OPTIONS $1"; shift; done
    shift
    start --stats 0.5 $OPTIONS >/tmp/stats
    "$@" 2>&1 | grep -v '^hog=' | sed "s/^/$NAME /"
    sleep 0.6
    stop >/tmp/stopped
    sed "s/^/$NAME /" /tmp/stopped
    awk -v name=$NAME '/time_s/ { split($0, label); next }
        { for (i = 2; i <= NF; i++) sum[i] += $i }
        END { for (i in sum) print name, label[i] "=" sum[i] }' /tmp/stats
}
"#;

pub struct Arms {
    outcome: Outcome,
    nr: usize,
}

impl Arms {
    /// `arms` calls the word above, each call a line of its own, and may call those that `words` defines.
    pub fn run(topology: Topology, words: &str, arms: &str) -> Self {
        let outcome = machine("7.3")
            .topology(topology)
            .icount(true)
            .timeout(Duration::from_secs(900))
            .run(&job(&format!("{ARM}{words}{arms}")))
            .unwrap()
            .success();
        assert_quiet(&outcome.dmesg);
        Self {
            outcome,
            nr: arms.matches("arm ").count(),
        }
    }

    /// The figure `key=…` that `arm` printed.
    #[track_caller]
    pub fn value(&self, arm: &str, key: &str) -> f64 {
        let lines = self
            .outcome
            .output
            .lines()
            .filter_map(|line| line.strip_prefix(arm)?.strip_prefix(' '));
        let mut words = lines.flat_map(|line| line.split(' '));
        let found = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let Some(found) = found else {
            panic!("{arm} has no {key}:\n{}", self.outcome.output)
        };
        found.parse().unwrap()
    }

    #[track_caller]
    pub fn assert_ended(&self) {
        let ends = self.outcome.output.matches(" stopped=0").count();
        assert_eq!(ends, self.nr, "{}", self.outcome.output);
    }
}
