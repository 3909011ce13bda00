// SPDX-License-Identifier: GPL-2.0-only
//! `lab demo`: the same loads under the in-kernel scheduler, under sched_ext schedulers one after the other, and
//! under the in-kernel scheduler again, in one boot; one table.
//!
//! The in-kernel arm stands at both ends so that a machine that changed meanwhile shows. Every arm is proved:
//! the state and the name in sysfs before and after each cell. One run per cell is no statistics; `scx_eevdfx
//! ab` is for that.

mod cells;
mod machine;
mod sched_ext;
mod table;
mod tool;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sys::{self, NS_PER_SEC, monotonic_ns};
use cells::{Cell, Lengths, Metric};
use machine::Machine;
use sched_ext::{Arm, SchedExt};
use table::Row;

#[derive(Args)]
pub struct Options {
    /// Our scheduler; its ops name must start with "eevdfx"
    #[arg(long, value_name = "PATH")]
    scheduler: Option<String>,
    /// Options of our scheduler, split at blanks
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    args: String,
    /// Another scheduler to measure beside it, the line split at blanks (repeatable)
    #[arg(long = "arm", value_name = "NAME=COMMAND LINE", value_parser = Arm::parse)]
    arms: Vec<Arm>,
    /// What to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "hackbench,full,over,pipe"
    )]
    cells: Vec<Cell>,
    #[command(flatten)]
    lengths: Lengths,
    /// Seconds to wait at first for the machine to become quiet: 10 in a fresh guest, 2 elsewhere
    #[arg(long, default_value_t = 10.0)]
    settle_seconds: f64,
    /// A sentence for the foot of the table, such as what time means here
    #[arg(long)]
    note: Option<String>,
    /// Also write the result to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the kernel shows sched_ext; another place is for trying the demo without it
    #[arg(long, hide = true, default_value = "/sys/kernel/sched_ext")]
    sched_ext_dir: PathBuf,
}

/// What an arm yielded: the values of all metrics in order, and what went wrong.
struct Measured {
    arm: Arm,
    ops: String,
    values: Vec<Option<f64>>,
    problem: Option<String>,
}

pub fn run(options: &Options) -> Result<bool> {
    let exe = cells::check_programs(&options.cells)?;
    let sched_ext = SchedExt::new(&options.sched_ext_dir);
    let arms = arms(options);
    if arms.iter().any(|arm| !arm.command.is_empty()) {
        if !sched_ext.present() {
            bail!(
                "this kernel has no sched_ext ({}/state is missing)",
                options.sched_ext_dir.display()
            );
        }
        if !sys::is_root() {
            bail!("loading a scheduler needs root");
        }
    }
    tool::catch_interrupts()?;
    eprintln!(
        "lab: waiting {} s for a quiet machine",
        options.settle_seconds
    );
    settle(options.settle_seconds)?;
    let mut measured = Vec::new();
    for arm in arms {
        eprintln!("lab: {}", arm.name);
        measured.push(measure_arm(options, &sched_ext, arm, &exe)?);
    }
    report(options, &measured)?;
    Ok(measured.iter().all(|arm| arm.problem.is_none()))
}

/// In-kernel first, the schedulers, in-kernel last.
fn arms(options: &Options) -> Vec<Arm> {
    let mut arms = vec![Arm::kernel("in-kernel first")];
    if let Some(path) = &options.scheduler {
        let mut command = vec![path.clone()];
        command.extend(options.args.split_whitespace().map(String::from));
        arms.push(Arm {
            name: "scx_eevdfx".into(),
            command,
            ops_prefix: "eevdfx".into(),
        });
    }
    arms.extend(options.arms.iter().cloned());
    arms.push(Arm::kernel("in-kernel last"));
    arms
}

/// Sleeps in small steps, so that Ctrl-C is seen.
fn settle(seconds: f64) -> Result<()> {
    let end_ns = monotonic_ns() + (seconds * NS_PER_SEC as f64) as u64;
    while monotonic_ns() < end_ns {
        tool::check_interrupted()?;
        sys::sleep_until(end_ns.min(monotonic_ns() + NS_PER_SEC / 4));
    }
    Ok(())
}

/// A scheduler that fails costs its own column only; being interrupted ends everything.
fn measure_arm(options: &Options, sched_ext: &SchedExt, arm: Arm, exe: &str) -> Result<Measured> {
    let mut values = Vec::new();
    let mut ops = String::new();
    let outcome = fill(options, sched_ext, &arm, exe, &mut values, &mut ops);
    tool::check_interrupted()?;
    let problem = outcome.err().map(|err| format!("{err:#}"));
    if let Some(problem) = &problem {
        eprintln!("lab: {}: {problem}", arm.name);
    }
    values.resize(metrics(&options.cells).len(), None);
    Ok(Measured {
        arm,
        ops,
        values,
        problem,
    })
}

fn fill(
    options: &Options,
    sched_ext: &SchedExt,
    arm: &Arm,
    exe: &str,
    values: &mut Vec<Option<f64>>,
    ops: &mut String,
) -> Result<()> {
    if arm.command.is_empty() {
        sched_ext.expect_disabled()?;
        cells::warm_up(&options.cells, exe)?;
        for cell in &options.cells {
            values.extend(cell.measure(&options.lengths, exe)?.into_iter().map(Some));
            sched_ext.expect_disabled()?;
        }
        return Ok(());
    }
    let mut running = sched_ext::start(sched_ext, arm)?;
    ops.clone_from(&running.ops);
    cells::warm_up(&options.cells, exe)?;
    for cell in &options.cells {
        let cell_values = cell.measure(&options.lengths, exe)?;
        // A cell that ended under another scheduler is not this one's.
        running.expect_in_charge()?;
        values.extend(cell_values.into_iter().map(Some));
    }
    running.stop()
}

fn metrics(cells: &[Cell]) -> Vec<Metric> {
    cells.iter().flat_map(|cell| cell.metrics()).collect()
}

fn report(options: &Options, measured: &[Measured]) -> Result<()> {
    let metrics = metrics(&options.cells);
    let [first, others @ .., last] = measured else {
        bail!("no in-kernel arms")
    };
    let rows: Vec<Row> = metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| Row {
            metric,
            first: first.values[i],
            last: last.values[i],
            others: others.iter().map(|arm| arm.values[i]).collect(),
        })
        .collect();
    let names: Vec<String> = others.iter().map(|arm| arm.arm.name.clone()).collect();
    let machine = Machine::here();
    print!("{}", table::table(&rows, &names));
    print!("{}", foot(options, &machine, measured));
    if let Some(path) = &options.json {
        let text = json(options, &machine, others, &rows);
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn foot(options: &Options, machine: &Machine, measured: &[Measured]) -> String {
    let Machine {
        kernel,
        cpus,
        nodes,
        hz,
    } = machine;
    let mut text = format!("\nkernel {kernel}, {cpus} CPUs, {nodes} node(s), HZ {hz}\n");
    for Measured { arm, ops, .. } in measured.iter().filter(|m| !m.arm.command.is_empty()) {
        text += &format!("{}: {} (ops {ops})\n", arm.name, arm.command.join(" "));
    }
    let tool = match sys::find_program("schbench") {
        Some(_) if !options.lengths.own => "schbench",
        _ => "lab request, which measures as schbench does",
    };
    text += &format!(
        "Loads by {tool}; one run per cell in one boot, ratios are to the mean of the two in-kernel arms;\n"
    );
    text +=
        "same: within the range of those two, 2 % wider; noisy: they differ by more than 10 %.\n";
    if let Some(note) = &options.note {
        text += &format!("{note}\n");
    }
    for Measured { arm, problem, .. } in measured {
        if let Some(problem) = problem {
            text += &format!("FAILED {}: {problem}\n", arm.name);
        }
    }
    text
}

fn json(options: &Options, machine: &Machine, others: &[Measured], rows: &[Row]) -> String {
    let arms: Vec<String> = others
        .iter()
        .map(
            |Measured {
                 arm, ops, problem, ..
             }| {
                format!(
                    "{{\"name\": {}, \"command\": {}, \"ops\": {}, \"problem\": {}}}",
                    table::quote(&arm.name),
                    table::quote(&arm.command.join(" ")),
                    table::quote(ops),
                    problem.as_deref().map_or("null".into(), table::quote)
                )
            },
        )
        .collect();
    format!(
        "{{\n  \"kernel\": {}, \"cpus\": {}, \"nodes\": {}, \"hz\": {}, \"note\": {},\n  \"arms\": [{}],\n  \"rows\": {}\n}}\n",
        table::quote(&machine.kernel),
        machine.cpus,
        machine.nodes,
        table::quote(&machine.hz),
        options.note.as_deref().map_or("null".into(), table::quote),
        arms.join(", "),
        table::json(rows)
    )
}
