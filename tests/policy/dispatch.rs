// SPDX-License-Identifier: GPL-2.0-only
//! Who runs, as bpf/pick.bpf.h and bpf/preempt.bpf.h decide it: promotion, lazy demotion at the head, the
//! previous task as a candidate, wakeups. Left out: the caps on loops, next_buddy, the rescue of whoever
//! waits for seconds.

use crate::ffi::{self, Curr, Rules, Se, Wakee, Wakeup};
use crate::model::{Machine, Place};
use crate::reference::{Kind, Party, before};

impl Machine {
    /// From now on, with the running task charged.
    fn open_window(&mut self, cpu: usize) {
        let c = &mut self.cpus[cpu];
        if let Some(id) = c.curr {
            let se = &self.tasks[id].se;
            let ns = ffi::window_ns(se.vruntime, se.deadline, se.weight);
            c.end = self.now + ns;
        }
    }

    /// How long until the running task's request ends.
    pub fn window_ns(&self, cpu: usize) -> Option<u64> {
        let c = &self.cpus[cpu];
        c.curr.map(|_| c.end.saturating_sub(self.now))
    }

    /// `id`, taken from its queue, has the CPU.
    fn start(&mut self, cpu: usize, id: usize) {
        let (min_ns, _) = self.slice_ends(cpu);
        let knobs = self.knobs;
        let c = &mut self.cpus[cpu];
        let t = &mut self.tasks[id];
        t.place = Place::Runs;
        c.curr = Some(id);
        c.since = self.now;
        let at = ffi::ineligible_at(&c.rq, &t.se);
        c.vprot = ffi::protect(&t.se, min_ns, at, knobs.run_to_parity, knobs.preempt_short);
        self.audit.waited(cpu, id, &self.tasks[id].se);
        self.open_window(cpu);
    }

    fn switch_to(&mut self, cpu: usize, id: usize) {
        self.unqueue(id);
        if let Some(old) = self.cpus[cpu].curr.take() {
            let avg = self.avg(cpu);
            let v = self.tasks[old].se.vruntime;
            self.queue(old, ffi::eligible(v, avg));
            self.audit.stopped(cpu, old, avg, v);
        }
        self.start(cpu, id);
    }

    /// READY's head is eligible afterwards, or nobody in it is.
    fn sort_queues(&mut self, cpu: usize, avg: u64) {
        while let Some(&(_, id)) = self.cpus[cpu].wait.first()
            && ffi::eligible(self.tasks[id].se.vruntime, avg)
        {
            self.unqueue(id);
            self.queue(id, true);
        }
        while let Some(&(_, id)) = self.cpus[cpu].ready.first()
            && !ffi::eligible(self.tasks[id].se.vruntime, avg)
        {
            self.unqueue(id);
            self.queue(id, false);
        }
    }

    pub fn pick(&mut self, cpu: usize) {
        self.charge(cpu);
        let avg = self.avg(cpu);
        self.sort_queues(cpu, avg);
        let c = &self.cpus[cpu];
        let head = c.ready.first().map(|q| q.1);
        let curr = c.curr.map(|id| &self.tasks[id].se);
        let prev = curr.filter(|se| ffi::eligible(se.vruntime, avg));
        let Some(head) = head else {
            assert!(c.nr == 0 || prev.is_some(), "nobody is eligible");
            self.open_window(cpu);
            return;
        };
        let stays = prev.is_some_and(|se| {
            before(se.vruntime, c.vprot) || before(se.deadline, self.tasks[head].se.deadline)
        });
        if stays {
            self.open_window(cpu);
        } else {
            self.switch_to(cpu, head);
        }
    }

    /// `id`, which is away, becomes runnable on `cpu`.
    pub fn wake(&mut self, cpu: usize, id: usize) {
        self.join(cpu, id);
        let Some(curr) = self.cpus[cpu].curr else {
            self.tasks[id].forked = false;
            self.pick(cpu);
            return;
        };
        let wakeup = self.ask_wakeup(cpu, id, curr);
        self.tasks[id].forked = false;
        match wakeup {
            Wakeup::Waits => self.shrink(cpu, curr),
            Wakeup::Runs => {
                self.charge(cpu);
                self.switch_to(cpu, id);
            }
            Wakeup::Best => {
                self.charge(cpu);
                let avg = self.avg(cpu);
                self.sort_queues(cpu, avg);
                let deadline = self.tasks[id].se.deadline;
                let mut others = self.cpus[cpu]
                    .ready
                    .iter()
                    .map(|q| q.1)
                    .filter(|&q| q != id);
                if others
                    .next()
                    .is_none_or(|o| before(deadline, self.tasks[o].se.deadline))
                {
                    self.switch_to(cpu, id);
                }
            }
            Wakeup::Pick => {
                self.charge(cpu);
                self.cpus[cpu].vprot = self.tasks[curr].se.vruntime;
                self.pick(cpu);
            }
        }
    }

    /// The running task's vruntime, with the service that is not charged yet.
    fn curr_vruntime(&self, cpu: usize, curr: usize) -> u64 {
        let se = &self.tasks[curr].se;
        let ran = self.uncharged(cpu);
        let gained = if ran > 0 {
            ffi::vtime(ran, se.weight)
        } else {
            0
        };
        se.vruntime.wrapping_add(gained)
    }

    fn ask_wakeup(&self, cpu: usize, id: usize, curr: usize) -> Wakeup {
        let (t, run) = (&self.tasks[id], &self.tasks[curr]);
        let wakee = Wakee {
            idle: t.kind == Kind::Idle,
            normal: t.kind == Kind::Normal,
            forked: t.forked,
            buddy: false,
        };
        let curr = Curr {
            vruntime: self.curr_vruntime(cpu, curr),
            deadline: run.se.deadline,
            vprot: self.cpus[cpu].vprot,
            slice_ns: run.se.slice_ns,
            idle: run.kind == Kind::Idle,
        };
        let rules = Rules {
            preempt_short: self.knobs.preempt_short,
            pick_buddy: self.knobs.pick_buddy,
        };
        ffi::wakeup(&t.se, &wakee, &curr, self.avg(cpu), &rules)
    }

    fn shrink(&mut self, cpu: usize, curr: usize) {
        if self.knobs.run_to_parity {
            let vruntime = self.curr_vruntime(cpu, curr);
            let (min_ns, _) = self.slice_ends(cpu);
            let (avg, weight) = (self.avg(cpu), self.tasks[curr].se.weight);
            let c = &mut self.cpus[cpu];
            c.vprot = ffi::shrink(c.vprot, vruntime, weight, avg, min_ns);
        }
    }

    /// sched_yield() of the running task.
    pub fn yield_now(&mut self, cpu: usize) {
        self.charge(cpu);
        let Some(id) = self.cpus[cpu].curr else {
            return;
        };
        let avg = self.avg(cpu);
        if self.cpus[cpu].nr > 1 && ffi::eligible(self.tasks[id].se.vruntime, avg) {
            let slice_ns = self.slice_ns(id, cpu);
            let t = &mut self.tasks[id];
            ffi::forfeit(&mut self.cpus[cpu].rq, &mut t.se);
            ffi::renew(&mut t.se, slice_ns);
            let after = self.avg(cpu);
            self.audit.jump(cpu, avg, after);
        }
        self.cpus[cpu].vprot = self.tasks[id].se.vruntime;
        self.pick(cpu);
    }

    /// Weight or slice of any task changes, as the core has it: off the queues, and on again.
    pub fn change(&mut self, id: usize, weight: u32, own_slice_ns: Option<u64>) {
        let place = self.tasks[id].place;
        let cpu = self.tasks[id].cpu;
        if place != Place::Away {
            self.leave(id, false);
        }
        self.tasks[id].weight = weight;
        self.tasks[id].own_slice_ns = own_slice_ns;
        match place {
            Place::Away => {}
            Place::Runs => {
                self.join(cpu, id);
                self.unqueue(id);
                self.start(cpu, id);
            }
            Place::Ready | Place::Wait => self.wake(cpu, id),
        }
    }

    /// A task that waits goes to another CPU's queue.
    pub fn migrate(&mut self, id: usize, cpu: usize) {
        if matches!(self.tasks[id].place, Place::Ready | Place::Wait) {
            self.leave(id, false);
            self.wake(cpu, id);
        }
    }

    /// The running task sleeps.
    pub fn block(&mut self, cpu: usize) {
        if let Some(id) = self.cpus[cpu].curr {
            self.leave(id, true);
            self.pick(cpu);
        }
    }

    /// The tasks of a CPU for the exact rules, and their ids. Its running task must be charged.
    pub fn with_party<R>(&self, cpu: usize, f: impl FnOnce(Party, &[usize]) -> R) -> R {
        let ids = self.cpus[cpu].members();
        let tasks: Vec<Se> = ids.iter().map(|&id| self.tasks[id].se).collect();
        let curr = ids.iter().position(|&id| Some(id) == self.cpus[cpu].curr);
        let party = Party {
            tasks: &tasks,
            curr,
            vprot: self.cpus[cpu].vprot,
            next: None,
            newcomer: None,
        };
        f(party, &ids)
    }
}
