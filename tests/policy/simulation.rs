// SPDX-License-Identifier: GPL-2.0-only
//! A machine of many CPUs and tasks, simulated event by event: tasks come, sleep, yield, fork, exit, change
//! their weight and slice, move; idle CPUs take work from others. The model asserts its rules at every
//! step; the books of a CPU are balanced now and then, and of all at the end.
//!
//! SCX_EEVDFX_TASKS and SCX_EEVDFX_CPUS set the size, SCX_EEVDFX_SEED repeats a run.

use crate::ffi;
use crate::model::{Knobs, LATE_NS, LONGEST_NS, Machine, Place};
use crate::reference::Kind;
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::env;
use std::ops::Range;
use std::time::SystemTime;

const NR_TASKS: u64 = 100_000;
const NR_CPUS: u64 = 64;
const EVENTS_PER_TASK: u64 = 20;
const CHECK_EVERY: u64 = 500;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Fork,
    /// A CPU's window is over, or its task's burst. Void if the CPU has been planned anew since.
    Look(usize, u64),
    Wake(usize),
    /// Something changes for a random task.
    Change,
}

struct Simulation {
    m: Machine,
    rng: TestRng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    nr_events: u64,
    nr_tasks: usize,
    /// The service after which a task's burst is over; hogs have none.
    burst_end: Vec<Option<u64>>,
    plans: Vec<u64>,
}

fn setting(name: &str, default: impl FnOnce() -> u64) -> u64 {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text}: not a number")),
        Err(_) => default(),
    }
}

impl Simulation {
    fn new(nr_cpus: usize, nr_tasks: usize, seed: u64) -> Self {
        let bytes = [seed.to_le_bytes(); 4].concat();
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        /* All but place_lag may be off: without it there is no bound to check. */
        let knobs = Knobs::from_bits(rng.random::<u8>() | 1);
        /* The virtual clocks wrap during the run. */
        let start = 0u64.wrapping_sub(rng.random_range(0..5_000_000));
        let mut s = Simulation {
            m: Machine::new(nr_cpus, knobs, start),
            rng,
            events: BinaryHeap::new(),
            nr_events: 0,
            nr_tasks,
            burst_end: Vec::new(),
            plans: vec![0; nr_cpus],
        };
        s.after(0, Event::Fork);
        s.after(0, Event::Change);
        s
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.nr_events += 1;
        let at = self.m.now + ns;
        self.events.push(Reverse((at, self.nr_events, event)));
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    /// Spread over orders of magnitude.
    fn around(&mut self, ns: Range<u64>) -> u64 {
        let top = self.rng.random_range(ns.clone());
        self.rng.random_range(ns.start..=top)
    }

    fn weight(&mut self) -> u32 {
        let nice = self.rng.random_range(-20..20);
        if self.one_in(2) {
            1024
        } else {
            ffi::weight_of_nice(nice)
        }
    }

    fn own_slice_ns(&mut self) -> Option<u64> {
        let own = self.around(100_000..LONGEST_NS);
        self.one_in(4).then_some(own)
    }

    fn fork(&mut self) {
        let kind = match self.rng.random_range(0..20) {
            0 => Kind::Idle,
            1 => Kind::Batch,
            _ => Kind::Normal,
        };
        let idle = kind == Kind::Idle;
        let weight = if idle { 3 } else { self.weight() };
        let own = self.own_slice_ns().filter(|_| !idle);
        let id = self.m.fork(weight, own, kind);
        let hog = self.one_in(50);
        let burst = self.around(10_000..4_000_000);
        self.burst_end.push((!hog).then_some(burst));
        let cpu = self.rng.random_range(0..self.m.cpus.len());
        self.m.wake(cpu, id);
        self.plan(cpu);
        if self.m.tasks.len() < self.nr_tasks {
            let pause = self.around(1..10_000);
            self.after(pause, Event::Fork);
        }
    }

    /// When the CPU looks at its running task again.
    fn plan(&mut self, cpu: usize) {
        self.plans[cpu] += 1;
        if self.m.cpus[cpu].curr.is_none() && !self.steal(cpu) {
            return;
        }
        let mut ns = self.m.window_ns(cpu).unwrap_or(0);
        if ns > 0 && self.one_in(4) {
            ns += self.rng.random_range(0..LATE_NS);
        }
        if let Some(id) = self.m.cpus[cpu].curr
            && let Some(end) = self.burst_end[id]
        {
            let had = self.m.tasks[id].service_ns + self.m.uncharged(cpu);
            ns = ns.min(end.saturating_sub(had));
        }
        self.after(ns, Event::Look(cpu, self.plans[cpu]));
    }

    /// A task that waits elsewhere.
    fn steal(&mut self, cpu: usize) -> bool {
        let nr = self.m.cpus.len();
        let first = self.rng.random_range(0..nr);
        let victims = (0..nr).map(|i| (first + i) % nr);
        let found = victims
            .filter_map(|v| self.m.cpus[v].first_waiting())
            .next();
        if let Some(id) = found {
            self.m.migrate(id, cpu);
        }
        found.is_some()
    }

    fn look(&mut self, cpu: usize) {
        self.m.charge(cpu);
        let Some(id) = self.m.cpus[cpu].curr else {
            return;
        };
        let had = self.m.tasks[id].service_ns;
        if self.burst_end[id].is_none_or(|end| had < end) {
            self.m.pick(cpu);
        } else {
            let burst = self.around(10_000..4_000_000);
            self.burst_end[id] = Some(had + burst);
            if self.one_in(20) {
                self.m.yield_now(cpu);
            } else {
                self.m.block(cpu);
                /* Some exit: they never wake up, and a new one comes. */
                let sleep = self.around(10_000..2_000_000_000);
                if !self.one_in(100) {
                    self.after(sleep, Event::Wake(id));
                }
            }
        }
        self.plan(cpu);
    }

    fn wake(&mut self, id: usize) {
        let nr = self.m.cpus.len();
        let other = self.rng.random_range(0..nr);
        let cpu = if self.one_in(4) {
            other
        } else {
            self.m.tasks[id].cpu
        };
        self.m.wake(cpu, id);
        self.plan(cpu);
    }

    fn change(&mut self) {
        let id = self.rng.random_range(0..self.m.tasks.len());
        let to = self.rng.random_range(0..self.m.cpus.len());
        let (from, own) = (self.m.tasks[id].cpu, self.m.tasks[id].own_slice_ns);
        let (weight, new) = (self.weight(), self.own_slice_ns());
        let (kind, same) = (self.m.tasks[id].kind, self.m.tasks[id].weight);
        match self.rng.random_range(0..4) {
            _ if kind == Kind::Idle => {}
            0 => self.m.change(id, weight, own),
            1 => self.m.change(id, same, new),
            2 => self.m.tasks[id].weight = weight,
            _ => self.m.migrate(id, to),
        }
        self.plan(from);
        self.plan(to);
        let pause = self.around(1_000..200_000);
        self.after(pause, Event::Change);
    }

    fn run(&mut self, nr_events: u64) {
        for n in 0..nr_events {
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                return;
            };
            self.m.now = at;
            match event {
                Event::Fork => self.fork(),
                Event::Look(cpu, plan) if plan == self.plans[cpu] => self.look(cpu),
                Event::Look(..) => {}
                Event::Wake(id) => self.wake(id),
                Event::Change => self.change(),
            }
            if n % CHECK_EVERY == 0 {
                let cpu = self.rng.random_range(0..self.m.cpus.len());
                self.m.check(cpu);
            }
        }
    }

    /// Everybody leaves; the model sees to it that every CPU's sums are 0 then.
    fn end(&mut self) {
        for cpu in 0..self.m.cpus.len() {
            self.m.check(cpu);
        }
        for id in 0..self.m.tasks.len() {
            if self.m.tasks[id].place != Place::Away {
                self.m.check_wait(id);
                self.m.leave(id, true);
            }
        }
    }
}

#[test]
fn a_large_machine_keeps_its_books_and_starves_nobody() {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = setting("SCX_EEVDFX_SEED", || {
        clock.map_or(0, |t| t.as_nanos() as u64)
    });
    let nr_tasks = setting("SCX_EEVDFX_TASKS", || NR_TASKS);
    let nr_cpus = setting("SCX_EEVDFX_CPUS", || NR_CPUS);
    println!("repeat with SCX_EEVDFX_SEED={seed}");
    let mut s = Simulation::new(nr_cpus as usize, nr_tasks as usize, seed);
    s.run(nr_tasks * EVENTS_PER_TASK);
    println!(
        "{} ms, knobs {:?}, longest queue {}, worst wait {:.3} of its bound",
        s.m.now / 1_000_000,
        s.m.knobs,
        s.m.cpus.iter().map(|c| c.nr).max().unwrap_or(0),
        s.m.audit.worst_wait
    );
    s.end();
}
