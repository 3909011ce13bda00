// SPDX-License-Identifier: GPL-2.0-only
//! What holds over any history: the books balance, shares are kept, sleeping earns nothing, nobody
//! starves.

use crate::inputs::clock;
use crate::model::{Knobs, LATE_NS, Machine, Place};
use crate::reference::Kind;
use crate::steps::{TaskKind, step, task_kind};
use proptest::prelude::*;

/// The switch without which a sleep forgives every debt.
const PLACE_LAG: u8 = 1;

/// A CPU's hogs, which never leave, and the ideal fluid share of each: \Sum dt * w / W.
struct Steady {
    m: Machine,
    fluid_ns: Vec<f64>,
}

/// A bound of a task in a steady system, in ns of service.
fn request_ns(m: &Machine, id: usize) -> f64 {
    m.tasks[id].own_slice_ns.unwrap_or(m.knobs.slice_ns) as f64
}

impl Steady {
    fn new(bits: u8, start: u64, kinds: &[TaskKind]) -> Self {
        let mut m = Machine::new(1, Knobs::from_bits(bits), start);
        for kind in kinds {
            let id = m.fork(kind.weight, kind.own_slice_ns, kind.kind);
            m.wake(0, id);
        }
        Steady {
            fluid_ns: vec![0.0; kinds.len()],
            m,
        }
    }

    /// The CPU's window, and so many ns more.
    fn run(&mut self, late_ns: u64) {
        let ns = self.m.window_ns(0).unwrap_or(0) + late_ns;
        let all = self.m.cpus[0].rq.sum_weight as f64;
        for id in self.m.cpus[0].members() {
            self.fluid_ns[id] += ns as f64 * f64::from(self.m.tasks[id].se.weight) / all;
        }
        self.m.pass(ns);
    }

    /// Service ahead of the ideal, ns.
    fn ahead_ns(&self, id: usize) -> f64 {
        self.m.tasks[id].service_ns as f64 - self.fluid_ns[id]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_books_balance_after_any_history(
        start in clock(),
        bits in any::<u8>(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut m = Machine::new(3, Knobs::from_bits(bits), start);
        for step in steps {
            m.apply(&step);
            for cpu in 0..m.cpus.len() {
                m.check(cpu);
            }
        }
        for id in 0..m.tasks.len() {
            if m.tasks[id].place != Place::Away {
                m.leave(id, true);
            }
        }
    }

    /// Ahead of the ideal by less than a request and how late a pick was; behind by less than the longest
    /// request, which is not interrupted, and what every other task can have had beyond its own.
    #[test]
    fn a_hogs_service_stays_within_a_request_of_its_ideal_share(
        start in clock(),
        bits in any::<u8>(),
        kinds in prop::collection::vec(task_kind(), 1..20),
        late in prop_oneof![
            prop::collection::vec(Just(0), 1..400),
            prop::collection::vec(prop_oneof![Just(0), 0..LATE_NS], 1..400),
        ],
    ) {
        let mut s = Steady::new(bits, start, &kinds);
        let longest = (0..kinds.len()).map(|id| request_ns(&s.m, id)).fold(0.0, f64::max);
        let latest = late.iter().copied().max().unwrap_or(0) as f64;
        let behind = longest + (kinds.len() - 1) as f64 * latest;
        for late_ns in late {
            s.run(late_ns);
            for id in 0..kinds.len() {
                let ahead = s.ahead_ns(id);
                let own = request_ns(&s.m, id) + latest;
                prop_assert!(ahead < own + 1000.0, "task {id} is {ahead} ns ahead");
                prop_assert!(-ahead < behind + 1000.0, "task {id}: {ahead} ns");
            }
        }
    }

    /// A sleeper among hogs has no more than its share of the time that it was runnable, and a request,
    /// and those parts of its debts that the others worked off while it slept (delay_dequeue).
    #[test]
    fn sleeping_earns_nothing(
        start in clock(),
        bits in any::<u8>(),
        kinds in prop::collection::vec(task_kind(), 2..8),
        turns in prop::collection::vec((0u64..LATE_NS, any::<bool>(), any::<bool>()), 1..400),
    ) {
        let mut s = Steady::new(bits | PLACE_LAG, start, &kinds);
        let mut forgiven_ns = 0.0;
        let bound = request_ns(&s.m, 0) + LATE_NS as f64 + 10_000.0;
        for (late_ns, sleep, wake) in turns {
            s.run(late_ns);
            if s.m.cpus[0].curr == Some(0) && sleep {
                s.m.block(0);
            }
            if s.m.tasks[0].place == Place::Away && wake {
                let was = s.m.tasks[0].se.vlag;
                s.m.wake(0, 0);
                let is = s.m.audit.lag_at_join(0);
                forgiven_ns += (is - was).max(0) as f64 * f64::from(kinds[0].weight) / 1024.0;
                prop_assert!(was > 0 || is <= 2 || !s.m.knobs.delay_zero, "debt became {is}");
            }
            let extra = s.ahead_ns(0) - forgiven_ns;
            prop_assert!(extra < bound, "the sleeper has {extra} ns too much, bound {bound}");
        }
    }
}

/// A task that slept for 50 s beside an equal hog has half of the time from then on.
#[test]
fn a_long_sleep_is_worth_no_more_than_the_lag_that_it_began_with() {
    for bits in [0xff, 0x7f, !(1 << 2), !(1 << 3)] {
        let hog = TaskKind {
            weight: 1024,
            own_slice_ns: None,
            kind: Kind::Normal,
        };
        let mut s = Steady::new(bits, 5, &[hog, hog]);
        for _ in 0..7 {
            s.run(0);
        }
        while s.m.cpus[0].curr != Some(0) {
            s.run(0);
        }
        s.m.block(0);
        s.m.now += 50_000_000_000;
        s.m.pick(0);
        let before = (s.m.tasks[0].service_ns, s.m.now);
        s.m.wake(0, 0);
        for _ in 0..40 {
            s.run(0);
        }
        let had = (s.m.tasks[0].service_ns - before.0) as i64;
        let share = (s.m.now - before.1) as i64 / 2;
        assert!((had - share).abs() <= 2 * 2_800_000, "had {had} of {share}");
    }
}
