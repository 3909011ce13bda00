// SPDX-License-Identifier: GPL-2.0-only
//! Random histories for the model.

use crate::ffi;
use crate::model::{LATE_NS, LONGEST_NS, Machine, Place};
use crate::reference::Kind;
use proptest::prelude::*;

/// Tasks are named by any number: the n-th, modulo how many there are.
#[derive(Clone, Debug)]
pub enum Step {
    Fork(usize, TaskKind),
    /// The n-th task, if it sleeps, wakes up on this CPU or on its own.
    Wake(usize, Option<usize>),
    /// Every CPU's running task runs for so many ns, then all pick.
    Run(u64),
    /// Until a CPU's window ends, and so many ns more; then that CPU picks.
    Window(usize, u64),
    Block(usize),
    Yield(usize),
    Renice(usize, u32),
    Reslice(usize, Option<u64>),
    /// Another weight with no callback that tells of it (cpu.idle).
    Reweigh(usize, u32),
    Migrate(usize, usize),
}

#[derive(Clone, Copy, Debug)]
pub struct TaskKind {
    pub weight: u32,
    pub own_slice_ns: Option<u64>,
    pub kind: Kind,
}

pub fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => Just(1024u32),
        3 => (-20..20i32).prop_map(ffi::weight_of_nice),
        1 => Just(3u32),
    ]
}

pub fn slice() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        3 => Just(None),
        1 => prop::sample::select(vec![100_000, 700_000, 5_000_000, LONGEST_NS]).prop_map(Some),
        1 => (100_000..=LONGEST_NS).prop_map(Some),
    ]
}

pub fn task_kind() -> impl Strategy<Value = TaskKind> {
    let kind = prop_oneof![6 => Just(Kind::Normal), 1 => Just(Kind::Batch), 1 => Just(Kind::Idle)];
    (weight(), slice(), kind).prop_map(|(weight, own_slice_ns, kind)| TaskKind {
        weight: if kind == Kind::Idle { 3 } else { weight },
        own_slice_ns: own_slice_ns.filter(|_| kind != Kind::Idle),
        kind,
    })
}

pub fn step() -> impl Strategy<Value = Step> {
    let n = any::<usize>;
    prop_oneof![
        4 => (n(), task_kind()).prop_map(|(n, k)| Step::Fork(n, k)),
        8 => (n(), prop_oneof![3 => Just(None), 1 => n().prop_map(Some)])
            .prop_map(|(n, cpu)| Step::Wake(n, cpu)),
        6 => (1u64..LATE_NS).prop_map(Step::Run),
        8 => (n(), prop_oneof![Just(0), 0..LATE_NS]).prop_map(|(n, late)| Step::Window(n, late)),
        6 => n().prop_map(Step::Block),
        1 => n().prop_map(Step::Yield),
        1 => (n(), weight()).prop_map(|(n, w)| Step::Renice(n, w)),
        1 => (n(), slice()).prop_map(|(n, s)| Step::Reslice(n, s)),
        1 => (n(), weight()).prop_map(|(n, w)| Step::Reweigh(n, w)),
        1 => (n(), n()).prop_map(|(n, cpu)| Step::Migrate(n, cpu)),
    ]
}

impl Machine {
    /// Time passes until the CPU's window is over and `late_ns` more, but other CPUs' windows end, too.
    pub fn run_window(&mut self, cpu: usize, late_ns: u64) {
        let windows = (0..self.cpus.len()).filter_map(|c| self.window_ns(c));
        let first = windows.min().unwrap_or(0);
        let ns = self.window_ns(cpu).unwrap_or(0).min(first) + late_ns;
        self.pass(ns);
    }

    /// Every CPU looks at its running task at the latest LATE_NS after its window.
    pub fn pass(&mut self, ns: u64) {
        self.now += ns;
        for cpu in 0..self.cpus.len() {
            self.pick(cpu);
        }
    }

    pub fn apply(&mut self, step: &Step) {
        let nr_cpus = self.cpus.len();
        let nr_tasks = self.tasks.len();
        let cpu_of = |n: usize| n % nr_cpus;
        if let &Step::Fork(n, kind) = step {
            let id = self.fork(kind.weight, kind.own_slice_ns, kind.kind);
            self.wake(cpu_of(n), id);
        }
        match *step {
            Step::Run(ns) => self.pass(ns),
            Step::Window(n, late_ns) => self.run_window(cpu_of(n), late_ns),
            Step::Block(n) => self.block(cpu_of(n)),
            Step::Yield(n) => self.yield_now(cpu_of(n)),
            _ if nr_tasks == 0 => {}
            Step::Wake(n, cpu) => {
                let t = &self.tasks[n % nr_tasks];
                if t.place == Place::Away {
                    let own = t.cpu;
                    self.wake(cpu.map_or(own, cpu_of), n % nr_tasks);
                }
            }
            Step::Renice(n, weight) => {
                let own = self.tasks[n % nr_tasks].own_slice_ns;
                self.change(n % nr_tasks, weight, own);
            }
            Step::Reslice(n, slice_ns) => {
                let weight = self.tasks[n % nr_tasks].weight;
                self.change(n % nr_tasks, weight, slice_ns);
            }
            Step::Reweigh(n, weight) => self.tasks[n % nr_tasks].weight = weight,
            Step::Migrate(n, cpu) => self.migrate(n % nr_tasks, cpu_of(cpu)),
            Step::Fork(..) => {}
        }
    }
}
