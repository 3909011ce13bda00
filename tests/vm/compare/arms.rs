// SPDX-License-Identifier: GPL-2.0-only
//! What runs, under which settings of both schedulers, and how to find a figure in the output.

use std::sync::LazyLock;
use std::time::Duration;

use crate::guest::{assert_quiet, job, machine};
use crate::outcome::Outcome;
use crate::topology::Topology;

/// By name. All run on CPU 1; CPU 0 has what is not measured.
const SCENARIOS: &[(&str, &str)] = &[
    (
        "share2",
        "lab hogs --seconds 4 --hog cpu=1 --hog cpu=1,nice=5",
    ),
    (
        "share5",
        "lab hogs --seconds 5 --hog cpu=1,nice=-5 --hog cpu=1,count=2 --hog cpu=1,nice=3 --hog cpu=1,nice=5",
    ),
    (
        "share40",
        "lab hogs --seconds 20 --hog cpu=1,nice=-3,count=6 --hog cpu=1,nice=-2,count=6 --hog cpu=1,nice=-1,count=6 \
         --hog cpu=1,count=6 --hog cpu=1,nice=1,count=6 --hog cpu=1,nice=2,count=5 --hog cpu=1,nice=3,count=5",
    ),
    ("two", "lab hogs --seconds 1 --hog cpu=1,count=2"),
    (
        "custom",
        "lab hogs --seconds 2 --hog cpu=1,name=a,slice_us=300 --hog cpu=1,name=b,slice_us=3000 \
         --hog cpu=1,name=c,slice_us=30000",
    ),
    // Takes little and is owed. Slices are equal, so that no request preempts for being short.
    (
        "credit",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,slice_us=20000,run_us=300,sleep_us=7300 \
         --hog cpu=1,slice_us=20000",
    ),
    (
        "batch",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,policy=batch,slice_us=20000,run_us=300,sleep_us=7300 \
         --hog cpu=1,slice_us=20000",
    ),
    // Takes more than its share at once and is back before the debt is paid.
    (
        "debt",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,nice=5,slice_us=10000,run_us=8000,sleep_us=1000 \
         --hog cpu=1,slice_us=10000",
    ),
    // The same after a sleep that is long enough to pay.
    (
        "patient",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,nice=5,slice_us=10000,run_us=8000,sleep_us=40000 \
         --hog cpu=1,slice_us=10000",
    ),
    // Pays the debt of a burst, and more, while the hog's request goes on.
    (
        "zero",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,slice_us=20000,run_us=8000,sleep_us=16000 \
         --hog cpu=1,slice_us=20000",
    ),
    (
        "short",
        "lab hogs --seconds 2 --hog cpu=1,name=sleeper,slice_us=1000,run_us=300,sleep_us=7300 \
         --hog cpu=1,slice_us=20000,count=2",
    ),
    // Wakes with a later deadline than all the others, its debt paid.
    (
        "buddy",
        "lab hogs --seconds 1 --hog cpu=1,name=sleeper,slice_us=30000,run_us=2000,sleep_us=9300 \
         --hog cpu=1,slice_us=3000,count=3",
    ),
    // Taken off the queue and put back in the midst of its request, beside somewhat shorter ones.
    (
        "poked",
        "lab hogs --seconds 3 --hog cpu=1,name=poked,slice_us=20000,poke_us=500 --hog cpu=1,slice_us=16000,count=2",
    ),
    (
        "renice",
        "lab hogs --seconds 4 --window-ms 1000 --hog cpu=1,renice=5@1000,renice=-5@3000 --hog cpu=1",
    ),
    (
        "long",
        "lab hogs --seconds 1 --hog cpu=1,slice_us=20000,count=2",
    ),
    (
        "background",
        "lab hogs --seconds 1 --hog cpu=1,name=sleeper,run_us=300,sleep_us=7300 --hog cpu=1,policy=idle",
    ),
    // The group of one of two hogs becomes idle after a second.
    (
        "group",
        "{ mkdir -p $CG/idle; echo 0 >$CG/idle/cpu.idle
            (echo 0 >$CG/idle/cgroup.procs; exec lab hogs --seconds 3 --window-ms 1000 --hog cpu=1) &
            (sleep 1; echo 1 >$CG/idle/cpu.idle) &
            lab hogs --seconds 3 --hog cpu=1,name=root >/dev/null; wait; }",
    ),
    ("fork", "lab newborn --cpu 1 --hogs 2 --count 15"),
    (
        "yields",
        "lab hogs --seconds 1 --hog cpu=1,yields=1,count=2",
    ),
    (
        "yielder",
        "lab hogs --seconds 1 --hog cpu=1,yields=1 --hog cpu=1",
    ),
    ("crowd10", "lab yield --threads 10 --cpu 1 --seconds 0.1"),
    ("crowd300", "lab yield --threads 300 --cpu 1 --seconds 0.1"),
];

struct Arm {
    name: &'static str,
    /// What to write to debugfs' sched/features; `slice=NS` sets the base slice.
    kernel: &'static [&'static str],
    ours: &'static [&'static str],
    scenarios: &'static [&'static str],
}

const ARMS: &[Arm] = &[
    Arm {
        name: "default",
        kernel: &[],
        ours: &[],
        scenarios: &[
            "share2",
            "share5",
            "share40",
            "two",
            "custom",
            "credit",
            "batch",
            "debt",
            "patient",
            "zero",
            "short",
            "buddy",
            "poked",
            "renice",
            "fork",
            "yields",
            "yielder",
            "crowd10",
            "crowd300",
            "long",
            "background",
            "group",
        ],
    },
    Arm {
        name: "ticks700",
        kernel: &["slice=700000", "NO_HRTICK"],
        ours: &["--slice-us", "700", "--no-hrtick"],
        scenarios: &["two"],
    },
    // A task that sleeps in debt keeps its place with DELAY_DEQUEUE, whatever PLACE_LAG says.
    Arm {
        name: "nodelay",
        kernel: &["NO_DELAY_DEQUEUE"],
        ours: &["--no-delay-dequeue"],
        scenarios: &["debt", "patient"],
    },
    // A start of ours takes seconds. The base slice matters to `two` alone, which nobody sleeps in.
    Arm {
        name: "nolag700",
        kernel: &["NO_DELAY_DEQUEUE", "NO_PLACE_LAG", "slice=700000"],
        ours: &["--no-delay-dequeue", "--no-place-lag", "--slice-us", "700"],
        scenarios: &["debt", "credit", "two"],
    },
    Arm {
        name: "noshort",
        kernel: &["NO_PREEMPT_SHORT"],
        ours: &["--no-preempt-short"],
        scenarios: &["short"],
    },
    // Nobody forks in `zero` or sleeps in debt in `fork`.
    Arm {
        name: "noinitial_nozero",
        kernel: &["NO_PLACE_DEADLINE_INITIAL", "NO_DELAY_ZERO"],
        ours: &["--no-place-deadline-initial", "--no-delay-zero"],
        scenarios: &["fork", "zero"],
    },
    Arm {
        name: "norel",
        kernel: &["NO_PLACE_REL_DEADLINE"],
        ours: &["--no-place-rel-deadline"],
        scenarios: &["poked"],
    },
    // No wakeups in `long`.
    Arm {
        name: "noparity_nopreempt",
        kernel: &["NO_RUN_TO_PARITY", "NO_WAKEUP_PREEMPTION"],
        ours: &["--no-run-to-parity", "--no-wakeup-preemption"],
        scenarios: &["long", "credit"],
    },
    Arm {
        name: "nopick",
        kernel: &["NEXT_BUDDY", "NO_PICK_BUDDY"],
        ours: &["--next-buddy", "--no-pick-buddy"],
        scenarios: &["buddy"],
    },
    Arm {
        name: "next",
        kernel: &["NEXT_BUDDY"],
        ours: &["--next-buddy"],
        scenarios: &["buddy"],
    },
];

const WORDS: &str = "
CG=/sys/fs/cgroup
echo +cpu >$CG/cgroup.subtree_control
";

/// Applies to the in-kernel scheduler, for the length of an arm.
const KERNEL_WORDS: &str = r#"
SCHED=/sys/kernel/debug/sched
BASE=$(cat $SCHED/base_slice_ns)
set_feature() { case $1 in slice=*) echo ${1#slice=} >$SCHED/base_slice_ns;; *) echo $1 >$SCHED/features;; esac; }
unset_feature() {
    case $1 in
    slice=*) echo $BASE >$SCHED/base_slice_ns;;
    NO_*) echo ${1#NO_} >$SCHED/features;;
    *) echo NO_$1 >$SCHED/features;;
    esac
}
"#;

static RUN: LazyLock<Outcome> = LazyLock::new(|| {
    let mut text = format!("{WORDS}{KERNEL_WORDS}");
    // The first workload in a guest finds cold caches of files and pages.
    text += &format!("{} >/dev/null\n", command("two"));
    for arm in ARMS {
        for feature in arm.kernel {
            text += &format!("set_feature {feature}\n");
        }
        text += &commands("kernel", arm);
        for feature in arm.kernel {
            text += &format!("unset_feature {feature}\n");
        }
    }
    for arm in ARMS {
        text += &format!("start {}\n", arm.ours.join(" "));
        text += &commands("ours", arm);
        text += "stop\n";
    }
    let outcome = machine("7.3")
        .topology(Topology::new(1, 2, 1, 0))
        .icount(true)
        .timeout(Duration::from_secs(900))
        .run(&job(&text))
        .unwrap()
        .success();
    assert_quiet(&outcome.dmesg);
    // Shown when a test fails, and by --nocapture.
    println!("{}", outcome.output);
    outcome
});

fn command(scenario: &str) -> &'static str {
    let found = SCENARIOS.iter().find(|(name, _)| *name == scenario);
    found
        .unwrap_or_else(|| panic!("no scenario {scenario:?}"))
        .1
}

fn commands(side: &str, arm: &Arm) -> String {
    let scenarios = arm.scenarios.iter();
    let lines = scenarios.map(|scenario| {
        let prefix = format!("{side}:{}:{scenario}", arm.name);
        format!("{} | sed 's/^/{prefix} /'\n", command(scenario))
    });
    lines.collect()
}

/// All values of `key` in that scenario, by the lines that have `word`.
pub fn values(side: &str, arm: &str, scenario: &str, word: &str, key: &str) -> Vec<f64> {
    let prefix = format!("{side}:{arm}:{scenario} ");
    let lines = RUN
        .output
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix))
        .filter(|line| word.is_empty() || line.split(' ').any(|w| w == word));
    let texts = lines.filter_map(|line| {
        line.split(' ')
            .find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
    });
    texts.map(|text| text.parse().unwrap()).collect()
}

/// The first of them.
#[track_caller]
pub fn value(side: &str, arm: &str, scenario: &str, word: &str, key: &str) -> f64 {
    let values = values(side, arm, scenario, word, key);
    *values
        .first()
        .unwrap_or_else(|| panic!("no {key} of {side}:{arm}:{scenario} in:\n{}", RUN.output))
}

/// The kernel's and ours.
#[track_caller]
pub fn both(arm: &str, scenario: &str, word: &str, key: &str) -> (f64, f64) {
    ["kernel", "ours"]
        .map(|side| value(side, arm, scenario, word, key))
        .into()
}
