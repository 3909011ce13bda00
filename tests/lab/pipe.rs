// SPDX-License-Identifier: GPL-2.0-only
//! `lab pipe`: one byte to and fro between two processes; every round is two wakeups and two switches.

use std::fs::File;
use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Gate};
use crate::sys::{self, NS_PER_SEC, monotonic_ns};

/// Clock reads are not free: look at the clock only every so many rounds.
const ROUNDS_PER_LOOK: u64 = 16;

#[derive(Args)]
pub struct Options {
    /// Pin the two sides: "A,B" (two CPUs, or twice the same) or "A" for both [default: not pinned]
    #[arg(long, value_name = "A,B")]
    cpus: Option<String>,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Stop after this many round trips instead
    #[arg(long)]
    rounds: Option<u64>,
    /// Pairs that play at the same time, all pinned alike
    #[arg(long, default_value_t = 1)]
    pairs: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let cpus = match options
        .cpus
        .as_deref()
        .map(sys::parse_cpus)
        .transpose()?
        .as_deref()
    {
        None => None,
        Some(&[both]) => Some((both, both)),
        Some(&[a, b]) => Some((a, b)),
        Some(_) => bail!("--cpus takes one or two CPUs"),
    };
    let length_ns = match options.rounds {
        Some(_) => u64::MAX / 2,
        None => (options.seconds * NS_PER_SEC as f64) as u64,
    };
    let gate = Gate::new()?;
    let mut children = Vec::new();
    for _ in 0..options.pairs {
        let (ping, pong) = (sys::pipe()?, sys::pipe()?);
        let first = || {
            lead(
                &gate,
                cpus.map(|(a, _)| a),
                (&pong.0, &ping.1),
                length_ns,
                options.rounds,
            )
        };
        children.push(child::spawn(first)?);
        let second = || follow(&gate, cpus.map(|(_, b)| b), (&ping.0, &pong.1));
        children.push(child::spawn(second)?);
    }
    let start_ns = gate.open(children.len(), 0)?;
    let (mut rounds, mut sum_ns) = (0.0, 0.0);
    for (pair, sides) in children.chunks_mut(2).enumerate() {
        let deadline_ns = start_ns
            .saturating_add(length_ns)
            .saturating_add(20 * NS_PER_SEC);
        let report = sides[0]
            .finish(deadline_ns)?
            .context("a pair did not finish")?;
        let (nr, ns) = report.split_once(' ').context("a pair's report")?;
        let (nr, ns): (f64, f64) = (nr.parse()?, ns.parse()?);
        println!("pair={pair} rounds={nr} ns_per_round_trip={:.1}", ns / nr);
        rounds += nr;
        sum_ns += ns / nr;
    }
    println!(
        "pairs={} rounds={rounds} ns_per_round_trip={:.1}",
        options.pairs,
        sum_ns / options.pairs as f64
    );
    Ok(())
}

fn lead(
    gate: &Gate,
    cpu: Option<usize>,
    (mut from, mut to): (&File, &File),
    length_ns: u64,
    rounds: Option<u64>,
) -> Result<String> {
    let pinned = sys::pin(cpu.as_slice());
    gate.wait()?;
    pinned?;
    let mut byte = [0];
    let mut round = || -> Result<()> {
        to.write_all(&[1])?;
        from.read_exact(&mut byte)?;
        Ok(())
    };
    // The first round waits for the other side to come up.
    round()?;
    let start_ns = monotonic_ns();
    let end_ns = start_ns.saturating_add(length_ns);
    let most = rounds.unwrap_or(u64::MAX).max(1);
    let mut done = 0;
    while done < most && (done % ROUNDS_PER_LOOK != 0 || monotonic_ns() < end_ns) {
        round()?;
        done += 1;
    }
    let ns = monotonic_ns() - start_ns;
    to.write_all(&[0])?;
    Ok(format!("{done} {ns}"))
}

fn follow(gate: &Gate, cpu: Option<usize>, (mut from, mut to): (&File, &File)) -> Result<String> {
    let pinned = sys::pin(cpu.as_slice());
    gate.wait()?;
    pinned?;
    let mut byte = [0];
    loop {
        from.read_exact(&mut byte)?;
        if byte[0] == 0 {
            return Ok(String::new());
        }
        to.write_all(&byte)?;
    }
}
