// SPDX-License-Identifier: GPL-2.0-only
//! Workloads that show what a scheduler does, and `demo`, which runs them under one scheduler after the other.
//!
//! Every subcommand prints `key=value` pairs on stdout, the unit being the last part of the key. Nothing here
//! knows sched_ext except `demo`: the workloads run on any Linux, so that they can be tried without a guest.
//! Exit code 0: measured; 1: failed, or a bound that was asked for (`--expect-share`, `--max-late-ms`) was
//! broken; 2: usage.

mod burst;
mod child;
mod demo;
mod forks;
mod hogs;
mod newborn;
mod nodes;
mod nomigrate;
mod pipe;
mod request;
mod schbench;
mod sleepers;
mod spill;
mod stats;
mod sys;
mod yields;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Scheduler workloads; results are key=value pairs on stdout
#[derive(Parser)]
#[command(name = "lab")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Wakeup and request latency of workers woken by messengers (what schbench measures)
    Request(request::Options),
    /// Busy and bursty processes: shares, windows, lengths of uninterrupted runs
    Hogs(hogs::Options),
    /// Round trips of one byte between two processes
    Pipe(pipe::Options),
    /// Threads on one CPU that do nothing but yield it to each other: what a switch costs
    Yield(yields::Options),
    /// Processes forked beside busy ones: how soon they run, and how long at first
    Newborn(newborn::Options),
    /// Many processes that sleep and run a little: how late the worst wakes
    Sleepers(sleepers::Options),
    /// Short programs started at once: how soon all are done, and how many left their first node
    Burst(burst::Options),
    /// Tasks whose node hogs crowd for a while: how soon they are back home
    Spill(spill::Options),
    /// Processes that fork without pause, up to a limit on their number and on
    Forks(forks::Options),
    /// No load: makes everybody's migration be disabled for moments, and counts the switches then
    Nomigrate(nomigrate::Options),
    /// In-kernel scheduler, sched_ext schedulers, in-kernel again: one table
    Demo(demo::Options),
}

fn main() -> ExitCode {
    let passed = match Cli::parse().command {
        Command::Request(options) => request::run(&options).map(|()| true),
        Command::Hogs(options) => hogs::run(&options),
        Command::Pipe(options) => pipe::run(&options).map(|()| true),
        Command::Yield(options) => yields::run(&options).map(|()| true),
        Command::Newborn(options) => newborn::run(&options).map(|()| true),
        Command::Sleepers(options) => sleepers::run(&options),
        Command::Burst(options) => burst::run(&options).map(|()| true),
        Command::Spill(options) => spill::run(&options).map(|()| true),
        Command::Forks(options) => forks::run(&options),
        Command::Nomigrate(options) => nomigrate::run(&options).map(|()| true),
        Command::Demo(options) => demo::run(&options),
    };
    match passed {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("lab: {err:#}");
            ExitCode::FAILURE
        }
    }
}
