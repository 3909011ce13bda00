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
    /// Pin the two sides: "A,B" (two CPUs, or twice the same) or "A" for both; repeatable, each place has its own pairs
    /// [default: not pinned]
    #[arg(long, value_name = "A,B", value_parser = parse_place)]
    cpus: Vec<Place>,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Stop after this many round trips instead
    #[arg(long)]
    rounds: Option<u64>,
    /// Pairs at each place; all play at the same time
    #[arg(long, default_value_t = 1)]
    pairs: usize,
}

/// CPUs of the two sides.
type Place = (usize, usize);

fn parse_place(text: &str) -> Result<Place> {
    match sys::parse_cpus(text)?[..] {
        [both] => Ok((both, both)),
        [a, b] => Ok((a, b)),
        _ => bail!("one or two CPUs"),
    }
}

/// Where each pair is pinned to.
fn places(options: &Options) -> Vec<Option<Place>> {
    let places: Vec<Option<Place>> = match options.cpus.is_empty() {
        true => vec![None],
        false => options.cpus.iter().copied().map(Some).collect(),
    };
    places.repeat(options.pairs)
}

pub fn run(options: &Options) -> Result<()> {
    let places = places(options);
    let length_ns = match options.rounds {
        Some(_) => u64::MAX / 2,
        None => (options.seconds * NS_PER_SEC as f64) as u64,
    };
    let gate = Gate::new()?;
    let mut children = Vec::new();
    for &cpus in &places {
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
    let (mut rounds, mut sum_ns, mut worst_ns) = (0.0, 0.0, 0.0_f64);
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
        worst_ns = worst_ns.max(ns / nr);
    }
    println!(
        "pairs={} rounds={rounds} worst_ns_per_round_trip={worst_ns:.1} ns_per_round_trip={:.1}",
        places.len(),
        sum_ns / places.len() as f64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_its_pairs() {
        let options = |cpus: &[&str], pairs| Options {
            cpus: cpus.iter().map(|text| parse_place(text).unwrap()).collect(),
            seconds: 1.0,
            rounds: None,
            pairs,
        };
        assert_eq!(places(&options(&[], 2)), [None, None]);
        let two = [Some((1, 1)), Some((2, 3))];
        assert_eq!(places(&options(&["1", "2,3"], 2)), [two, two].concat());
        assert!(parse_place("1,2,3").is_err());
    }
}
