// SPDX-License-Identifier: GPL-2.0-only
//! Decides what is written to stderr and in which form.
//!
//! libbpf warns about things that are normal on some kernels, so its warnings are kept back and
//! shown only when loading fails; `--verbose` shows all of its messages at once.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic;
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Error;
use env_logger::{Builder, Target};
use libbpf_rs::{PrintLevel, set_print};
use log::LevelFilter;

/// Lines of libbpf's warnings that are kept; a rejected program's log alone can have 100 000.
const KEPT_LINES: usize = 200;
/// Lines of them that are shown when loading fails.
const SHOWN_LINES: usize = 20;

static LIBBPF_WARNINGS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Sets up the log (info and above, everything with `verbose`) and redirects libbpf into it.
pub fn init(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
    let level = if verbose {
        LevelFilter::Debug
    } else {
        LevelFilter::Info
    };
    let logger = Builder::new()
        .filter_level(level)
        .filter_module(
            "scx_utils",
            if verbose {
                LevelFilter::Debug
            } else {
                LevelFilter::Warn
            },
        )
        .target(Target::Stderr)
        .format(|buf, record| {
            let level = record.level();
            let style = buf.default_level_style(level);
            let now = buf.timestamp_seconds().to_string();
            let clock = now.get(11..19).unwrap_or(&now);
            writeln!(buf, "{clock} {style}[{level}]{style:#} {}", record.args())
        })
        .try_init();
    if logger.is_ok() {
        set_print(Some((
            if verbose {
                PrintLevel::Debug
            } else {
                PrintLevel::Warn
            },
            from_libbpf,
        )));
    }
}

/// Makes a panic, in any thread, one line on stderr and the exit code of a failure. The kernel
/// detaches the scheduler of a process that has ended.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let what = info.payload_as_str().unwrap_or("panic");
        let place = info
            .location()
            .map(|l| format!(" at {}:{}", l.file(), l.line()))
            .unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "scx_eevdfx: internal error: {}{place}",
            one_line(what)
        );
        process::exit(1);
    }));
}

/// Prints the error that ends the program, with its causes, as one line.
pub fn fatal(error: &Error) {
    let _ = writeln!(
        io::stderr(),
        "scx_eevdfx: {}",
        one_line(&format!("{error:#}"))
    );
}

/// Forgets libbpf's warnings; to be called before each attempt to load.
pub fn forget_libbpf_warnings() {
    if let Ok(mut kept) = LIBBPF_WARNINGS.lock() {
        kept.clear();
    }
}

/// Logs the last of libbpf's warnings as errors; false when there are none.
pub fn show_libbpf_warnings() -> bool {
    let Ok(kept) = LIBBPF_WARNINGS.lock() else {
        return false;
    };
    // With --verbose they were shown when they came.
    if !VERBOSE.load(Ordering::Relaxed) {
        for line in kept.iter().skip(kept.len().saturating_sub(SHOWN_LINES)) {
            log::error!("{line}");
        }
    }
    !kept.is_empty()
}

/// The kernel symbol that libbpf looked for in vain, if that is what it warned about.
pub fn missing_kernel_symbol() -> Option<String> {
    let kept = LIBBPF_WARNINGS.lock().ok()?;
    kept.iter()
        .find_map(|line| symbol_not_found(line))
        .map(str::to_string)
}

/// The program that the kernel's verifier refused, if that is what libbpf warned about.
pub fn rejected_program() -> Option<String> {
    let kept = LIBBPF_WARNINGS.lock().ok()?;
    kept.iter()
        .find_map(|line| program_rejected(line))
        .map(str::to_string)
}

fn program_rejected(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("prog '")?;
    let (name, rest) = rest.split_once('\'')?;
    rest.contains("failed to load").then_some(name)
}

fn symbol_not_found(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("extern ")?;
    let (_, rest) = rest.split_once('\'')?;
    let (name, rest) = rest.split_once('\'')?;
    let missing = rest.contains("not found") || rest.contains("not resolved");
    // A missing configuration is no missing symbol.
    (missing && !name.starts_with("CONFIG_")).then_some(name)
}

fn from_libbpf(level: PrintLevel, message: String) {
    for line in message
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
    {
        log::debug!("{line}");
        if level == PrintLevel::Warn
            && let Ok(mut kept) = LIBBPF_WARNINGS.lock()
        {
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(line.to_string());
        }
    }
}

/// Joins the lines and squeezes the blanks of `text`.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_missing_kfunc_is_recognised() {
    let line = "libbpf: extern (func ksym) 'scx_bpf_nope': not found in kernel or module BTFs";
    assert_eq!(symbol_not_found(line), Some("scx_bpf_nope"));
    assert_eq!(
        symbol_not_found("libbpf: extern 'foo' (strong): not resolved"),
        Some("foo")
    );
}

#[test]
fn other_warnings_are_no_missing_kfunc() {
    for line in [
        "libbpf: extern 'CONFIG_HZ' (strong): not resolved",
        "libbpf: prog 'eevdfx_init': BPF program load failed: -EACCES",
        "libbpf: extern 'broken",
    ] {
        assert_eq!(symbol_not_found(line), None, "{line}");
    }
}

#[test]
fn a_rejected_program_is_recognised() {
    let line = "libbpf: prog 'eevdfx_enable': failed to load: -EINVAL";
    assert_eq!(program_rejected(line), Some("eevdfx_enable"));
    assert_eq!(
        program_rejected("libbpf: prog 'eevdfx_enable': -- BEGIN PROG LOAD LOG --"),
        None
    );
}

#[test]
fn errors_become_one_line() {
    assert_eq!(one_line("a\n\n  b\tc "), "a b c");
}
