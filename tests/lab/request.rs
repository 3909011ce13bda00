// SPDX-License-Identifier: GPL-2.0-only
//! `lab request`: the load that schbench made known. Messengers wake workers; a woken worker sleeps a moment
//! (the network), multiplies matrices (the work), reports to its messenger and sleeps until woken again.
//!
//! Wakeup latency: from the messenger's stamp, taken once before it wakes all who wait, to the worker running.
//! Request latency: from the worker starting on a request, its think sleep included, to the work being done.
//! Both as in schbench, and so are the hand-over by futex, the lock-free list of those who wait, and what is
//! counted when the run ends (requests under way are finished and their latency kept, but not their rate).
//! One thing schbench lacks: which wakeups ended on the node where the worker began, which is where its memory is.
//! One thing is off unless asked for: schbench takes a lock per CPU around the work and spins for it, so there
//! a preempted worker makes the one that took its CPU burn time. `--cpu-lock` does that too.

mod matrices;
mod office;

use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::nodes::Nodes;
use crate::schbench;
use crate::stats::{Hist, us};
use crate::sys::{self, NS_PER_SEC, NS_PER_US, monotonic_ns};
use matrices::Matrices;
use office::{Office, Phase};

#[derive(Args, Clone)]
pub struct Options {
    /// Messenger threads
    #[arg(short, long, default_value_t = 2)]
    pub messengers: usize,
    /// Workers per messenger [default: CPUs / messengers, rounded up]
    #[arg(short = 't', long)]
    pub workers: Option<usize>,
    /// Cache footprint of a worker's matrices in KiB
    #[arg(short = 'F', long, default_value_t = 128)]
    pub footprint_kib: usize,
    /// Matrix multiplications per request
    #[arg(short = 'n', long, default_value_t = 1)]
    pub operations: usize,
    /// Think time before the work of each request in us, slept
    #[arg(short = 's', long, default_value_t = 100)]
    pub sleep_us: u64,
    /// Measured time in seconds
    #[arg(short = 'r', long, default_value_t = 5.0)]
    pub runtime_s: f64,
    /// Warm-up in seconds, not measured (schbench itself drops it from runs below 30 s)
    #[arg(short = 'w', long, default_value_t = 0.0)]
    pub warmup_s: f64,
    /// SCHED_BATCH for the workers (for all its threads if schbench runs)
    #[arg(long)]
    pub batch: bool,
    /// Spin for a lock per CPU around the work, as schbench does
    #[arg(long)]
    pub cpu_lock: bool,
    /// Do not use schbench even if it is on PATH
    #[arg(long)]
    pub own: bool,
}

impl Options {
    pub fn workers_each(&self) -> usize {
        self.workers
            .unwrap_or_else(|| sys::nr_cpus().div_ceil(self.messengers))
    }
}

/// What a run measured, whoever ran it.
pub struct Summary {
    pub tool: &'static str,
    /// p50, p90, p99, max in us.
    pub wakeup_us: [f64; 4],
    pub request_us: [f64; 4],
    pub rps: f64,
    pub requests: u64,
    /// Percent of the wakeups that were on the worker's first node; NaN if not measured.
    pub home_pct: f64,
}

pub fn run(options: &Options) -> Result<()> {
    if options.messengers == 0 || options.workers_each() == 0 || options.runtime_s <= 0.0 {
        bail!("-m, -t and -r must be more than 0");
    }
    let summary = match sys::find_program("schbench") {
        Some(path) if !options.own => schbench::run(&path, options)?,
        _ => measure(options)?,
    };
    println!("tool={}", summary.tool);
    println!(
        "cpus={} messengers={} workers={}",
        sys::nr_cpus(),
        options.messengers,
        options.messengers * options.workers_each()
    );
    for (what, values) in [
        ("wakeup", summary.wakeup_us),
        ("request", summary.request_us),
    ] {
        let [p50, p90, p99, max] = values;
        println!(
            "{what}_p50_us={p50:.1} {what}_p90_us={p90:.1} {what}_p99_us={p99:.1} {what}_max_us={max:.1}"
        );
    }
    println!(
        "rps={:.2} requests={} home_pct={:.2}",
        summary.rps, summary.requests, summary.home_pct
    );
    Ok(())
}

struct Tally {
    wakeup: Hist,
    /// Wakeups on the node where the worker began.
    home: u64,
    request: Hist,
    /// Requests finished while measuring.
    finished: u64,
}

impl Tally {
    fn new() -> Self {
        Tally {
            wakeup: Hist::new(),
            home: 0,
            request: Hist::new(),
            finished: 0,
        }
    }

    fn add(&mut self, other: &Tally) {
        self.wakeup.add(&other.wakeup);
        self.home += other.home;
        self.request.add(&other.request);
        self.finished += other.finished;
    }
}

fn work(office: &Office, options: &Options, nodes: &Nodes, index: usize) -> Result<Tally> {
    sys::exact_timers();
    if options.batch {
        sys::set_sched(libc::SCHED_BATCH, 0, 0)?;
    }
    let home = nodes.current();
    let mut matrices = Matrices::new(options.footprint_kib);
    let mut tally = Tally::new();
    while !office.stopping() {
        let latency = office.report_and_wait(index);
        if let Some(ns) = latency
            && office.phase() != Phase::WarmUp
        {
            tally.wakeup.record(ns);
            tally.home += u64::from(nodes.current() == home);
        }
        if office.stopping() {
            break;
        }
        let start_ns = monotonic_ns();
        if options.sleep_us > 0 {
            sys::sleep_until(start_ns + options.sleep_us * NS_PER_US);
        }
        let lock = office.lock_cpu();
        for _ in 0..options.operations {
            matrices.multiply();
        }
        if let Some(lock) = lock {
            office::unlock(lock);
        }
        let phase = office.phase();
        if phase != Phase::WarmUp {
            tally.request.record(monotonic_ns() - start_ns);
            tally.finished += u64::from(phase == Phase::Measure);
        }
    }
    Ok(tally)
}

fn measure(options: &Options) -> Result<Summary> {
    let office = Office::new(options.messengers, options.workers_each(), options.cpu_lock);
    let nodes = Nodes::here();
    thread::scope(|scope| {
        let started = start(scope, &office, &nodes, options);
        let mut measured_ns = 0;
        if started.is_ok() {
            sys::sleep_until(monotonic_ns() + (options.warmup_s * NS_PER_SEC as f64) as u64);
            office.measure();
            let start_ns = monotonic_ns();
            sys::sleep_until(start_ns + (options.runtime_s * NS_PER_SEC as f64) as u64);
            measured_ns = monotonic_ns() - start_ns;
        }
        // Also when a thread could not be started: the scope waits for those that were.
        office.stop();
        let mut all = Tally::new();
        for worker in started? {
            all.add(&worker.join().ok().context("a worker panicked")??);
        }
        Ok(summarize(&all, measured_ns))
    })
}

type Worker<'scope> = thread::ScopedJoinHandle<'scope, Result<Tally>>;

fn start<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    office: &'env Office,
    nodes: &'env Nodes,
    options: &'env Options,
) -> Result<Vec<Worker<'scope>>> {
    let thread = |name: String| thread::Builder::new().name(name);
    for index in 0..office.nr_messengers() {
        thread(format!("lab-msg{index}")).spawn_scoped(scope, move || office.serve(index))?;
    }
    let worker = |index| {
        thread(format!("lab-worker{index}"))
            .spawn_scoped(scope, move || work(office, options, nodes, index))
    };
    (0..office.nr_workers())
        .map(|index| worker(index).context("starting a worker"))
        .collect()
}

fn summarize(tally: &Tally, measured_ns: u64) -> Summary {
    let points =
        |hist: &Hist| [50.0, 90.0, 99.0, 100.0].map(|percent| us(hist.percentile(percent)));
    Summary {
        tool: "lab",
        wakeup_us: points(&tally.wakeup),
        request_us: points(&tally.request),
        rps: tally.finished as f64 * 1e9 / measured_ns as f64,
        requests: tally.finished,
        home_pct: 100.0 * tally.home as f64 / tally.wakeup.total() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_ends_and_counts() {
        let options = Options {
            messengers: 2,
            workers: Some(3),
            footprint_kib: 4,
            operations: 1,
            sleep_us: 50,
            runtime_s: 0.2,
            warmup_s: 0.05,
            batch: true,
            cpu_lock: true,
            own: true,
        };
        let summary = measure(&options).unwrap();
        assert!(summary.requests > 10 && summary.rps > 50.0);
        assert!(summary.request_us[0] >= 50.0 && summary.request_us[3] >= summary.request_us[2]);
        assert!(summary.wakeup_us[3] > 0.0);
        assert!((0.0..=100.0).contains(&summary.home_pct));
    }
}
