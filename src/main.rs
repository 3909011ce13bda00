// SPDX-License-Identifier: GPL-2.0-only
//! Parses the command line, runs what it asks for and turns the outcome into an exit code.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use scx_eevdfx::cli::{Action, Cli};
use scx_eevdfx::signals::Stop;
use scx_eevdfx::topology::Topology;
use scx_eevdfx::topology::report::Report;
use scx_eevdfx::{logging, scheduler};

fn main() -> ExitCode {
    logging::catch_panics();
    let cli = Cli::parse();
    logging::init(cli.options.verbose);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::fatal(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match cli.action {
        None => scheduler::run(&cli.options, &Stop::install()?),
        Some(Action::Topology { json }) => {
            Report::new(&Topology::read(Path::new("/"))?).print(json)
        }
    }
}
