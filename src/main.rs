// SPDX-License-Identifier: GPL-2.0-only
//! Parses the command line, runs the scheduler and turns the outcome into an exit code.

use std::process::ExitCode;

use clap::Parser;
use scx_eevdfx::cli::Cli;
use scx_eevdfx::signals::Stop;
use scx_eevdfx::{logging, scheduler};

fn main() -> ExitCode {
    logging::catch_panics();
    let cli = Cli::parse();
    logging::init(cli.verbose);
    match Stop::install().and_then(|stop| scheduler::run(&cli, &stop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logging::fatal(&error);
            ExitCode::FAILURE
        }
    }
}
