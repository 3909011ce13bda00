// SPDX-License-Identifier: GPL-2.0-only
//! The two queues of bpf/pick.bpf.h as a model: promotion, lazy demotion at the head, the previous task
//! as a candidate. After any history its pick is the one an exhaustive search finds.

use crate::ffi::{self, Rq, Se};
use proptest::prelude::*;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A task with this weight class (index into WEIGHTS) and slice class wakes up.
    Wake(usize, usize),
    /// The n-th sleeper wakes with its lag.
    Return(usize),
    /// The running task runs for so many us and wants to go on.
    Run(u64),
    /// It runs for so many us and goes to sleep.
    Sleep(u64),
    /// The n-th queued task leaves.
    Leave(usize),
}

const WEIGHTS: [u32; 6] = [1024, 1024, 335, 3121, 15, 88761];
const SLICES_NS: [u64; 3] = [700_000, 2_800_000, 10_000_000];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..WEIGHTS.len(), 0..SLICES_NS.len()).prop_map(|(w, s)| Step::Wake(w, s)),
        3 => any::<usize>().prop_map(Step::Return),
        8 => (1u64..5000).prop_map(Step::Run),
        3 => (1u64..5000).prop_map(Step::Sleep),
        1 => any::<usize>().prop_map(Step::Leave),
    ]
}

#[derive(Default)]
struct Cpu {
    rq: Rq,
    tasks: Vec<Se>,
    /// Ids of tasks, heads first: by deadline and by vruntime.
    ready: Vec<usize>,
    wait: Vec<usize>,
    asleep: Vec<usize>,
    curr: Option<usize>,
}

fn order(a: u64, b: u64) -> Ordering {
    (a.wrapping_sub(b) as i64).cmp(&0)
}

impl Cpu {
    fn avg(&mut self) -> u64 {
        let avg = ffi::avg_vruntime(&self.rq, 0);
        ffi::move_zero(&mut self.rq, avg);
        avg
    }

    fn insert(&mut self, id: usize, ready: bool) {
        let key = |t: &Se| if ready { t.deadline } else { t.vruntime };
        let queue = if ready {
            &mut self.ready
        } else {
            &mut self.wait
        };
        let at =
            queue.partition_point(|&q| order(key(&self.tasks[q]), key(&self.tasks[id])).is_le());
        queue.insert(at, id);
    }

    fn join(&mut self, id: usize) {
        let avg = self.avg();
        let t = &mut self.tasks[id];
        t.vruntime = ffi::place(avg, t.vlag, t.weight, self.rq.sum_weight);
        t.deadline = t.vruntime.wrapping_add(ffi::vtime(t.slice_ns, t.weight));
        ffi::add(&mut self.rq, &self.tasks[id]);
        let avg = self.avg();
        self.insert(id, ffi::eligible(self.tasks[id].vruntime, avg));
    }

    fn leave(&mut self, id: usize) {
        let avg = self.avg();
        let t = &mut self.tasks[id];
        let limit = ffi::lag_limit(SLICES_NS[2], 4_000_000, t.weight);
        t.vlag = ffi::lag(avg, t.vruntime, limit);
        ffi::sub(&mut self.rq, &self.tasks[id]);
        self.asleep.push(id);
    }

    fn run(&mut self, ns: u64) {
        if let Some(id) = self.curr {
            let slice_ns = self.tasks[id].slice_ns;
            ffi::charge(&mut self.rq, &mut self.tasks[id], ns);
            ffi::renew(&mut self.tasks[id], slice_ns);
        }
    }

    /// As pick.bpf.h does it, without its caps. Leaves the pick in `curr`.
    fn pick(&mut self) {
        let avg = self.avg();
        while let Some(&id) = self.wait.first()
            && ffi::eligible(self.tasks[id].vruntime, avg)
        {
            self.wait.remove(0);
            self.insert(id, true);
        }
        while let Some(&id) = self.ready.first()
            && !ffi::eligible(self.tasks[id].vruntime, avg)
        {
            self.ready.remove(0);
            self.insert(id, false);
        }
        let prev = self
            .curr
            .filter(|&id| ffi::eligible(self.tasks[id].vruntime, avg));
        let Some(&head) = self.ready.first() else {
            return;
        };
        let stays =
            prev.is_some_and(|p| order(self.tasks[p].deadline, self.tasks[head].deadline).is_le());
        if stays {
            return;
        }
        self.ready.remove(0);
        if let Some(old) = self.curr.replace(head) {
            let eligible = ffi::eligible(self.tasks[old].vruntime, avg);
            self.insert(old, eligible);
        }
    }

    /// The earliest deadline among all runnable tasks that are eligible, by exact arithmetic.
    fn best_deadline(&self) -> Option<u64> {
        let runnable: Vec<usize> = self
            .ready
            .iter()
            .chain(&self.wait)
            .chain(&self.curr)
            .copied()
            .collect();
        let zero = self.rq.zero_vruntime;
        let key = |id: usize| i128::from(self.tasks[id].vruntime.wrapping_sub(zero) as i64);
        let sum: i128 = runnable
            .iter()
            .map(|&id| i128::from(self.tasks[id].weight) * key(id))
            .sum();
        let weight: i128 = runnable
            .iter()
            .map(|&id| i128::from(self.tasks[id].weight))
            .sum();
        runnable
            .iter()
            .filter(|&&id| key(id) * weight <= sum)
            .map(|&id| self.tasks[id].deadline)
            .min_by(|&a, &b| order(a, b))
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Wake(w, s) => {
                self.tasks.push(Se {
                    weight: WEIGHTS[w],
                    slice_ns: SLICES_NS[s],
                    ..Se::default()
                });
                self.join(self.tasks.len() - 1);
            }
            Step::Return(n) if !self.asleep.is_empty() => {
                let id = self.asleep.swap_remove(n % self.asleep.len());
                self.join(id);
            }
            Step::Run(us) => self.run(us * 1000),
            Step::Sleep(us) => {
                self.run(us * 1000);
                if let Some(id) = self.curr.take() {
                    self.leave(id);
                }
            }
            Step::Leave(n) if !self.ready.is_empty() => {
                let id = self.ready.remove(n % self.ready.len());
                self.leave(id);
            }
            Step::Return(_) | Step::Leave(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_pick_is_the_one_that_an_exhaustive_search_finds(
        start in any::<u64>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut cpu = Cpu::default();
        cpu.rq.zero_vruntime = start;
        for step in steps {
            cpu.apply(step);
            let best = cpu.best_deadline();
            cpu.pick();
            let picked = cpu.curr.map(|id| cpu.tasks[id].deadline);
            prop_assert_eq!(picked, best);
        }
    }
}
