// SPDX-License-Identifier: GPL-2.0-only
//! The loop inside one hog: burn CPU, notice being switched out, keep accounts per window.
//!
//! CPU time is the thread's own CPU clock. It stands still while the hog is off the CPU, so a hog that sees
//! the end of a window late still reads the value it had then: no outside observer, no tick granularity.
//! The clock costs a system call, so it is read only at a gap in CLOCK_MONOTONIC (vDSO) and at the edges. A
//! gap that CPU time fills too (interrupts, another vCPU's turn under icount) is not a switch.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;

use crate::stats::Hist;
use crate::sys::{self, monotonic_ns, thread_cpu_ns};

pub struct Plan {
    pub start_ns: u64,
    pub end_ns: u64,
    pub window_ns: u64,
    pub gap_ns: u64,
    /// (run, sleep) in ns.
    pub burst_ns: Option<(u64, u64)>,
    /// sched_yield after every look at the clock.
    pub yields: bool,
}

pub struct Account {
    pub cpu_ns: u64,
    /// CPU time in each whole window.
    pub windows_ns: Vec<u64>,
    /// CPU time between one switch-out and the next.
    pub runs: Hist,
    /// Time off the CPU between two runs, sleeps not counted.
    pub waits: Hist,
    /// Lateness of wakeups after a sleep.
    pub wakes: Hist,
    pub voluntary: u64,
    pub involuntary: u64,
}

/// Some 2000 instructions between two looks at the clock, less than a microsecond on hardware and 2 us of virtual time
/// under icount. No-ops, since an emulator translates them to nothing: a second of them costs it a tenth.
#[cfg(target_arch = "x86_64")]
pub fn work() {
    // SAFETY: no-ops touch neither memory nor registers.
    unsafe {
        asm!(
            ".rept 2000",
            "nop",
            ".endr",
            options(nomem, nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn work() {
    for i in 0..500 {
        std::hint::black_box(i);
    }
}

struct Watch {
    gap_ns: u64,
    last_ns: u64,
    mark_ns: u64,
    mark_cpu_ns: u64,
    run_start_cpu_ns: u64,
}

impl Watch {
    fn new(gap_ns: u64) -> Self {
        let (now, cpu) = (monotonic_ns(), thread_cpu_ns());
        Watch {
            gap_ns,
            last_ns: now,
            mark_ns: now,
            mark_cpu_ns: cpu,
            run_start_cpu_ns: cpu,
        }
    }

    fn read(&mut self, runs: &mut Hist, waits: &mut Hist) -> u64 {
        let now = monotonic_ns();
        if now - self.last_ns > self.gap_ns {
            let cpu = thread_cpu_ns();
            let off_ns = (now - self.mark_ns).saturating_sub(cpu - self.mark_cpu_ns);
            if off_ns > self.gap_ns {
                self.end_run(cpu, runs);
                waits.record(off_ns);
            }
            (self.mark_ns, self.mark_cpu_ns) = (now, cpu);
        }
        self.last_ns = now;
        now
    }

    /// CPU time if nothing went unnoticed since the last mark: an upper bound.
    fn cpu_bound_ns(&self) -> u64 {
        self.mark_cpu_ns + (self.last_ns - self.mark_ns)
    }

    fn end_run(&mut self, cpu_ns: u64, runs: &mut Hist) {
        if cpu_ns > self.run_start_cpu_ns {
            runs.record(cpu_ns - self.run_start_cpu_ns);
        }
        self.run_start_cpu_ns = cpu_ns;
    }

    fn remark(&mut self) -> u64 {
        let (now, cpu) = (monotonic_ns(), thread_cpu_ns());
        (self.last_ns, self.mark_ns, self.mark_cpu_ns) = (now, now, cpu);
        cpu
    }
}

struct Edges {
    next_ns: u64,
    width_ns: u64,
    before_ns: u64,
    windows_ns: Vec<u64>,
    nr_windows: usize,
}

impl Edges {
    fn new(plan: &Plan, cpu_ns: u64) -> Self {
        let nr_windows = ((plan.end_ns - plan.start_ns) / plan.window_ns) as usize;
        Edges {
            next_ns: plan.start_ns + plan.window_ns,
            width_ns: plan.window_ns,
            before_ns: cpu_ns,
            windows_ns: Vec::with_capacity(nr_windows),
            nr_windows,
        }
    }

    fn pass(&mut self, now: u64) {
        if now < self.next_ns || self.windows_ns.len() == self.nr_windows {
            return;
        }
        let cpu = thread_cpu_ns();
        while now >= self.next_ns && self.windows_ns.len() < self.nr_windows {
            self.windows_ns.push(cpu - self.before_ns);
            self.before_ns = cpu;
            self.next_ns += self.width_ns;
        }
    }
}

/// Runs the plan from its start (which is now) to its end.
pub fn run(plan: &Plan) -> Account {
    let (voluntary, involuntary) = sys::switches();
    let (mut runs, mut waits, mut wakes) = (Hist::new(), Hist::new(), Hist::new());
    let mut watch = Watch::new(plan.gap_ns);
    let first_cpu_ns = watch.mark_cpu_ns;
    let mut edges = Edges::new(plan, first_cpu_ns);
    let mut burst_end_cpu_ns = plan
        .burst_ns
        .map_or(u64::MAX, |(run, _)| first_cpu_ns + run);
    loop {
        if plan.yields {
            sys::yield_cpu();
        } else {
            work();
        }
        let now = watch.read(&mut runs, &mut waits);
        edges.pass(now);
        if now >= plan.end_ns {
            break;
        }
        let Some((run_ns, sleep_ns)) = plan.burst_ns else {
            continue;
        };
        if watch.cpu_bound_ns() < burst_end_cpu_ns {
            continue;
        }
        let cpu = watch.remark();
        if cpu < burst_end_cpu_ns {
            continue;
        }
        watch.end_run(cpu, &mut runs);
        let deadline_ns = monotonic_ns() + sleep_ns;
        let late_ns = sys::sleep_until(deadline_ns.min(plan.end_ns));
        // All hogs wake at the end together: that lateness is of our own making.
        if deadline_ns < plan.end_ns {
            wakes.record(late_ns);
        }
        burst_end_cpu_ns = watch.remark() + run_ns;
    }
    let cpu_ns = thread_cpu_ns();
    watch.end_run(cpu_ns, &mut runs);
    let (voluntary_end, involuntary_end) = sys::switches();
    Account {
        cpu_ns: cpu_ns - first_cpu_ns,
        windows_ns: edges.windows_ns,
        runs,
        waits,
        wakes,
        voluntary: voluntary_end - voluntary,
        involuntary: involuntary_end - involuntary,
    }
}

/// CPU time of a process that was just forked until it is switched out for the first time, or until it has had
/// `most_ns`.
pub fn first_run_ns(gap_ns: u64, most_ns: u64) -> u64 {
    let (mut runs, mut waits) = (Hist::new(), Hist::new());
    let mut watch = Watch::new(gap_ns);
    watch.run_start_cpu_ns = 0;
    while runs.total() == 0 && watch.cpu_bound_ns() < most_ns {
        work();
        watch.read(&mut runs, &mut waits);
    }
    if runs.total() == 0 {
        most_ns
    } else {
        runs.max()
    }
}

/// Spins until somebody ends the process.
pub fn forever() -> ! {
    loop {
        work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::NS_PER_MS;

    #[test]
    fn a_burst_hog_runs_what_it_should() {
        let start_ns = monotonic_ns();
        let account = run(&Plan {
            start_ns,
            end_ns: start_ns + 100 * NS_PER_MS,
            window_ns: 10 * NS_PER_MS,
            gap_ns: 150_000,
            burst_ns: Some((NS_PER_MS, 4 * NS_PER_MS)),
            yields: false,
        });
        assert_eq!(account.windows_ns.len(), 10);
        assert!(account.cpu_ns < 60 * NS_PER_MS, "{}", account.cpu_ns);
        assert!(account.windows_ns.iter().sum::<u64>() <= account.cpu_ns);
        assert!(account.wakes.total() >= 5 && account.voluntary >= 5);
        assert!(account.runs.total() >= account.wakes.total());
    }
}
