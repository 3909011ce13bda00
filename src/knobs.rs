// SPDX-License-Identifier: GPL-2.0-only
//! Decides which rules of the scheduler can be switched, what each of them trades, and its default.
//!
//! [`KNOBS`] is the only list: the command line, its help and the start-up report are made from it,
//! so that a knob added here appears everywhere. What a knob does is in the BPF part (`struct knobs`
//! in `bpf/intf.h`, written by [`crate::bpf`]).

mod table;

pub use table::KNOBS;

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
    /// Where an executed program starts, see [`SPREAD`].
    pub exec_balance: u64,
    /// Who queues a remote wakeup, see [`TTWU_QUEUE`].
    pub ttwu_queue: u64,
}

/// Values of numa_spill, as `enum numa_spill` in `bpf/intf.h`.
pub const NUMA_SPILL: &[&str] = &["never", "idle_core", "idle"];

/// Values of fork_balance and exec_balance, as `enum spread`.
pub const SPREAD: &[&str] = &["off", "least_loaded", "round_robin"];

/// Values of ttwu_queue, as `enum ttwu_queue`.
pub const TTWU_QUEUE: &[&str] = &["off", "kernel", "delayed", "always"];

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
            exec_balance: 0,
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
