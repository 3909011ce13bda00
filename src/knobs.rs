// SPDX-License-Identifier: GPL-2.0-only
//! Decides which rules of the scheduler can be switched, what each of them trades, and its default.
//!
//! [`KNOBS`] is the only list: the command line, its help and the start-up report are made from it,
//! so that a knob added here appears everywhere. What a knob does is in the BPF part (`struct knobs`
//! in `bpf/intf.h`, written by [`crate::bpf`]).

/// The values a knob takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// On (1) or off (0); `off` is the long option that turns it off.
    Switch {
        /// Long option without its dashes, `no-...`.
        off: &'static str,
    },
    /// A whole number, both bounds included.
    Number {
        /// Unit of the value and of the bounds.
        unit: &'static str,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// One of these words; the value is its place in the list.
    Choice {
        /// The words.
        words: &'static [&'static str],
    },
}

/// One switchable rule.
#[derive(Debug)]
pub struct Knob {
    /// Name in snake_case; a number's name ends in its unit.
    pub name: &'static str,
    /// Long option that sets it, or turns it on, without its dashes.
    pub option: &'static str,
    /// Accepted values.
    pub domain: Domain,
    /// The default in words.
    pub default: &'static str,
    /// The in-kernel scheduler's own switch: a flag of debugfs `sched/features`, or a debugfs file.
    pub kernel: &'static str,
    /// What the rule is, in one line.
    pub summary: &'static str,
    /// What on, or a larger value, does.
    pub up: &'static str,
    /// What off, or a smaller value, does.
    pub down: &'static str,
    get: fn(&Knobs) -> u64,
    set: fn(&mut Knobs, u64),
}

/// A knob, and a value that it takes.
pub type Setting = (&'static Knob, u64);

/// A value for every knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// Request of a task that asked for no slice of its own, us.
    pub slice_us: u64,
    /// A waking task gets back the lag it left with.
    pub place_lag: bool,
    /// A task that is moved or changed keeps what is left of its request.
    pub place_rel_deadline: bool,
    /// A forked task's first request is half a slice.
    pub place_deadline_initial: bool,
    /// A picked task keeps the CPU to the end of its request.
    pub run_to_parity: bool,
    /// A waking task with a shorter slice takes over in spite of that.
    pub preempt_short: bool,
    /// A wakeup may interrupt the running task.
    pub wakeup_preemption: bool,
    /// A sleeper's debt is paid off by the progress of the others.
    pub delay_dequeue: bool,
    /// That pays a debt, and gives nothing beyond it.
    pub delay_zero: bool,
    /// The task that was woken last is picked next.
    pub next_buddy: bool,
    /// The pick heeds hints on who is next.
    pub pick_buddy: bool,
    /// A request ends on time instead of at the next tick.
    pub hrtick: bool,
    /// When a wakeup may leave the task's home node, see [`NUMA_SPILL`].
    pub numa_spill: u64,
    /// A wakeup whose waker is about to sleep may take the waker's CPU.
    pub wake_sync: bool,
    /// A wakeup may go near its waker.
    pub wake_affine: bool,
    /// How long a task waits before an idle CPU of its LLC takes it, us.
    pub steal_delay_llc_us: u64,
    /// The same for an idle CPU of another LLC of its node, us.
    pub steal_delay_node_us: u64,
    /// The same for an idle CPU of the nearest other node, us.
    pub steal_delay_remote_us: u64,
    /// How long a task that ran counts as cache-hot, us.
    pub migration_cost_us: u64,
    /// By how much busy CPUs may differ in service per weight, us; 0: they are not balanced.
    pub balance_us: u64,
    /// How often a busy CPU looks, ms.
    pub balance_interval_ms: u64,
    /// Where a forked task starts, see [`SPREAD`].
    pub fork_balance: u64,
    /// Who queues a remote wakeup, see [`TTWU_QUEUE`].
    pub ttwu_queue: u64,
}

/// Values of numa_spill, as `enum numa_spill` in `bpf/intf.h`.
pub const NUMA_SPILL: &[&str] = &["never", "idle_core", "idle"];

/// Values of fork_balance, as `enum spread`.
pub const SPREAD: &[&str] = &["off", "least_loaded", "round_robin"];

/// Values of ttwu_queue, as `enum ttwu_queue`.
pub const TTWU_QUEUE: &[&str] = &["off", "kernel", "delayed", "always"];

/// Every knob, in the order in which help and reports show them.
pub static KNOBS: [Knob; 23] = [
    Knob {
        name: "slice_us",
        option: "slice-us",
        domain: Domain::Number {
            unit: "us",
            min: 100,
            max: 100_000,
        },
        default: "as the kernel's: 700 us * (1 + log2(min(online CPUs, 8)))",
        kernel: "base_slice_ns",
        summary: "Request of a task that asked for no slice of its own",
        up: "fewer switches and warmer caches: throughput, and long requests end sooner",
        down: "competing tasks wait less for their turn: latency of short requests",
        get: |k| k.slice_us,
        set: |k, v| k.slice_us = v,
    },
    Knob {
        name: "place_lag",
        option: "place-lag",
        domain: Domain::Switch {
            off: "no-place-lag",
        },
        default: "on",
        kernel: "PLACE_LAG",
        summary: "A waking task gets back the lag it left with",
        up: "fair over sleeps: what a task was owed, or owes, survives them",
        down: "placed at the average: every wakeup is eligible at once, sleepers gain on hogs",
        get: |k| u64::from(k.place_lag),
        set: |k, v| k.place_lag = v != 0,
    },
    Knob {
        name: "place_rel_deadline",
        option: "place-rel-deadline",
        domain: Domain::Switch {
            off: "no-place-rel-deadline",
        },
        default: "on",
        kernel: "PLACE_REL_DEADLINE",
        summary: "A task whose CPU, nice value or affinity changes keeps what is left of its request",
        up: "its turn comes no later for the change: latency of tasks that are moved often",
        down: "it starts a new request: a longer run, but a later turn",
        get: |k| u64::from(k.place_rel_deadline),
        set: |k, v| k.place_rel_deadline = v != 0,
    },
    Knob {
        name: "place_deadline_initial",
        option: "place-deadline-initial",
        domain: Domain::Switch {
            off: "no-place-deadline-initial",
        },
        default: "on",
        kernel: "PLACE_DEADLINE_INITIAL",
        summary: "A forked task's first request is half a slice",
        up: "its first turn comes sooner and is shorter: it eases into the competition",
        down: "a whole slice: it joins like a task that wakes up",
        get: |k| u64::from(k.place_deadline_initial),
        set: |k, v| k.place_deadline_initial = v != 0,
    },
    Knob {
        name: "run_to_parity",
        option: "run-to-parity",
        domain: Domain::Switch {
            off: "no-run-to-parity",
        },
        default: "on",
        kernel: "RUN_TO_PARITY",
        summary: "A picked task keeps the CPU to the end of its request",
        up: "fewer switches: throughput",
        down: "a task with an earlier deadline takes over sooner: wakeup latency",
        get: |k| u64::from(k.run_to_parity),
        set: |k, v| k.run_to_parity = v != 0,
    },
    Knob {
        name: "preempt_short",
        option: "preempt-short",
        domain: Domain::Switch {
            off: "no-preempt-short",
        },
        default: "on",
        kernel: "PREEMPT_SHORT",
        summary: "A waking task with a shorter slice than the running one's takes over, run_to_parity notwithstanding",
        up: "it runs as soon as it is eligible, and a task beside shorter slices is protected while it is eligible: latency of short requests",
        down: "it waits as any other, and the protection lasts for the shortest slice that is queued: fewer switches",
        get: |k| u64::from(k.preempt_short),
        set: |k, v| k.preempt_short = v != 0,
    },
    Knob {
        name: "wakeup_preemption",
        option: "wakeup-preemption",
        domain: Domain::Switch {
            off: "no-wakeup-preemption",
        },
        default: "on",
        kernel: "WAKEUP_PREEMPTION",
        summary: "A wakeup may interrupt the running task",
        up: "a waking task with an earlier deadline runs at once: wakeup latency",
        down: "it waits until the running task's slice ends: throughput, nearly first come first served",
        get: |k| u64::from(k.wakeup_preemption),
        set: |k, v| k.wakeup_preemption = v != 0,
    },
    Knob {
        name: "delay_dequeue",
        option: "delay-dequeue",
        domain: Domain::Switch {
            off: "no-delay-dequeue",
        },
        default: "on",
        kernel: "DELAY_DEQUEUE",
        summary: "A sleeper's debt is paid off by the progress of the others",
        up: "a task that ran more than its share and then slept long enough owes nothing",
        down: "it owes the same after any sleep: held back after short bursts",
        get: |k| u64::from(k.delay_dequeue),
        set: |k, v| k.delay_dequeue = v != 0,
    },
    Knob {
        name: "delay_zero",
        option: "delay-zero",
        domain: Domain::Switch {
            off: "no-delay-zero",
        },
        default: "on",
        kernel: "DELAY_ZERO",
        summary: "With delay_dequeue, sleep pays a debt down to 0 and no further",
        up: "nobody gains by sleeping: fair to those that kept running",
        down: "a long sleep turns a debt into up to one request that is owed: sleepers that ran long return sooner",
        get: |k| u64::from(k.delay_zero),
        set: |k, v| k.delay_zero = v != 0,
    },
    Knob {
        name: "next_buddy",
        option: "next-buddy",
        domain: Domain::Switch {
            off: "no-next-buddy",
        },
        default: "off",
        kernel: "NEXT_BUDDY",
        summary: "The task that was woken last, if eligible, is picked next",
        up: "it runs while the waker's data is still cached: throughput of tasks that wake each other",
        down: "only deadlines count: latency of those that would be passed over",
        get: |k| u64::from(k.next_buddy),
        set: |k, v| k.next_buddy = v != 0,
    },
    Knob {
        name: "pick_buddy",
        option: "pick-buddy",
        domain: Domain::Switch {
            off: "no-pick-buddy",
        },
        default: "on",
        kernel: "PICK_BUDDY",
        summary: "The pick heeds hints on who is next: of next_buddy, yield_to and preempt_short",
        up: "a hinted task that is eligible runs before earlier deadlines",
        down: "hints are ignored: the earliest deadline always wins",
        get: |k| u64::from(k.pick_buddy),
        set: |k, v| k.pick_buddy = v != 0,
    },
    Knob {
        name: "hrtick",
        option: "hrtick",
        domain: Domain::Switch { off: "no-hrtick" },
        default: "on",
        kernel: "HRTICK",
        summary: "A request ends on time instead of at the next tick",
        up: "slices shorter than a tick are real: latency when more tasks than CPUs want to run",
        down: "requests last up to a tick longer: fewer switches and timers, throughput",
        get: |k| u64::from(k.hrtick),
        set: |k, v| k.hrtick = v != 0,
    },
    Knob {
        name: "numa_spill",
        option: "numa-spill",
        domain: Domain::Choice { words: NUMA_SPILL },
        default: "idle",
        kernel: "none",
        summary: "When a wakeup that finds no idle CPU on the task's home node may leave it",
        up: "it goes to any idle CPU of another node, nearest first: wakeup latency",
        down: "it waits at home, or leaves for a whole idle core only: memory stays near",
        get: |k| k.numa_spill,
        set: |k, v| k.numa_spill = v,
    },
    Knob {
        name: "wake_sync",
        option: "wake-sync",
        domain: Domain::Switch {
            off: "no-wake-sync",
        },
        default: "on",
        kernel: "none",
        summary: "A wakeup whose waker is about to sleep may take the waker's CPU",
        up: "the wakee runs on the waker's warm cache, and no idle CPU is woken: throughput of pairs that take turns",
        down: "it looks for an idle CPU as any other: latency where a waker announces a sleep and runs on",
        get: |k| u64::from(k.wake_sync),
        set: |k, v| k.wake_sync = v != 0,
    },
    Knob {
        name: "wake_affine",
        option: "wake-affine",
        domain: Domain::Switch {
            off: "no-wake-affine",
        },
        default: "on",
        kernel: "none",
        summary: "A wakeup may go near its waker",
        up: "without an idle CPU at home the less loaded of the previous and the waker's CPU: wakees follow their wakers",
        down: "always near the previous CPU: caches of the wakee stay warm",
        get: |k| u64::from(k.wake_affine),
        set: |k, v| k.wake_affine = v != 0,
    },
    Knob {
        name: "steal_delay_llc_us",
        option: "steal-delay-llc-us",
        domain: Domain::Number {
            unit: "us",
            min: 0,
            max: 1000000,
        },
        default: "0",
        kernel: "none",
        summary: "How long a task waits before an idle CPU of its LLC takes it",
        up: "caches of a core stay warm, while CPUs idle",
        down: "an idle CPU takes work at once: throughput, latency",
        get: |k| k.steal_delay_llc_us,
        set: |k, v| k.steal_delay_llc_us = v,
    },
    Knob {
        name: "steal_delay_node_us",
        option: "steal-delay-node-us",
        domain: Domain::Number {
            unit: "us",
            min: 0,
            max: 1000000,
        },
        default: "0",
        kernel: "none",
        summary: "The same for an idle CPU of another LLC of its node",
        up: "tasks stay with their LLC",
        down: "work spreads over the node at once",
        get: |k| k.steal_delay_node_us,
        set: |k, v| k.steal_delay_node_us = v,
    },
    Knob {
        name: "steal_delay_remote_us",
        option: "steal-delay-remote-us",
        domain: Domain::Number {
            unit: "us",
            min: 0,
            max: 1000000,
        },
        default: "500",
        kernel: "none",
        summary: "The same for an idle CPU of another node; longer for a farther one, by distance",
        up: "tasks stay with their memory",
        down: "work spreads over the machine at once",
        get: |k| k.steal_delay_remote_us,
        set: |k, v| k.steal_delay_remote_us = v,
    },
    Knob {
        name: "migration_cost_us",
        option: "migration-cost-us",
        domain: Domain::Number {
            unit: "us",
            min: 0,
            max: 1000000,
        },
        default: "500",
        kernel: "migration_cost_ns",
        summary: "How long a queued task that ran counts as cache-hot and is left to its CPU",
        up: "fewer migrations of warm tasks",
        down: "work is shared sooner",
        get: |k| k.migration_cost_us,
        set: |k, v| k.migration_cost_us = v,
    },
    Knob {
        name: "balance_us",
        option: "balance-us",
        domain: Domain::Number {
            unit: "us",
            min: 0,
            max: 1000000,
        },
        default: "10000",
        kernel: "none",
        summary: "By how much busy CPUs may differ in service per weight before one pulls a task; 0: not balanced",
        up: "fewer migrations",
        down: "tasks get equal service on unequally filled CPUs within a shorter time",
        get: |k| k.balance_us,
        set: |k, v| k.balance_us = v,
    },
    Knob {
        name: "balance_interval_ms",
        option: "balance-interval-ms",
        domain: Domain::Number {
            unit: "ms",
            min: 1,
            max: 10000,
        },
        default: "8",
        kernel: "none",
        summary: "How often a busy CPU compares itself with others",
        up: "only an imbalance that lasts moves a task: tails",
        down: "an imbalance is gone sooner: fairness over short times",
        get: |k| k.balance_interval_ms,
        set: |k, v| k.balance_interval_ms = v,
    },
    Knob {
        name: "fork_balance",
        option: "fork-balance",
        domain: Domain::Choice { words: SPREAD },
        default: "least_loaded",
        kernel: "none",
        summary: "On which node a forked task starts",
        up: "on the least loaded one, or on each in turn: new tasks spread before they touch memory",
        down: "near its parent: what it shares with that stays near",
        get: |k| k.fork_balance,
        set: |k, v| k.fork_balance = v,
    },
    Knob {
        name: "ttwu_queue",
        option: "ttwu-queue",
        domain: Domain::Choice { words: TTWU_QUEUE },
        default: "kernel",
        kernel: "TTWU_QUEUE",
        summary: "Who queues the wakeup of a task on another CPU",
        up: "that CPU, by interrupt (kernel) or from a list (delayed: of tasks that still owe; always): the waker is done sooner",
        down: "off: the waker, under that CPU's lock: no interrupt",
        get: |k| k.ttwu_queue,
        set: |k, v| k.ttwu_queue = v,
    },
];

impl Knob {
    /// The accepted values in words: `on or off`, `100..=100000 us`.
    pub fn range(&self) -> String {
        match self.domain {
            Domain::Switch { .. } => "on or off".to_string(),
            Domain::Number { unit, min, max } => format!("{min}..={max} {unit}"),
            Domain::Choice { words } => words.join(", "),
        }
    }

    /// Reads a value in the knob's unit, one of its words, or `on` and `off`.
    ///
    /// # Errors
    /// Says what is accepted when `text` is none of it.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        let value = match self.domain {
            Domain::Switch { .. } => position(&["off", "on"], text),
            Domain::Choice { words } => position(words, text),
            Domain::Number { min, max, .. } => {
                text.parse().ok().filter(|v| (min..=max).contains(v))
            }
        };
        value.ok_or_else(|| format!("{} takes {}", self.name, self.range()))
    }

    /// Writes `value` the way people read it, with its unit.
    pub fn format(&self, value: u64) -> String {
        match self.domain {
            Domain::Switch { .. } => if value == 0 { "off" } else { "on" }.to_string(),
            Domain::Number { unit, .. } => format!("{value} {unit}"),
            Domain::Choice { words } => words.get(value as usize).unwrap_or(&"?").to_string(),
        }
    }
}

fn position(words: &[&str], text: &str) -> Option<u64> {
    words.iter().position(|w| *w == text).map(|v| v as u64)
}

impl Knobs {
    /// The defaults of a machine with `nr_online` CPUs in use.
    pub fn defaults(nr_online: usize) -> Self {
        let factor = 1 + nr_online.clamp(1, 8).ilog2();
        Knobs {
            slice_us: 700 * u64::from(factor),
            place_lag: true,
            place_rel_deadline: true,
            place_deadline_initial: true,
            run_to_parity: true,
            preempt_short: true,
            wakeup_preemption: true,
            delay_dequeue: true,
            delay_zero: true,
            next_buddy: false,
            pick_buddy: true,
            hrtick: true,
            numa_spill: 2,
            wake_sync: true,
            wake_affine: true,
            steal_delay_llc_us: 0,
            steal_delay_node_us: 0,
            steal_delay_remote_us: 500,
            migration_cost_us: 500,
            balance_us: 10_000,
            balance_interval_ms: 8,
            fork_balance: 1,
            ttwu_queue: 1,
        }
    }

    /// The value of `knob`, in its unit; a switch is 0 or 1.
    pub fn get(&self, knob: &Knob) -> u64 {
        (knob.get)(self)
    }

    /// Sets `knob`; `value` is one that [`Knob::parse`] returned.
    pub fn set(&mut self, knob: &Knob, value: u64) {
        (knob.set)(self, value);
    }

    /// The same with `settings` in place of the values they are about; of two the later counts.
    pub fn with(mut self, settings: &[Setting]) -> Self {
        for (knob, value) in settings {
            self.set(knob, *value);
        }
        self
    }

    /// One line a knob: name, value, and the default where it is another.
    pub fn report(&self, defaults: &Knobs) -> Vec<String> {
        KNOBS
            .iter()
            .map(|knob| {
                let (value, default) = (self.get(knob), defaults.get(knob));
                let mark = if value == default {
                    String::new()
                } else {
                    format!("  (default {})", knob.format(default))
                };
                format!("{:<23} {}{mark}", knob.name, knob.format(value))
            })
            .collect()
    }
}

#[test]
fn default_slice_follows_the_kernel_and_stops_growing_at_eight_cpus() {
    let slices = [0, 1, 2, 3, 4, 8, 1024].map(|n| Knobs::defaults(n).slice_us);
    assert_eq!(slices, [700, 700, 1400, 1400, 2100, 2800, 2800]);
}

#[test]
fn defaults_are_what_the_table_says_and_within_its_ranges() {
    for knob in &KNOBS {
        let value = Knobs::defaults(8).get(knob);
        match knob.domain {
            Domain::Switch { .. } | Domain::Choice { .. } => {
                assert_eq!(knob.format(value), knob.default, "{}", knob.name)
            }
            Domain::Number { min, max, .. } => {
                assert!((min..=max).contains(&value), "{}", knob.name);
                if let Ok(default) = knob.default.parse::<u64>() {
                    assert_eq!(value, default, "{}", knob.name);
                }
            }
        }
    }
}

#[test]
fn every_knob_sets_its_own_field_only() {
    for knob in &KNOBS {
        let defaults = Knobs::defaults(8);
        let mut changed = defaults;
        changed.set(knob, 1 - defaults.get(knob).min(1));
        let differing: Vec<_> = KNOBS
            .iter()
            .filter(|k| changed.get(k) != defaults.get(k))
            .map(|k| k.name)
            .collect();
        assert_eq!(differing, [knob.name]);
    }
}

#[test]
fn options_are_the_names_with_dashes_and_numbers_end_in_their_unit() {
    for knob in &KNOBS {
        assert_eq!(knob.option, knob.name.replace('_', "-"));
        match knob.domain {
            Domain::Switch { off } => assert_eq!(off, format!("no-{}", knob.option)),
            Domain::Number { unit, .. } => assert!(knob.name.ends_with(unit)),
            Domain::Choice { words } => assert!(words.len() > 2, "{}", knob.name),
        }
    }
}

#[test]
fn values_outside_the_range_are_refused_with_the_range() {
    let slice = &KNOBS[0];
    for bad in [
        "99",
        "100001",
        "-5",
        "",
        "2.8",
        "1e3",
        "99999999999999999999999",
    ] {
        let error = slice.parse(bad).expect_err(bad);
        assert_eq!(error, "slice_us takes 100..=100000 us");
    }
    assert_eq!(slice.parse("100"), Ok(100));
    assert_eq!(KNOBS[1].parse("off"), Ok(0));
    assert_eq!(
        KNOBS[1].parse("yes"),
        Err("place_lag takes on or off".to_string())
    );
    let spill = KNOBS.iter().find(|knob| knob.name == "numa_spill");
    let spill = spill.expect("a knob");
    assert_eq!(spill.parse("idle_core"), Ok(1));
    assert_eq!(
        spill.parse("on"),
        Err("numa_spill takes never, idle_core, idle".to_string())
    );
}

#[test]
fn report_marks_only_what_differs_from_the_default() {
    let defaults = Knobs::defaults(8);
    let knobs = Knobs {
        place_lag: false,
        ..defaults
    };
    let report = knobs.report(&defaults);
    assert_eq!(report[0], "slice_us                2800 us");
    assert_eq!(report[1], "place_lag               off  (default on)");
}
