// SPDX-License-Identifier: GPL-2.0-only
//! `lab demo`: the same loads under the in-kernel scheduler, under sched_ext schedulers one after the other, and
//! under the in-kernel scheduler again, in one boot; one table.
//!
//! The in-kernel arm stands at both ends so that a machine that changed meanwhile shows. Every arm is proved:
//! the state and the name in sysfs before and after each cell. One run per cell is no statistics; `scx_eevdfx
//! ab` is for that.

mod cells;
mod machine;
mod row;
mod sched_ext;
mod table;
mod tool;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::sys::{self, NS_PER_SEC, monotonic_ns};
use cells::{Cell, Lengths, Metric};
use machine::Machine;
use row::{Column, Row};
use sched_ext::{Arm, Running, SchedExt};

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
    problems: Vec<String>,
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
    Ok(measured.iter().all(|arm| arm.problems.is_empty()))
}

/// In-kernel first, the schedulers, in-kernel last.
fn arms(options: &Options) -> Vec<Arm> {
    let mut arms = vec![Arm::kernel("in-kernel first")];
    if let Some(path) = &options.scheduler {
        let mut command = vec![path.clone()];
        command.extend(options.args.split_whitespace().map(String::from));
        arms.push(Arm {
            ops_prefix: sched_ext::OURS.into(),
            ..Arm::new("scx_eevdfx", command)
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

/// A cell that fails, or that ended under another scheduler, has no values, and the next one a fresh start; who does not
/// start has none at all. Being interrupted ends everything.
fn measure_arm(options: &Options, sched_ext: &SchedExt, arm: Arm, exe: &str) -> Result<Measured> {
    let mut measured = Measured {
        arm,
        ops: String::new(),
        values: Vec::new(),
        problems: Vec::new(),
    };
    let is_kernel = measured.arm.command.is_empty();
    if is_kernel {
        measured.note(cells::warm_up(&options.cells, exe));
    }
    let mut running = None;
    for &cell in &options.cells {
        if !is_kernel && running.is_none() {
            running = measured.note(start_warm(options, sched_ext, &measured.arm, exe));
            let Some(running) = &running else {
                break;
            };
            measured.ops.clone_from(&running.ops);
        }
        let outcome = measure_cell(options, sched_ext, running.as_mut(), cell, exe);
        tool::check_interrupted()?;
        match measured.note(outcome) {
            Some(values) => measured.add(cell, values),
            None => {
                running = None;
                measured.add(cell, Vec::new());
            }
        }
    }
    tool::check_interrupted()?;
    if let Some(running) = running {
        measured.note(running.stop());
    }
    measured.values.resize(metrics(&options.cells).len(), None);
    Ok(measured)
}

fn start_warm<'a>(
    options: &Options,
    sched_ext: &'a SchedExt,
    arm: &Arm,
    exe: &str,
) -> Result<Running<'a>> {
    let running = sched_ext::start(sched_ext, arm)?;
    cells::warm_up(&options.cells, exe)?;
    Ok(running)
}

/// Without a scheduler the kernel's own must be in charge, before and after.
fn measure_cell(
    options: &Options,
    sched_ext: &SchedExt,
    running: Option<&mut Running>,
    cell: Cell,
    exe: &str,
) -> Result<Vec<f64>> {
    if running.is_none() {
        sched_ext.expect_disabled()?;
    }
    let values = cell.measure(&options.lengths, exe);
    match running {
        Some(running) => running.expect_in_charge()?,
        None => sched_ext.expect_disabled()?,
    }
    values.with_context(|| format!("{cell:?}"))
}

impl Measured {
    /// The value, or none and the error noted.
    fn note<T>(&mut self, outcome: Result<T>) -> Option<T> {
        outcome
            .map_err(|err| {
                eprintln!("lab: {}: {err:#}", self.arm.name);
                self.problems.push(format!("{err:#}"));
            })
            .ok()
    }

    /// Also told at once, so that little is lost if the run ends early.
    fn add(&mut self, cell: Cell, values: Vec<f64>) {
        for (i, metric) in cell.metrics().iter().enumerate() {
            let value = values.get(i).copied().filter(|value| value.is_finite());
            if let Some(value) = value {
                eprintln!("lab: {}: {}={value}", self.arm.name, metric.key);
            }
            self.values.push(value);
        }
    }
}

fn metrics(cells: &[Cell]) -> Vec<Metric> {
    cells.iter().flat_map(|cell| cell.metrics()).collect()
}

fn report(options: &Options, measured: &[Measured]) -> Result<()> {
    let metrics = metrics(&options.cells);
    let [first, others @ .., last] = measured else {
        bail!("no in-kernel arms")
    };
    let columns: Vec<Column> = others
        .iter()
        .map(|Measured { arm, .. }| Column {
            name: arm.name.clone(),
            ours: arm.is_ours(),
        })
        .collect();
    let rows: Vec<Row> = metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| Row {
            metric,
            columns: &columns,
            first: first.values[i],
            last: last.values[i],
            others: others.iter().map(|arm| arm.values[i]).collect(),
        })
        .collect();
    let machine = Machine::here();
    print!("{}", table::table(&rows, &columns));
    print!("\n{}", table::losses(&rows, &columns));
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
        "Loads by {tool}; one run per cell in one boot, ratios are to the mean of the two in-kernel arms,\n\
         first and last, whose distance is the spread; same: within their range, 2 % wider; noisy: a spread above 10 %;\n\
         *: the best of all; LOST: ours is behind the best of the kernel and the others by more than the spread.\n"
    );
    if let Some(note) = &options.note {
        text += &format!("{note}\n");
    }
    for Measured { arm, problems, .. } in measured {
        for problem in problems {
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
                 arm, ops, problems, ..
             }| {
                format!(
                    "{{\"name\": {}, \"command\": {}, \"ops\": {}, \"problems\": [{}]}}",
                    table::quote(&arm.name),
                    table::quote(&arm.command.join(" ")),
                    table::quote(ops),
                    problems
                        .iter()
                        .map(|text| table::quote(text))
                        .collect::<Vec<_>>()
                        .join(", ")
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
