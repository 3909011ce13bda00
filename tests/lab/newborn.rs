// SPDX-License-Identifier: GPL-2.0-only
//! `lab newborn`: one process after the other is forked on a CPU that hogs fill; each spins until it is switched out for
//! the first time.
//!
//! A start is counted from before the fork, so the fork itself is in it, the same in every arm.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Gate};
use crate::hogs::spin;
use crate::stats::{Hist, us};
use crate::sys::{self, NS_PER_MS, NS_PER_SEC, NS_PER_US, monotonic_ns};

/// A hole in time that means being switched out.
const GAP_NS: u64 = 150 * NS_PER_US;

/// Without company nobody is switched out.
const MOST_NS: u64 = 100 * NS_PER_MS;

/// Sleep between two forks. No multiple of any slice or tick, so that forks fall anywhere in the hogs' requests.
const PAUSE_NS: u64 = 23_456_789;

#[derive(Args)]
pub struct Options {
    /// The CPU that all are pinned to
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Busy processes
    #[arg(long, default_value_t = 2)]
    hogs: usize,
    /// Slice of the busy ones in us (0: the scheduler's own)
    #[arg(long, default_value_t = 0)]
    hog_slice_us: u64,
    /// Processes to fork
    #[arg(long, default_value_t = 30)]
    count: u64,
}

pub fn run(options: &Options) -> Result<()> {
    if options.count == 0 {
        bail!("nothing to run");
    }
    let gate = Gate::new()?;
    let mut children = Vec::new();
    let forker = || {
        let pinned = sys::pin(&[options.cpu]);
        gate.wait()?;
        pinned?;
        fork_them(options.count)
    };
    children.push(child::spawn(forker)?);
    for _ in 0..options.hogs {
        let hog = || {
            let slice_ns = options.hog_slice_us * NS_PER_US;
            let prepared = sys::pin(&[options.cpu])
                .and_then(|()| sys::set_sched(libc::SCHED_OTHER, 0, slice_ns));
            gate.wait()?;
            prepared?;
            spin::forever()
        };
        children.push(child::spawn(hog)?);
    }
    let start_ns = gate.open(children.len(), 0)?;
    let most_ns = start_ns + options.count * NS_PER_SEC + 20 * NS_PER_SEC;
    let report = children[0]
        .finish(most_ns)?
        .context("the forks did not end in time")?;
    let hists: Option<Vec<Hist>> = report.split('\n').map(Hist::from_text).collect();
    let [starts, firsts] = &hists.context("a report of forks")?[..] else {
        bail!("a report of forks: {report:?}");
    };
    println!(
        "forks={} hogs={} start_p50_us={:.1} start_max_us={:.1} first_run_p50_us={:.1} first_run_mean_us={:.1}",
        starts.total(),
        options.hogs,
        us(starts.percentile(50.0)),
        us(starts.max()),
        us(firsts.percentile(50.0)),
        us(firsts.mean())
    );
    Ok(())
}

fn fork_them(count: u64) -> Result<String> {
    let (mut starts, mut firsts) = (Hist::new(), Hist::new());
    for _ in 0..count {
        sys::sleep_until(monotonic_ns() + PAUSE_NS);
        let forked_ns = monotonic_ns();
        let mut child = child::spawn(|| {
            let start_ns = monotonic_ns() - forked_ns;
            Ok(format!(
                "{start_ns} {}",
                spin::first_run_ns(GAP_NS, MOST_NS)
            ))
        })?;
        let report = child
            .finish(forked_ns + 20 * NS_PER_SEC)?
            .context("a forked process did not report")?;
        let (start, first) = report.split_once(' ').context("a forked process")?;
        starts.record(start.parse()?);
        firsts.record(first.parse()?);
    }
    Ok(format!("{}\n{}", starts.to_text(), firsts.to_text()))
}
