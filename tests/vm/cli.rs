// SPDX-License-Identifier: GPL-2.0-only
//! `vm run`: one shell command in a virtual machine, for trying things by hand and for `make demo`.
//!
//! The guest has the scheduler and the lab, when they are built, hackbench and stress-ng in /bin. What the command
//! prints is shown as it comes, and its exit code becomes ours; 125 says that the machine itself failed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::initramfs::find_program;
use crate::machine::Machine;
use crate::topology::Topology;

mod cores;
mod initramfs;
#[allow(dead_code, reason = "the tests use all of it")]
mod kernel;
#[allow(dead_code, reason = "the tests use all of it")]
mod machine;
#[allow(dead_code, reason = "the tests use all of it")]
mod outcome;
mod topology;

/// The machine failed, not the command; as timeout(1) and env(1) have it.
const EXIT_MACHINE: u8 = 125;

/// Boots kernels with chosen CPUs and NUMA nodes.
#[derive(Parser)]
#[command(name = "vm")]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run one shell command and exit with its code.
    Run(Run),
}

#[derive(Args)]
struct Run {
    /// Minor version; the newest that Debian has of it is taken.
    #[arg(long, default_value = "7.3")]
    kernel: String,

    /// t1 to t5, triangle, large, default, or cpus=8,nodes=2,sockets=2,threads=1,distance=21.
    #[arg(long, default_value = "default")]
    topology: Topology,

    /// Virtual time, one instruction a nanosecond: repeatable, for measurements.
    #[arg(long)]
    icount: bool,

    /// Memory of the guest.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory: usize,

    /// Real time until the machine is killed.
    #[arg(long, value_name = "SEC", default_value_t = 600)]
    timeout: u64,

    /// More words for the kernel's command line.
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        hide_default_value = true
    )]
    append: String,

    /// Leave /boot/config-RELEASE out.
    #[arg(long)]
    no_config: bool,

    /// Show the guest's kernel log on stderr in the end.
    #[arg(long)]
    dmesg: bool,

    /// More programs of the host for /bin of the guest.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,

    /// Files of the host: HOST=GUEST.
    #[arg(long, value_name = "HOST=GUEST", value_parser = parse_file)]
    file: Vec<(PathBuf, String)>,

    /// The command; several words are joined by spaces for the guest's shell.
    #[arg(last = true, required = true, value_name = "SHELL COMMAND")]
    job: Vec<String>,
}

fn parse_file(text: &str) -> Result<(PathBuf, String), String> {
    let (host, guest) = text.split_once('=').ok_or("want HOST=GUEST")?;
    Ok((host.into(), guest.to_owned()))
}

fn main() -> ExitCode {
    let Action::Run(run) = Cli::parse().command;
    match run_job(&run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::from(EXIT_MACHINE)
        }
    }
}

fn run_job(run: &Run) -> Result<u8> {
    let mut machine = Machine::new(&run.kernel)
        .topology(run.topology.clone())
        .icount(run.icount)
        .memory_mib(run.memory)
        .timeout(Duration::from_secs(run.timeout))
        .append(&run.append)
        .with_config(!run.no_config)
        .dmesg(run.dmesg)
        .echo(true);
    for host in usual_programs().iter().chain(&run.with) {
        machine = machine.program(host);
    }
    for (host, guest) in &run.file {
        machine = machine.file(host, guest);
    }
    let outcome = machine.run(&run.job.join(" "))?;
    eprint!("{}", outcome.dmesg);
    eprintln!(
        "vm: boot {:.1} s, job {:.1} s",
        outcome.boot.as_secs_f64(),
        (outcome.wall - outcome.boot).as_secs_f64()
    );
    Ok(u8::try_from(outcome.code)?)
}

fn usual_programs() -> Vec<PathBuf> {
    let release = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release");
    let built = ["scx_eevdfx", "examples/lab"]
        .map(|name| release.join(name))
        .into_iter()
        .filter(|file| file.exists());
    built
        .chain(
            ["hackbench", "stress-ng"]
                .into_iter()
                .flat_map(find_program),
        )
        .collect()
}
