// SPDX-License-Identifier: GPL-2.0-only
//! `lab burst`: short programs, started at once by fork and exec, that touch some memory and then only compute. How soon
//! all are done shows how well they were spread over the CPUs; how many left the node they began on, where their memory
//! is, what the spreading cost.
//!
//! A program runs for an amount of CPU time, not of work: under icount busy CPUs share the instructions, so that the same
//! work takes the same time however it is spread.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::hogs::spin;
use crate::nodes::Nodes;
use crate::sleepers::parse_range;
use crate::sys::{self, NS_PER_US, monotonic_ns, thread_cpu_ns};

#[derive(Args)]
pub struct Options {
    /// Programs started at once
    #[arg(long, default_value_t = 16)]
    programs: usize,
    /// Least and most CPU time of a program in ms; they are spread evenly between
    #[arg(long, value_name = "MIN,MAX", default_value = "50,100", value_parser = parse_range)]
    cpu_ms: (u64, u64),
    /// Memory that a program touches at its start and keeps reading, in KiB
    #[arg(long, default_value_t = 4096)]
    footprint_kib: usize,
    /// How often all of it; the mean counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Be one of the programs, for this much CPU time
    #[arg(long, hide = true)]
    program_us: Option<u64>,
}

/// Looks at the node between two looks at the CPU clock, which costs a system call.
const LOOKS_PER_CLOCK: usize = 16;

/// A program that was off its first node for more than this part of its time strayed.
const STRAYED: f64 = 0.1;

/// Where a program ran: the nodes it began and ended on, and how many of its looks at the node saw another than the first.
#[derive(Debug, PartialEq)]
struct Trace {
    first: usize,
    last: usize,
    looks: u64,
    off: u64,
}

impl Trace {
    fn strayed(&self) -> bool {
        self.last != self.first || self.off as f64 > STRAYED * self.looks as f64
    }

    fn to_text(&self) -> String {
        format!("{} {} {} {}", self.first, self.last, self.looks, self.off)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Trace {
            first: next()? as usize,
            last: next()? as usize,
            looks: next()?,
            off: next()?,
        })
    }
}

pub fn run(options: &Options) -> Result<()> {
    if let Some(us) = options.program_us {
        println!(
            "{}",
            program(us * NS_PER_US, options.footprint_kib).to_text()
        );
        return Ok(());
    }
    if options.programs == 0 || options.runs == 0 {
        bail!("nothing to run");
    }
    let (mut elapsed_ns, mut strayed) = (0, 0);
    for run in 0..options.runs {
        let (ns, traces) = start_all(options)?;
        let nr_strayed = traces.iter().filter(|trace| trace.strayed()).count();
        let mut began: Vec<usize> = vec![0; Nodes::here().nr()];
        for trace in &traces {
            if let Some(nr) = began.get_mut(trace.first) {
                *nr += 1;
            }
        }
        let began: Vec<String> = began.iter().map(usize::to_string).collect();
        println!(
            "run={run} elapsed_ms={:.3} strayed={nr_strayed} began={}",
            ns as f64 / 1e6,
            began.join("+")
        );
        elapsed_ns += ns;
        strayed += nr_strayed;
    }
    let runs = options.runs as f64;
    println!(
        "programs={} elapsed_ms={:.3} ideal_ms={:.3} strayed={:.2} stayed_pct={:.2}",
        options.programs,
        elapsed_ns as f64 / 1e6 / runs,
        ideal_us(options, sys::nr_cpus()) / 1e3,
        strayed as f64 / runs,
        100.0 - 100.0 * strayed as f64 / runs / options.programs as f64
    );
    Ok(())
}

fn program_us(options: &Options, index: usize) -> u64 {
    let (min, max) = options.cpu_ms;
    let steps = (options.programs - 1).max(1) as u64;
    min * 1000 + (max - min) * 1000 * index as u64 / steps
}

/// No schedule is shorter than the longest program, nor than everything spread evenly.
fn ideal_us(options: &Options, nr_cpus: usize) -> f64 {
    let all = || (0..options.programs).map(|index| program_us(options, index));
    let even = all().sum::<u64>() as f64 / nr_cpus as f64;
    even.max(all().max().unwrap_or(0) as f64)
}

/// Time until the last has ended, and where each ran.
fn start_all(options: &Options) -> Result<(u64, Vec<Trace>)> {
    let start_ns = monotonic_ns();
    let programs: Result<Vec<Child>> = (0..options.programs)
        .map(|index| start(options, program_us(options, index)))
        .collect();
    let mut traces = Vec::new();
    for program in programs? {
        let output = program
            .wait_with_output()
            .context("waiting for a program")?;
        let text = String::from_utf8_lossy(&output.stdout);
        traces.push(
            Trace::from_text(&text)
                .with_context(|| format!("a program's report: {text:?}, {}", output.status))?,
        );
    }
    Ok((monotonic_ns() - start_ns, traces))
}

fn start(options: &Options, us: u64) -> Result<Child> {
    let exe = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(exe);
    command
        .args(["burst", "--program-us", &us.to_string()])
        .args(["--footprint-kib", &options.footprint_kib.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    // SAFETY: between fork and exec only one system call.
    unsafe { command.pre_exec(|| sys::die_with_parent(libc::SIGKILL)) };
    command.spawn().context("starting a program")
}

fn program(cpu_ns: u64, footprint_kib: usize) -> Trace {
    let nodes = Nodes::here();
    let first = nodes.current();
    let memory = vec![1u8; footprint_kib.max(1) * 1024];
    let mut trace = Trace {
        first,
        last: first,
        looks: 0,
        off: 0,
    };
    let mut lines = memory.iter().step_by(64).cycle();
    while thread_cpu_ns() < cpu_ns {
        for _ in 0..LOOKS_PER_CLOCK {
            spin::work();
            std::hint::black_box(lines.next());
            trace.last = nodes.current();
            trace.looks += 1;
            trace.off += u64::from(trace.last != first);
        }
    }
    trace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_strays_for_long_or_at_its_end() {
        let trace = |last, off| Trace {
            first: 1,
            last,
            looks: 100,
            off,
        };
        assert!(!trace(1, 10).strayed());
        assert!(trace(1, 11).strayed() && trace(0, 1).strayed());
        assert_eq!(Trace::from_text(&trace(0, 5).to_text()), Some(trace(0, 5)));
        assert_eq!(Trace::from_text("1 2 3"), None);
    }

    #[test]
    fn programs_differ_and_the_ideal_is_a_bound() {
        let options = |programs| Options {
            programs,
            cpu_ms: (50, 100),
            footprint_kib: 4,
            runs: 1,
            program_us: None,
        };
        assert_eq!(program_us(&options(1), 0), 50_000);
        assert_eq!(program_us(&options(3), 1), 75_000);
        assert_eq!(program_us(&options(3), 2), 100_000);
        assert_eq!(ideal_us(&options(3), 8), 100_000.0);
        assert_eq!(ideal_us(&options(3), 1), 225_000.0);
    }

    #[test]
    fn a_program_ends_and_saw_a_node() {
        // What this thread has used already counts.
        let trace = program(thread_cpu_ns() + 2000 * NS_PER_US, 64);
        assert!(trace.looks > 0 && trace.off <= trace.looks);
    }
}
