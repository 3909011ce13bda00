// SPDX-License-Identifier: GPL-2.0-only
//! `lab forks`: processes that fork without pause and collect their dead late, so that a limit on their number is met
//! again and again. A fork may fail only with EAGAIN; every child that came to be must end well.

use std::io;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Gate};
use crate::sys::{self, NS_PER_SEC, NS_PER_US, monotonic_ns};

#[derive(Args)]
pub struct Options {
    /// Processes that fork
    #[arg(long, default_value_t = 4)]
    parents: usize,
    /// Children that a parent has before it collects them, alive or not
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds after the end within which a parent must report
    #[arg(long, default_value_t = 20)]
    grace_s: u64,
}

/// One child in four sleeps this long before it ends: it wakes among the newborn.
const NAP_NS: u64 = 500 * NS_PER_US;

#[derive(Default)]
struct Count {
    forked: u64,
    again: u64,
    died: u64,
}

pub fn run(options: &Options) -> Result<bool> {
    let length_ns = (options.seconds * NS_PER_SEC as f64) as u64;
    let gate = Gate::new()?;
    let mut parents = Vec::new();
    for _ in 0..options.parents {
        parents.push(child::spawn(|| {
            storm(gate.wait()? + length_ns, options.batch)
        })?);
    }
    let end_ns = gate.open(parents.len(), 0)? + length_ns;
    sys::sleep_until(end_ns);
    let (mut sum, mut silent) = (Count::default(), 0);
    for parent in &mut parents {
        let Some(report) = parent.finish(end_ns + options.grace_s * NS_PER_SEC)? else {
            silent += 1;
            continue;
        };
        let numbers: Vec<u64> = report
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [forked, again, died] = numbers[..] else {
            bail!("a parent's report: {report:?}");
        };
        sum.forked += forked;
        sum.again += again;
        sum.died += died;
    }
    println!(
        "forked={} again={} died={} silent={silent}",
        sum.forked, sum.again, sum.died
    );
    Ok(sum.forked > 0 && sum.died == 0 && silent == 0)
}

fn storm(end_ns: u64, batch: usize) -> Result<String> {
    let mut stacks: Vec<sys::MayflyStack> = vec![[0; size_of::<sys::MayflyStack>()]; batch];
    let mut count = Count::default();
    while monotonic_ns() < end_ns {
        let full = fill(&mut stacks, end_ns, &mut count);
        count.died += collect()?;
        full?;
    }
    Ok(format!("{} {} {}", count.forked, count.again, count.died))
}

/// Starts a child per stack, or fewer: to the limit, to the end.
fn fill(stacks: &mut [sys::MayflyStack], end_ns: u64, count: &mut Count) -> Result<()> {
    for stack in stacks {
        if monotonic_ns() >= end_ns {
            break;
        }
        let nap_ns = if count.forked.is_multiple_of(4) {
            NAP_NS
        } else {
            0
        };
        // SAFETY: the caller waits for all children before it touches the stacks again.
        match unsafe { sys::start_mayfly(stack, nap_ns) } {
            Ok(()) => count.forked += 1,
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                count.again += 1;
                break;
            }
            Err(error) => return Err(error).context("fork"),
        }
    }
    Ok(())
}

/// Waits for all children; how many did not end with 0.
fn collect() -> io::Result<u64> {
    let mut died = 0;
    while let Some(status) = sys::wait_for_any()? {
        died += u64::from(status != 0);
    }
    Ok(died)
}
