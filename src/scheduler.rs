// SPDX-License-Identifier: GPL-2.0-only
//! Decides the life of the scheduler: open, configure, load, attach, run, detach, and start again
//! when the kernel asks for it (after CPU hotplug), with the knobs as they were.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, bail};
use log::{Level, debug, info, log_enabled, warn};

use crate::bpf::{self, Loaded, OpenOptions, Opened, Storage};
use crate::cli::Options;
use crate::exit::Exit;
use crate::knobs::Knobs;
use crate::logging;
use crate::preflight;
use crate::signals::Stop;
use crate::stats::Printer;
use crate::topology::Topology;

/// How often the end of the scheduler in the kernel is looked for; signals are noticed at once.
const POLL: Duration = Duration::from_millis(250);
/// How long the kernel may take to tell how the scheduler ended after it was detached.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// More restarts than this within [`RESTART_WINDOW`] are slowed down.
const FREE_RESTARTS: usize = 5;
const RESTART_WINDOW: Duration = Duration::from_secs(60);
/// The kernel asks for a restart when a CPU came or went and never else, so each is due. The pause
/// only bounds what a long row of them costs, and lets what happens meanwhile count as one; it is
/// short because we are detached for as long.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why a round ended, other than by an error.
enum End {
    Stopped,
    Restart(Exit),
}

/// Runs the scheduler until it is told to stop.
///
/// # Errors
/// Fails when it cannot start, and when the kernel ejects it.
pub fn run(options: &Options, stop: &Stop) -> Result<()> {
    preflight::check(Path::new("/"))?;
    let mut printer = options.stats.map(Printer::new).transpose()?;
    let mut knobs = None;
    let mut brake = Brake::default();
    loop {
        match round(options, stop, &mut knobs, printer.as_mut())? {
            End::Stopped => return Ok(()),
            End::Restart(exit) => info!("restarting: {exit}"),
        }
        let pause = brake.restart(Instant::now());
        if !pause.is_zero() {
            warn!(
                "more than {FREE_RESTARTS} restarts within {} s: waiting {} s",
                RESTART_WINDOW.as_secs(),
                pause.as_secs()
            );
        }
        if stop.wait(pause) || wait_until_free(stop)? {
            return Ok(());
        }
    }
}

/// One life of the scheduler. `knobs` is none the first time and keeps the values afterwards.
fn round(
    options: &Options,
    stop: &Stop,
    knobs: &mut Option<Knobs>,
    mut printer: Option<&mut Printer>,
) -> Result<End> {
    let mut storage = Storage::uninit();
    let open_options = OpenOptions::new(&options.libbpf)?;
    logging::forget_libbpf_warnings();
    let mut opened = Opened::new(&mut storage, &open_options).map_err(explain_load_failure)?;
    let topology = Topology::read(Path::new("/"))?;
    let defaults = Knobs::defaults(topology.nr_online);
    let is_first = knobs.is_none();
    let knobs = match knobs {
        Some(knobs) => knobs,
        None => knobs.insert(options.knobs(Path::new("/"), defaults)?),
    };
    let tick_ns = bpf::tick_ns()?;
    opened.configure(&topology, knobs, tick_ns, options.exit_dump_len)?;
    if is_first {
        report_start(tick_ns, knobs, &defaults, &topology);
    }
    info!(
        "CPUs {}, LLCs {}, nodes {}",
        topology.nr_online,
        topology.nr_llcs,
        topology.nodes.len()
    );
    let mut scheduler = opened.load().map_err(explain_load_failure)?;
    report_verifier(&scheduler);
    if stop.asked() {
        return Ok(End::Stopped);
    }
    scheduler.attach().map_err(explain_attach_failure)?;
    if scheduler.exit().is_none() {
        info!("attached");
    }
    if let Some(printer) = printer.as_deref_mut() {
        printer.begin();
    }
    watch(&scheduler, stop, printer);
    finish(scheduler)
}

/// Returns when a signal has come or the scheduler has ended in the kernel.
fn watch(scheduler: &Loaded<'_>, stop: &Stop, mut printer: Option<&mut Printer>) {
    while scheduler.exit().is_none() {
        let due_in = printer.as_ref().and_then(|printer| printer.due_in());
        if stop.wait(due_in.unwrap_or(POLL).min(POLL)) {
            return;
        }
        if let Some(printer) = printer.as_deref_mut() {
            printer.tick(|| scheduler.counters());
        }
    }
}

/// Detaches, and judges how the scheduler ended.
fn finish(mut scheduler: Loaded<'_>) -> Result<End> {
    scheduler.detach();
    let deadline = Instant::now() + EXIT_TIMEOUT;
    let exit = loop {
        match scheduler.exit() {
            Some(exit) => break exit,
            None if Instant::now() > deadline => {
                bail!("detached, but the kernel did not tell how it ended")
            }
            None => thread::sleep(Duration::from_millis(10)),
        }
    };
    if exit.wants_restart() {
        return Ok(End::Restart(exit));
    }
    if exit.was_asked_for() {
        info!("detached: {exit}");
        return Ok(End::Stopped);
    }
    if !exit.dump.is_empty() {
        eprintln!(
            "\nDEBUG DUMP\n{0}\n\n{1}\n{0}\n",
            "=".repeat(80),
            exit.dump.trim_end()
        );
    }
    Err(anyhow!("ejected by the kernel: {exit}"))
}

/// After a restart was asked for the kernel may still be busy with the end of the old round. True
/// when we were told to stop meanwhile.
fn wait_until_free(stop: &Stop) -> Result<bool> {
    let root = Path::new("/");
    let deadline = Instant::now() + EXIT_TIMEOUT;
    while preflight::state(root) == "disabling" && Instant::now() < deadline {
        if stop.wait(Duration::from_millis(50)) {
            return Ok(true);
        }
    }
    preflight::nobody_is_attached(root)?;
    Ok(stop.asked())
}

/// Tells in the log what is about to run.
fn report_start(tick_ns: u64, knobs: &Knobs, defaults: &Knobs, topology: &Topology) {
    info!(
        "scx_eevdfx {} on Linux {}, HZ={}",
        env!("CARGO_PKG_VERSION"),
        preflight::kernel_release(Path::new("/")),
        1_000_000_000 / tick_ns
    );
    for line in knobs.report(defaults) {
        info!("{line}");
    }
    let (known, unknown): (Vec<_>, Vec<_>) = bpf::wanted_flags(knobs, topology)
        .into_iter()
        .partition(|(_, flag)| *flag != 0);
    let names = |flags: &[(&'static str, u64)]| {
        flags
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(" ")
    };
    info!("flags {}", names(&known));
    if !unknown.is_empty() {
        info!("flags this kernel does not know: {}", names(&unknown));
    }
}

/// Tells what each program cost the verifier, which refuses one beyond a million instructions.
fn report_verifier(scheduler: &Loaded<'_>) {
    if !log_enabled!(Level::Debug) {
        return;
    }
    for (name, insns) in scheduler.verified_insns() {
        debug!("verified {name}: {insns} instructions");
    }
}

/// Shows what libbpf had to say, and names the kernel symbol or the program it is about.
fn explain_load_failure(cause: Error) -> Error {
    let has_said_why = logging::show_libbpf_warnings();
    if let Some(symbol) = logging::missing_kernel_symbol() {
        return cause.context(format!(
            "this kernel lacks {symbol}, which scx_eevdfx needs"
        ));
    }
    if let Some(program) = logging::rejected_program() {
        return cause.context(format!("the kernel's verifier refused {program}"));
    }
    if has_said_why {
        cause
    } else {
        cause.context("cannot load (--verbose shows more)")
    }
}

/// A failure to attach is nearly always a race lost against another scheduler.
fn explain_attach_failure(cause: Error) -> Error {
    match preflight::nobody_is_attached(Path::new("/")) {
        Err(holder) => {
            debug!("{cause:#}");
            holder
        }
        Ok(()) => {
            logging::show_libbpf_warnings();
            cause.context("cannot attach")
        }
    }
}

/// Slows restarts down when they come too often, without ever giving up.
#[derive(Default)]
struct Brake {
    restarts: Vec<Instant>,
}

impl Brake {
    /// Notes a restart at `now`; the time to wait before it.
    fn restart(&mut self, now: Instant) -> Duration {
        self.restarts
            .retain(|at| now.duration_since(*at) < RESTART_WINDOW);
        self.restarts.push(now);
        match self.restarts.len().checked_sub(FREE_RESTARTS + 1) {
            None => Duration::ZERO,
            Some(excess) => Duration::from_secs(1 + excess as u64).min(LONGEST_PAUSE),
        }
    }
}

#[test]
fn the_brake_lets_a_few_restarts_pass_and_delays_none_of_many_for_long() {
    let (start, mut brake) = (Instant::now(), Brake::default());
    let pauses: Vec<u64> = (0..40).map(|_| brake.restart(start).as_secs()).collect();
    assert_eq!(pauses[..7], [0, 0, 0, 0, 0, 1, 2]);
    assert!(pauses[7..].iter().all(|pause| *pause == 2));
}

#[test]
fn the_brake_forgets() {
    let (start, mut brake) = (Instant::now(), Brake::default());
    for second in 0..50 {
        let pause = brake.restart(start + RESTART_WINDOW / 5 * second);
        assert_eq!(pause, Duration::ZERO);
    }
}
