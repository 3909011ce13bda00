// SPDX-License-Identifier: GPL-2.0-only
//! `lab yield`: threads on one CPU that call sched_yield in a loop. Nobody sleeps and nobody is woken, so a switch is
//! the system call, one requeue and one pick, with as many queued as asked for.
//!
//! Switches are the kernel's count for the whole process, so a yield that led back to the caller is not one. The
//! measured time starts when every thread has come through the gate: neither creation nor the wakeups are in it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sys::{self, NS_PER_MS, NS_PER_SEC, monotonic_ns};

/// pthreads' minimum, and more than a loop needs.
const STACK_BYTES: usize = 32 << 10;

/// How often the waits below look, and how long they wait at most.
const LOOK_NS: u64 = 5 * NS_PER_MS;
const MOST_NS: u64 = 120 * NS_PER_SEC;

#[derive(Args)]
pub struct Options {
    /// Yielding threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The CPU that all are pinned to
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Measured time in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

#[derive(Default)]
struct Crowd {
    nr_ready: AtomicU32,
    gate: AtomicU32,
    nr_through: AtomicU32,
    stop: AtomicBool,
    yields: Vec<AtomicU64>,
}

struct Sample {
    ns: u64,
    switches: u64,
    yields: Vec<u64>,
}

pub fn run(options: &Options) -> Result<()> {
    if options.threads == 0 || options.seconds <= 0.0 {
        bail!("nothing to run");
    }
    let crowd = Crowd {
        yields: (0..options.threads).map(|_| AtomicU64::new(0)).collect(),
        ..Crowd::default()
    };
    thread::scope(|scope| {
        // Threads inherit its CPU; ours stays free, so that we are not one more who waits for it.
        let creator = scope.spawn(|| crowd.create(options.cpu));
        let samples = crowd.measure((options.seconds * NS_PER_SEC as f64) as u64);
        crowd.dismiss();
        creator.join().expect("the creator does not panic")?;
        let (before, after) = samples?;
        print(&before, &after);
        Ok(())
    })
}

impl Crowd {
    fn nr(&self) -> u32 {
        self.yields.len() as u32
    }

    /// Creates the threads and returns when they have ended.
    fn create(&self, cpu: usize) -> Result<()> {
        let made = sys::pin(&[cpu]).and_then(|()| {
            thread::scope(|scope| {
                for count in &self.yields {
                    thread::Builder::new()
                        .stack_size(STACK_BYTES)
                        .spawn_scoped(scope, || self.take_part(count))
                        .inspect_err(|_| self.dismiss())
                        .context("creating threads")?;
                }
                Ok(())
            })
        });
        if made.is_err() {
            self.dismiss();
        }
        made
    }

    fn take_part(&self, count: &AtomicU64) {
        self.nr_ready.fetch_add(1, Ordering::Relaxed);
        while self.gate.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&self.gate, 0);
        }
        self.nr_through.fetch_add(1, Ordering::Relaxed);
        while !self.stop.load(Ordering::Relaxed) {
            sys::yield_cpu();
            // Only this thread writes it: no need for an atomic addition.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn measure(&self, length_ns: u64) -> Result<(Sample, Sample)> {
        self.wait_for(&self.nr_ready)?;
        self.open();
        self.wait_for(&self.nr_through)?;
        let before = self.sample();
        sys::sleep_until(before.ns + length_ns);
        Ok((before, self.sample()))
    }

    fn wait_for(&self, nr: &AtomicU32) -> Result<()> {
        let most_ns = monotonic_ns() + MOST_NS;
        while nr.load(Ordering::Relaxed) < self.nr() {
            let now = monotonic_ns();
            if self.stop.load(Ordering::Relaxed) || now > most_ns {
                bail!("{nr:?} of {} threads came", self.nr());
            }
            sys::sleep_until(now + LOOK_NS);
        }
        Ok(())
    }

    fn open(&self) {
        self.gate.store(1, Ordering::Release);
        sys::futex_wake_all(&self.gate);
    }

    fn dismiss(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.open();
    }

    fn sample(&self) -> Sample {
        let (voluntary, involuntary) = sys::process_switches();
        let ns = monotonic_ns();
        let counts = self.yields.iter();
        Sample {
            ns,
            switches: voluntary + involuntary,
            yields: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
        }
    }
}

fn print(before: &Sample, after: &Sample) {
    let pairs = before.yields.iter().zip(&after.yields);
    let each: Vec<u64> = pairs.map(|(a, b)| b - a).collect();
    let (ns, yields) = ((after.ns - before.ns) as f64, each.iter().sum::<u64>());
    let switches = after.switches - before.switches;
    println!(
        "threads={} yields={yields} switches={switches} ns_per_yield={:.1} ns_per_switch={:.1} min_yields={} max_yields={}",
        each.len(),
        ns / yields as f64,
        ns / switches as f64,
        each.iter().min().unwrap_or(&0),
        each.iter().max().unwrap_or(&0),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_yields_and_goes_home() {
        let crowd = Crowd {
            yields: (0..10).map(|_| AtomicU64::new(0)).collect(),
            ..Crowd::default()
        };
        thread::scope(|scope| {
            scope.spawn(|| crowd.create(sys::current_cpu()).unwrap());
            let (before, after) = crowd.measure(20 * NS_PER_MS).unwrap();
            crowd.dismiss();
            assert!(after.yields.iter().sum::<u64>() > before.yields.iter().sum());
        });
    }

    #[test]
    fn a_cpu_that_is_not_there_ends_it() {
        let options = Options {
            threads: 2,
            cpu: 1023,
            seconds: 1.0,
        };
        assert!(run(&options).is_err());
    }
}
