// SPDX-License-Identifier: GPL-2.0-only
//! CPUs that drive the header as bpf/runq.bpf.h does, without the kernel around them: join, leave, charge.
//! Who runs is in dispatch.rs.
//!
//! What must hold at every step is asserted here, so that every test that drives the model checks it.

use crate::audit::Audit;
use crate::ffi::{self, Rq, Se, Slices};
use crate::reference::Kind;
use std::cmp::Ordering;
use std::collections::BTreeSet;

pub const TICK_NS: u64 = 4_000_000;
/// No task has a longer slice.
pub const LONGEST_NS: u64 = 20_000_000;
/// No pick comes later than this after the end of a window: the tick is the backstop.
pub const LATE_NS: u64 = TICK_NS;

#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    pub slice_ns: u64,
    pub place_lag: bool,
    pub run_to_parity: bool,
    pub delay_dequeue: bool,
    pub delay_zero: bool,
    pub preempt_short: bool,
    pub place_rel_deadline: bool,
    pub place_deadline_initial: bool,
    pub pick_buddy: bool,
}

impl Knobs {
    /// One bit per switch.
    pub fn from_bits(bits: u8) -> Self {
        let on = |n: u8| bits >> n & 1 == 1;
        Knobs {
            slice_ns: 2_800_000,
            place_lag: on(0),
            run_to_parity: on(1),
            delay_dequeue: on(2),
            delay_zero: on(3),
            preempt_short: on(4),
            place_rel_deadline: on(5),
            place_deadline_initial: on(6),
            pick_buddy: on(7),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Away,
    Ready,
    Wait,
    Runs,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub se: Se,
    /// What it is to be from its next join or request on.
    pub weight: u32,
    pub own_slice_ns: Option<u64>,
    pub kind: Kind,
    pub cpu: usize,
    pub place: Place,
    pub service_ns: u64,
    /// Its slice as it was counted for the CPU's shortest and longest.
    pub counted_ns: u64,
    entry: Option<u32>,
    idle_gen: u32,
    owes: bool,
    rel_deadline: bool,
    pub forked: bool,
}

/// A place on the virtual clock as a key: those of one CPU are less than 2^63 apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Vtime(u64);

impl Ord for Vtime {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.wrapping_sub(other.0) as i64).cmp(&0)
    }
}

impl PartialOrd for Vtime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub struct Cpu {
    pub rq: Rq,
    pub curr: Option<usize>,
    pub nr: u32,
    pub vprot: u64,
    /// When the timer looks at the running task.
    pub end: u64,
    slices: Slices,
    idle_gen: u32,
    /// When the running task was last charged.
    pub since: u64,
    pub ready: BTreeSet<(Vtime, usize)>,
    pub wait: BTreeSet<(Vtime, usize)>,
}

impl Cpu {
    /// All that compete here.
    pub fn members(&self) -> Vec<usize> {
        let queued = self.ready.iter().chain(&self.wait).map(|q| q.1);
        queued.chain(self.curr).collect()
    }

    /// The one that another CPU would take.
    pub fn first_waiting(&self) -> Option<usize> {
        let first = self.ready.first().or(self.wait.first());
        first.map(|q| q.1)
    }
}

pub struct Machine {
    pub knobs: Knobs,
    pub now: u64,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    pub audit: Audit,
}

impl Machine {
    pub fn new(nr_cpus: usize, knobs: Knobs, start: u64) -> Self {
        let mut cpus: Vec<Cpu> = (0..nr_cpus).map(|_| Cpu::default()).collect();
        for cpu in &mut cpus {
            cpu.rq.zero_vruntime = start;
        }
        Machine {
            knobs,
            now: 0,
            cpus,
            tasks: Vec::new(),
            audit: Audit::new(nr_cpus),
        }
    }

    pub fn uncharged(&self, cpu: usize) -> u64 {
        let c = &self.cpus[cpu];
        c.curr.map_or(0, |_| self.now - c.since)
    }

    pub fn avg(&self, cpu: usize) -> u64 {
        ffi::avg_vruntime(&self.cpus[cpu].rq, self.uncharged(cpu))
    }

    fn update_avg(&mut self, cpu: usize) -> u64 {
        let avg = self.avg(cpu);
        ffi::move_zero(&mut self.cpus[cpu].rq, avg);
        avg
    }

    pub fn slice_ns(&self, id: usize, cpu: usize) -> u64 {
        let slice_ns = self.tasks[id].own_slice_ns.unwrap_or(self.knobs.slice_ns);
        ffi::crowd_slice(slice_ns, self.cpus[cpu].nr)
    }

    fn limit(&self, cpu: usize, weight: u32) -> i64 {
        let c = &self.cpus[cpu];
        let max = ffi::max_slice(&c.slices, c.nr, self.knobs.slice_ns);
        ffi::lag_limit(max, TICK_NS, weight)
    }

    /// The shortest and the longest slice here, as the policy knows them.
    pub fn slice_ends(&self, cpu: usize) -> (u64, u64) {
        let c = &self.cpus[cpu];
        let base = self.knobs.slice_ns;
        (
            ffi::min_slice(&c.slices, c.nr, base),
            ffi::max_slice(&c.slices, c.nr, base),
        )
    }

    pub fn queue(&mut self, id: usize, eligible: bool) {
        let t = &mut self.tasks[id];
        let c = &mut self.cpus[t.cpu];
        if eligible {
            t.place = Place::Ready;
            c.ready.insert((Vtime(t.se.deadline), id));
        } else {
            t.place = Place::Wait;
            c.wait.insert((Vtime(t.se.vruntime), id));
        }
    }

    pub fn unqueue(&mut self, id: usize) {
        let t = &self.tasks[id];
        let c = &mut self.cpus[t.cpu];
        let found = match t.place {
            Place::Ready => c.ready.remove(&(Vtime(t.se.deadline), id)),
            Place::Wait => c.wait.remove(&(Vtime(t.se.vruntime), id)),
            Place::Runs | Place::Away => true,
        };
        assert!(found, "task {id} is not where it was queued");
    }

    pub fn fork(&mut self, weight: u32, own_slice_ns: Option<u64>, kind: Kind) -> usize {
        self.tasks.push(Task {
            se: Se {
                weight,
                ..Se::default()
            },
            weight,
            own_slice_ns,
            kind,
            cpu: 0,
            place: Place::Away,
            service_ns: 0,
            counted_ns: 0,
            entry: None,
            idle_gen: 0,
            owes: false,
            rel_deadline: false,
            forked: true,
        });
        self.audit.new_task();
        self.tasks.len() - 1
    }

    /// Weight and slice may have changed while the task was away.
    fn refresh(&mut self, id: usize, cpu: usize) {
        let slice_ns = self.slice_ns(id, cpu);
        let t = &mut self.tasks[id];
        let (from, to) = (t.se.weight, t.weight);
        if from != to {
            t.se.vlag = ffi::rescale(t.se.vlag, from, to);
            if t.rel_deadline {
                t.se.deadline = ffi::rescale(t.se.deadline as i64, from, to) as u64;
            }
            t.se.weight = to;
            t.se.rem = 0;
            t.owes = false;
        }
        t.se.slice_ns = slice_ns;
    }

    /// What is left of the debt that `id` went to sleep with.
    fn debt(&self, id: usize) -> i64 {
        let t = &self.tasks[id];
        if self.cpus[t.cpu].idle_gen != t.idle_gen {
            return 0;
        }
        let request = ffi::vtime(t.se.slice_ns, t.se.weight) as i64;
        let credit = if self.knobs.delay_zero { 0 } else { request };
        let sum_weight = self.cpus[t.cpu].rq.sum_weight;
        let lag = ffi::delayed_lag(&t.se, self.avg(t.cpu), sum_weight, credit);
        assert!((t.se.vlag..=credit).contains(&lag), "debt became {lag}");
        lag
    }

    pub fn join(&mut self, cpu: usize, id: usize) {
        self.audit.settle(cpu, self.now, &self.cpus[cpu]);
        self.refresh(id, cpu);
        let owes = std::mem::take(&mut self.tasks[id].owes);
        let mut vlag = self.tasks[id].se.vlag;
        if owes {
            vlag = self.debt(id);
        }
        let old = self.avg(cpu);
        let knobs = self.knobs;
        let c = &mut self.cpus[cpu];
        let t = &mut self.tasks[id];
        t.cpu = cpu;
        if owes && vlag < 0 && c.nr > 0 {
            t.se.deadline = t.se.deadline.wrapping_sub(t.se.vruntime);
            t.rel_deadline = true;
        } else if !knobs.place_lag || c.nr == 0 {
            vlag = 0;
        }
        t.se.vruntime = ffi::place(old, vlag, t.se.weight, c.rq.sum_weight);
        if std::mem::take(&mut t.rel_deadline) {
            t.se.deadline = t.se.deadline.wrapping_add(t.se.vruntime);
        } else {
            let initial = t.forked && knobs.place_deadline_initial;
            let vslice = ffi::vtime(t.se.slice_ns, t.se.weight) >> u32::from(initial);
            t.se.deadline = t.se.vruntime.wrapping_add(vslice);
        }
        ffi::add(&mut c.rq, &t.se);
        c.nr += 1;
        let slice_ns = t.se.slice_ns;
        t.counted_ns = slice_ns;
        t.entry = t
            .own_slice_ns
            .map(|_| ffi::slices_add(&mut c.slices, slice_ns));
        let avg = self.update_avg(cpu);
        let t = &self.tasks[id];
        self.audit.joined(cpu, id, old, avg, &t.se);
        let placed = avg.wrapping_sub(t.se.vruntime) as i64;
        assert!((placed - vlag).abs() <= 2, "came with {vlag}, has {placed}");
        self.queue(id, ffi::eligible(t.se.vruntime, avg));
    }

    /// As a task that sleeps, or as one that stays runnable but not here.
    pub fn leave(&mut self, id: usize, sleeps: bool) {
        let cpu = self.tasks[id].cpu;
        self.unqueue(id);
        if self.cpus[cpu].curr == Some(id) {
            self.take_service(cpu);
            self.audit.settle(cpu, self.now, &self.cpus[cpu]);
            self.cpus[cpu].curr = None;
        }
        self.audit.settle(cpu, self.now, &self.cpus[cpu]);
        let old = self.update_avg(cpu);
        let limit = self.limit(cpu, self.tasks[id].se.weight);
        let c = &mut self.cpus[cpu];
        let t = &mut self.tasks[id];
        t.se.vlag = ffi::lag(old, t.se.vruntime, limit);
        let max = ffi::max_slice(&c.slices, c.nr, self.knobs.slice_ns) + TICK_NS;
        let bound = (max * 1024 / u64::from(t.se.weight)) as i64;
        let owed = old.wrapping_sub(t.se.vruntime) as i64;
        assert_eq!(t.se.vlag, owed.clamp(-bound, bound), "{t:?}");
        assert!(max <= LONGEST_NS + TICK_NS);
        ffi::sub(&mut c.rq, &t.se);
        if let Some(entry) = t.entry.take() {
            ffi::slices_del(&mut c.slices, entry);
        }
        c.nr -= 1;
        if c.nr == 0 {
            c.idle_gen += 1;
            assert_eq!((c.rq.sum_w_vruntime, c.rq.sum_weight), (0, 0));
            assert_eq!(c.slices.nr, [0; 8]);
        }
        t.idle_gen = c.idle_gen;
        t.place = Place::Away;
        t.owes = sleeps && self.knobs.delay_dequeue && t.se.vlag < 0;
        if !sleeps {
            let slice_ns = self.slice_ns(id, cpu);
            let t = &mut self.tasks[id];
            ffi::renew(&mut t.se, slice_ns);
            if self.knobs.place_rel_deadline {
                t.se.deadline = t.se.deadline.wrapping_sub(t.se.vruntime);
                t.rel_deadline = true;
            }
        }
        let avg = self.avg(cpu);
        self.audit.jump(cpu, old, avg);
    }

    fn take_service(&mut self, cpu: usize) {
        let ns = self.uncharged(cpu);
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if let Some(id) = c.curr {
            let t = &mut self.tasks[id];
            let old = ffi::avg_vruntime(&c.rq, ns);
            ffi::charge(&mut c.rq, &mut t.se, ns);
            let moved = ffi::avg_vruntime(&c.rq, 0).wrapping_sub(old) as i64;
            assert!(moved.abs() <= 1, "charging {ns} ns moved V by {moved}");
            t.service_ns += ns;
            c.since = now;
        }
    }

    /// Charge the running task, start its next request if this one is used up.
    pub fn charge(&mut self, cpu: usize) {
        self.audit.settle(cpu, self.now, &self.cpus[cpu]);
        self.take_service(cpu);
        let avg = self.update_avg(cpu);
        let Some(id) = self.cpus[cpu].curr else {
            return;
        };
        let slice_ns = self.slice_ns(id, cpu);
        let limit = self.limit(cpu, self.tasks[id].se.weight);
        let t = &mut self.tasks[id];
        if ffi::renew(&mut t.se, slice_ns) && t.weight != t.se.weight {
            ffi::reweigh(&mut self.cpus[cpu].rq, &mut t.se, t.weight, avg, limit);
            let se = t.se;
            self.audit.joined(cpu, id, avg, self.avg(cpu), &se);
        }
    }
}
