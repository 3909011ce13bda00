// SPDX-License-Identifier: GPL-2.0-only
//! `lab sleepers`: a crowd that sleeps 1 to 50 ms and runs 50 to 500 us, beside hogs if asked; a scheduler that
//! loses a wakeup or starves somebody shows as one very late sleeper.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Gate};
use crate::stats::{Hist, us};
use crate::sys::{self, NS_PER_MS, NS_PER_SEC, NS_PER_US, monotonic_ns, thread_cpu_ns};

#[derive(Args)]
pub struct Options {
    /// Sleeping processes
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Busy processes beside them
    #[arg(long, default_value_t = 0)]
    hogs: usize,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Pin everybody to these CPUs [default: not pinned]
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Shortest and longest sleep in ms
    #[arg(long, value_name = "MIN,MAX", default_value = "1,50", value_parser = parse_range)]
    sleep_ms: (u64, u64),
    /// Shortest and longest run in us
    #[arg(long, value_name = "MIN,MAX", default_value = "50,500", value_parser = parse_range)]
    run_us: (u64, u64),
    /// Fail if anybody wakes later than this many ms, or does not report
    #[arg(long)]
    max_late_ms: Option<f64>,
    /// Seconds after the end within which a sleeper must report
    #[arg(long, default_value_t = 20)]
    grace_s: u64,
}

/// "MIN,MAX".
pub fn parse_range(text: &str) -> Result<(u64, u64)> {
    let (min, max) = text.split_once(',').context("give MIN,MAX")?;
    let (min, max) = (min.parse()?, max.parse()?);
    if min > max {
        bail!("{min} is more than {max}");
    }
    Ok((min, max))
}

/// Marsaglia's xorshift: repeatable, and that is all that is asked of it.
struct Random(u64);

impl Random {
    fn within(&mut self, (min, max): (u64, u64)) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        min + self.0 % (max - min + 1)
    }
}

pub fn run(options: &Options) -> Result<bool> {
    let cpus = options
        .cpus
        .as_deref()
        .map(sys::parse_cpus)
        .transpose()?
        .unwrap_or_default();
    let length_ns = (options.seconds * NS_PER_SEC as f64) as u64;
    let gate = Gate::new()?;
    let mut children = Vec::new();
    for i in 0..options.count + options.hogs {
        let job = || {
            sys::exact_timers();
            let pinned = sys::pin(&cpus);
            let end_ns = gate.wait()? + length_ns;
            pinned?;
            Ok(if i < options.count {
                sleeper(options, i, end_ns)
            } else {
                hog(end_ns)
            })
        };
        children.push(child::spawn(job)?);
    }
    let end_ns = gate.open(children.len(), 0)? + length_ns;
    sys::sleep_until(end_ns);
    let (mut lateness, mut silent, mut worst) = (Hist::new(), 0, (0, 0));
    for (i, child) in children.iter_mut().enumerate() {
        let deadline_ns = (end_ns + options.grace_s * NS_PER_SEC).max(monotonic_ns() + NS_PER_MS);
        let Some(report) = child.finish(deadline_ns)? else {
            println!(
                "silent={i} kind={}",
                if i < options.count { "sleeper" } else { "hog" }
            );
            silent += 1;
            continue;
        };
        let one =
            Hist::from_text(&report).with_context(|| format!("a sleeper's report: {report:?}"))?;
        if one.max() > worst.0 {
            worst = (one.max(), i);
        }
        lateness.add(&one);
    }
    println!(
        "sleepers={} hogs={} silent={silent} wakes={} late_p50_us={:.1} late_p99_us={:.1} late_max_us={:.1} worst_sleeper={}",
        options.count,
        options.hogs,
        lateness.total(),
        us(lateness.percentile(50.0)),
        us(lateness.percentile(99.0)),
        us(lateness.max()),
        worst.1
    );
    Ok(silent == 0
        && options
            .max_late_ms
            .is_none_or(|ms| lateness.max() as f64 <= ms * NS_PER_MS as f64))
}

fn sleeper(options: &Options, index: usize, end_ns: u64) -> String {
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ ((index as u64 + 1) << 20));
    let mut lateness = Hist::new();
    loop {
        let deadline_ns = monotonic_ns() + random.within(options.sleep_ms) * NS_PER_MS;
        // Not cut to the end: the whole crowd waking at one moment would be lateness of our own making.
        if deadline_ns >= end_ns {
            return lateness.to_text();
        }
        lateness.record(sys::sleep_until(deadline_ns));
        let cpu_end_ns = thread_cpu_ns() + random.within(options.run_us) * NS_PER_US;
        while thread_cpu_ns() < cpu_end_ns {}
    }
}

fn hog(end_ns: u64) -> String {
    while monotonic_ns() < end_ns {}
    Hist::new().to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(parse_range("1,50").unwrap(), (1, 50));
        assert!(parse_range("5,1").is_err() && parse_range("5").is_err());
        let mut random = Random(1);
        let values: Vec<u64> = (0..1000).map(|_| random.within((1, 50))).collect();
        assert_eq!(
            (values.iter().min(), values.iter().max()),
            (Some(&1), Some(&50))
        );
    }
}
