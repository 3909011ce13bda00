// SPDX-License-Identifier: GPL-2.0-only
//! The books that the model is checked with: per CPU the fluid clock, which advances by 1024 / W per ns of
//! service whoever runs, and what V jumped by because somebody joined, left or yielded.
//!
//! Two statements follow for every task, whatever the others do.
//!
//! Service against the ideal: from its join on,
//!
//!     lag = lag at the join + fluid clock's advance + jumps - vruntime gained
//!
//! so that service - ideal share differs from the change of lag by the jumps alone.
//!
//! No starvation: while it waits the fluid clock advances by at most
//!
//!     its debt at the start + the longest request there may be
//!     + V's jumps back + what windows were overrun by,
//!
//! all as its own virtual time: (debt + request) * W / w ns, and what others were owed.

use crate::ffi::{self, Se};
use crate::model::{Cpu, LONGEST_NS, Machine, Place};

/// Fractions of a virtual ns.
const ONE: i128 = 1 << 20;

#[derive(Clone, Copy, Default)]
struct Clock {
    at: u64,
    fluid: i128,
    jumps: i128,
    back: i128,
    late: i128,
    /// How often V was rounded.
    ops: i128,
}

#[derive(Clone, Copy, Default)]
struct Mark {
    clock: Clock,
    vruntime: u64,
    lag: i64,
}

pub struct Audit {
    clocks: Vec<Clock>,
    joins: Vec<Mark>,
    /// Where a task began to wait.
    waits: Vec<Mark>,
    /// The longest wait as a part of its bound.
    pub worst_wait: f64,
}

impl Audit {
    pub fn new(nr_cpus: usize) -> Self {
        Audit {
            clocks: vec![Clock::default(); nr_cpus],
            joins: Vec::new(),
            waits: Vec::new(),
            worst_wait: 0.0,
        }
    }

    pub fn new_task(&mut self) {
        self.joins.push(Mark::default());
        self.waits.push(Mark::default());
    }

    /// Before W changes: the service up to now, and what of it was after the end of the window.
    pub fn settle(&mut self, cpu: usize, now: u64, state: &Cpu) {
        let clock = &mut self.clocks[cpu];
        if state.curr.is_some() {
            let virt = |ns: u64| i128::from(ns) * 1024 * ONE / i128::from(state.rq.sum_weight);
            clock.fluid += virt(now - clock.at);
            clock.late += virt(now.saturating_sub(clock.at.max(state.end)));
        }
        clock.at = now;
        clock.ops += 1;
    }

    pub fn jump(&mut self, cpu: usize, old: u64, new: u64) {
        let clock = &mut self.clocks[cpu];
        let by = i128::from(new.wrapping_sub(old) as i64);
        clock.jumps += by;
        clock.back += (-by).max(0);
        clock.ops += 1;
    }

    /// A task joined, or got a new place: V went from `old` to `new`.
    pub fn joined(&mut self, cpu: usize, id: usize, old: u64, new: u64, se: &Se) {
        self.jump(cpu, old, new);
        let mark = Mark {
            clock: self.clocks[cpu],
            vruntime: se.vruntime,
            lag: new.wrapping_sub(se.vruntime) as i64,
        };
        self.joins[id] = mark;
        self.waits[id] = mark;
    }

    pub fn stopped(&mut self, cpu: usize, id: usize, avg: u64, vruntime: u64) {
        self.waits[id] = Mark {
            clock: self.clocks[cpu],
            vruntime,
            lag: avg.wrapping_sub(vruntime) as i64,
        };
    }

    pub fn lag_at_join(&self, id: usize) -> i64 {
        self.joins[id].lag
    }

    /// A task starts, or is looked at while it waits.
    pub fn waited(&mut self, cpu: usize, id: usize, se: &Se) {
        let (from, to) = (&self.waits[id], &self.clocks[cpu]);
        let waited = (to.fluid - from.clock.fluid) / ONE;
        let allowed = i128::from(ffi::vtime(LONGEST_NS, se.weight))
            + i128::from(-from.lag).max(0)
            + (to.back - from.clock.back)
            + (to.late - from.clock.late) / ONE
            + (to.ops - from.clock.ops);
        assert!(
            waited <= allowed,
            "task {id} waited for {waited} of {allowed} virtual ns: {se:?}"
        );
        self.worst_wait = self.worst_wait.max(waited as f64 / allowed.max(1) as f64);
    }
}

impl Machine {
    /// The bound holds for those that wait still.
    pub fn check_wait(&mut self, id: usize) {
        let t = &self.tasks[id];
        if t.place != Place::Runs {
            self.audit.waited(t.cpu, id, &t.se);
        }
    }

    /// Everything that holds for a CPU between two steps.
    pub fn check(&mut self, cpu: usize) {
        self.charge(cpu);
        let c = &self.cpus[cpu];
        let ids = c.members();
        let (zero, avg) = (c.rq.zero_vruntime, self.avg(cpu));
        let from = |base: u64, v: u64| i128::from(v.wrapping_sub(base) as i64);
        let (mut sum, mut weight, mut lags) = (0i128, 0i128, 0i128);
        let (mut shortest, mut longest) = (u64::MAX, 0);
        for &id in &ids {
            let t = &self.tasks[id];
            let w = i128::from(t.se.weight);
            sum += w * from(zero, t.se.vruntime);
            weight += w;
            lags += w * from(t.se.vruntime, avg);
            let own = t.own_slice_ns.map_or(self.knobs.slice_ns, |_| t.counted_ns);
            shortest = shortest.min(own);
            longest = longest.max(own);
            self.check_service(cpu, id, avg);
        }
        assert_eq!(ids.len(), c.nr as usize);
        assert_eq!(i128::from(c.rq.sum_w_vruntime), sum);
        assert_eq!(i128::from(c.rq.sum_weight), weight);
        assert!(sum.abs() < 1 << 62, "S is {sum}");
        assert!(lags <= 0 && -lags < weight.max(1), "lags add up to {lags}");
        if !ids.is_empty() {
            let (min, max) = self.slice_ends(cpu);
            assert!(min <= shortest && max >= longest && min > 0 && max <= LONGEST_NS);
        }
    }

    fn check_service(&self, cpu: usize, id: usize, avg: u64) {
        let (mark, clock) = (&self.audit.joins[id], &self.audit.clocks[cpu]);
        let v = self.tasks[id].se.vruntime;
        let lag = i128::from(avg.wrapping_sub(v) as i64);
        let expect = i128::from(mark.lag)
            + (clock.fluid - mark.clock.fluid) / ONE
            + (clock.jumps - mark.clock.jumps)
            - i128::from(v.wrapping_sub(mark.vruntime) as i64);
        let slack = clock.ops - mark.clock.ops + 2;
        assert!(
            (lag - expect).abs() <= slack,
            "task {id}: lag {lag}, books {expect} +- {slack}"
        );
    }
}
