// SPDX-License-Identifier: GPL-2.0-only
//! Runs the real schbench in place of our own load and reads the report it writes to stderr.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::request::{Options, Summary};
use crate::sys;

pub fn run(path: &Path, options: &Options) -> Result<Summary> {
    let output = command(path, options)
        .output()
        .with_context(|| format!("running {}", path.display()))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} failed ({}): {report}", path.display(), output.status);
    }
    parse(&report).with_context(|| format!("no result in what {} wrote: {report}", path.display()))
}

fn command(path: &Path, options: &Options) -> Command {
    let mut command = Command::new(path);
    let mut flag = |name: &str, value: String| {
        command.arg(name).arg(value);
    };
    flag("-m", options.messengers.to_string());
    flag("-F", options.footprint_kib.to_string());
    flag("-n", options.operations.to_string());
    // Whole seconds only.
    flag("-r", (options.runtime_s.ceil() as u64).to_string());
    if options.warmup_s > 0.0 {
        flag("-w", (options.warmup_s.ceil() as u64).to_string());
    }
    if let Some(workers) = options.workers {
        flag("-t", workers.to_string());
    }
    // Version 1.0 has no -s; its sleep is the default.
    if options.sleep_us != 100 {
        flag("-s", options.sleep_us.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let batch = options.batch;
    // SAFETY: between fork and exec only system calls; nothing allocates unless one of them fails.
    unsafe {
        command.pre_exec(move || {
            if batch && sys::set_sched(libc::SCHED_BATCH, 0, 0).is_err() {
                return Err(std::io::Error::last_os_error());
            }
            sys::die_with_parent(libc::SIGKILL)
        })
    };
    command
}

/// One of schbench's blocks: a head line, "NN.Nth: value (...)" lines, "min=, max=".
#[derive(Default, Clone)]
struct Block {
    samples: u64,
    percentiles: Vec<(f64, f64)>,
    max: f64,
}

impl Block {
    fn points(&self) -> Option<[f64; 4]> {
        let at = |percent: f64| {
            self.percentiles
                .iter()
                .find(|(p, _)| *p == percent)
                .map(|(_, value)| *value)
        };
        Some([at(50.0)?, at(90.0)?, at(99.0)?, self.max])
    }
}

/// The last block of each kind counts: earlier ones are reports under way.
pub fn parse(report: &str) -> Option<Summary> {
    let (mut wakeup, mut request, mut rps) = (None, None, None);
    let mut block: Option<&mut Block> = None;
    for line in report.lines().map(str::trim) {
        if line.contains(" percentiles (") {
            let kind = if line.starts_with("Wakeup") {
                &mut wakeup
            } else if line.starts_with("Request") {
                &mut request
            } else {
                &mut rps
            };
            block = Some(kind.insert(Block {
                samples: samples(line).unwrap_or(0),
                ..Block::default()
            }));
            continue;
        }
        let Some(block) = block.as_deref_mut() else {
            continue;
        };
        if let Some((percent, rest)) = line.trim_start_matches('*').trim_start().split_once("th:") {
            block.percentiles.push((
                percent.parse().ok()?,
                rest.split_whitespace().next()?.parse().ok()?,
            ));
        } else if let Some((_, max)) = line.split_once("max=") {
            block.max = max.parse().ok()?;
        }
    }
    let average = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("average rps:"));
    let (wakeup, request): (Block, Block) = (wakeup?, request?);
    Some(Summary {
        tool: "schbench",
        wakeup_us: wakeup.points()?,
        request_us: request.points()?,
        rps: average?.trim().parse().ok()?,
        requests: request.samples,
        home_pct: f64::NAN,
    })
}

/// N of "(N total samples)".
fn samples(line: &str) -> Option<u64> {
    line.split_once(" total samples")
        .and_then(|(head, _)| head.rsplit('(').next())
        .and_then(|nr| nr.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "setting worker threads to 4\n\
        Wakeup Latencies percentiles (usec) runtime 2 (s) (9 total samples)\n\
        \t  50.0th: 1          (5 samples)\n\t  min=1, max=2\n\
        Wakeup Latencies percentiles (usec) runtime 3 (s) (905 total samples)\n\
        \t  50.0th: 78         (453 samples)\n\t  90.0th: 700        (300 samples)\n\
        \t* 99.0th: 1522       (90 samples)\n\t  99.9th: 3000       (9 samples)\n\t  min=1, max=4025\n\
        Request Latencies percentiles (usec) runtime 3 (s) (936 total samples)\n\
        \t  50.0th: 23200      (453 samples)\n\t  90.0th: 30000      (300 samples)\n\
        \t* 99.0th: 47700      (90 samples)\n\t  99.9th: 50000      (9 samples)\n\t  min=11000, max=51111\n\
        RPS percentiles (requests) runtime 3 (s) (4 total samples)\n\
        \t  20.0th: 310        (1 samples)\n\t* 50.0th: 312        (1 samples)\n\
        \t  90.0th: 313        (1 samples)\n\t  min=310, max=313\naverage rps: 312.33\n\
        sched delay: message 12 (usec) worker 100 (usec)\n";

    #[test]
    fn the_last_blocks_count() {
        let summary = parse(REPORT).unwrap();
        assert_eq!(summary.wakeup_us, [78.0, 700.0, 1522.0, 4025.0]);
        assert_eq!(summary.request_us, [23200.0, 30000.0, 47700.0, 51111.0]);
        assert_eq!((summary.rps, summary.requests), (312.33, 936));
    }

    #[test]
    fn half_a_report_is_none() {
        assert!(parse(&REPORT[..600]).is_none());
        assert!(parse("").is_none());
    }
}
