// SPDX-License-Identifier: GPL-2.0-only
//! The rules of fair.c's pick_eevdf() and wakeup_preempt_fair() on a plain list of tasks, by their
//! definitions: no sums, no queues, no clock that wraps into them.
//!
//! Of equal deadlines a newcomer's counts as later, and the running task's as the latest.

use crate::ffi::Se;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Normal,
    Batch,
    Idle,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub preempt_short: bool,
    pub pick_buddy: bool,
    pub next_buddy: bool,
}

/// The runnable tasks of one CPU.
#[derive(Clone, Debug)]
pub struct Party<'a> {
    pub tasks: &'a [Se],
    pub curr: Option<usize>,
    pub vprot: u64,
    pub next: Option<usize>,
    /// Who has just come.
    pub newcomer: Option<usize>,
}

pub fn before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl Party<'_> {
    /// \Sum w_j * (v_j - v_i) >= 0: the others together have had more than i.
    pub fn eligible(&self, i: usize) -> bool {
        let v = self.tasks[i].vruntime;
        let ahead = |t: &Se| i128::from(t.weight) * i128::from(t.vruntime.wrapping_sub(v) as i64);
        self.tasks.iter().map(ahead).sum::<i128>() >= 0
    }

    pub fn pick(&self, pick_buddy: bool, protect: bool) -> usize {
        let sole = self.tasks.len() == 1;
        let buddy = self.next.filter(|&n| pick_buddy && self.eligible(n));
        let curr = self.curr.filter(|&c| self.eligible(c));
        let kept = curr.filter(|&c| before(self.tasks[c].vruntime, self.vprot));
        match (buddy, kept) {
            _ if sole => 0,
            (Some(n), _) if protect => n,
            (_, Some(c)) if protect => c,
            _ => (0..self.tasks.len())
                .filter(|&i| self.eligible(i))
                .reduce(|best, i| if self.wins(i, best) { i } else { best })
                .expect("somebody is eligible"),
        }
    }

    fn wins(&self, a: usize, b: usize) -> bool {
        let (da, db) = (self.tasks[a].deadline, self.tasks[b].deadline);
        let late = |i| (self.curr == Some(i), self.newcomer == Some(i));
        before(da, db) || (da == db && late(a) < late(b))
    }

    /// Who runs after `wakee`, which is in the list, has woken up; None: the running task goes on.
    pub fn wakeup(
        &mut self,
        wakee: usize,
        kinds: (Kind, Kind),
        forked: bool,
        rules: Rules,
    ) -> Option<usize> {
        let curr = self.curr?;
        self.newcomer = Some(wakee);
        let (curr_kind, kind) = kinds;
        let short = rules.preempt_short && self.tasks[wakee].slice_ns < self.tasks[curr].slice_ns;
        match (curr_kind, kind) {
            (Kind::Idle, Kind::Normal | Kind::Batch) => {}
            (_, Kind::Batch | Kind::Idle) => return None,
            (_, Kind::Normal) if short => {
                if !self.eligible(wakee) {
                    return None;
                }
                self.next = Some(wakee);
            }
            (_, Kind::Normal) if forked => return None,
            (_, Kind::Normal) => {
                let older = self.next.map(|n| self.tasks[n].deadline);
                let newest = older.is_none_or(|d| !before(d, self.tasks[wakee].deadline));
                if rules.next_buddy && newest {
                    self.next = Some(wakee);
                }
                if self.pick(rules.pick_buddy, true) != wakee {
                    return None;
                }
            }
        }
        self.vprot = self.tasks[curr].vruntime;
        Some(self.pick(rules.pick_buddy, true))
    }
}
