// SPDX-License-Identifier: GPL-2.0-only
//! Runs one measuring command and reads its output; Ctrl-C ends the command and then the demo, in order.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use anyhow::{Context, Result, bail};

use crate::sys;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Process group of the command under way; 0: none.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// From now on SIGINT and SIGTERM only end the command under way; the demo sees it and cleans up.
pub fn catch_interrupts() -> Result<()> {
    ctrlc::set_handler(|| {
        INTERRUPTED.store(true, SeqCst);
        match GROUP.load(SeqCst) {
            0 => {}
            group => sys::kill(-group, libc::SIGKILL),
        }
    })
    .context("handling SIGINT")
}

pub fn check_interrupted() -> Result<()> {
    if INTERRUPTED.load(SeqCst) {
        bail!("interrupted");
    }
    Ok(())
}

/// Runs `words` to its end; its stdout, or an error that shows its stderr.
pub fn run(words: &[String]) -> Result<String> {
    check_interrupted()?;
    let shown = words.join(" ");
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: between fork and exec only one system call.
    unsafe { command.pre_exec(|| sys::die_with_parent(libc::SIGKILL)) };
    let child = command
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let group = child.id() as i32;
    GROUP.store(group, SeqCst);
    if INTERRUPTED.load(SeqCst) {
        // The handler may have looked before there was a group to kill.
        sys::kill(-group, libc::SIGKILL);
    }
    let output = child.wait_with_output();
    GROUP.store(0, SeqCst);
    check_interrupted()?;
    let output = output.with_context(|| format!("waiting for {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last `key=value` of this key in a workload's output.
pub fn value(output: &str, key: &str) -> Result<f64> {
    output
        .split_whitespace()
        .filter_map(|word| word.split_once('='))
        .rfind(|(name, _)| *name == key)
        .and_then(|(_, value)| value.parse().ok())
        .with_context(|| format!("no {key} in {output:?}"))
}

/// Seconds in hackbench's "Time:" line.
pub fn hackbench_seconds(output: &str) -> Result<f64> {
    output
        .lines()
        .find_map(|line| line.trim().strip_prefix("Time:"))
        .and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("no Time in {output:?}"))
}

/// X of pgbench's "tps = X (...)".
pub fn pgbench_tps(output: &str) -> Result<f64> {
    let after = output.split("tps = ").nth(1).unwrap_or_default();
    let word = after.split_whitespace().next().unwrap_or_default();
    word.parse()
        .with_context(|| format!("no tps in {output:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_outputs() {
        let output = "tool=lab\npair=0 ns=5\npairs=1 ns=7.5\n";
        assert_eq!(value(output, "ns").unwrap(), 7.5);
        assert!(value(output, "rps").is_err() && value(output, "tool").is_err());
        assert_eq!(
            hackbench_seconds("Running in process mode\nTime: 0.086\n").unwrap(),
            0.086
        );
        assert!(hackbench_seconds("SENDER: write").is_err());
        let tps = pgbench_tps("latency average = 0.2 ms\ntps = 1876.5 (without)\n");
        assert_eq!(tps.unwrap(), 1876.5);
        assert!(pgbench_tps("pgbench: error").is_err());
    }

    #[test]
    fn failures_are_shown() {
        let words = ["sh", "-c", "echo out; echo why >&2; exit 5"].map(String::from);
        let text = run(&words).unwrap_err().to_string();
        assert!(text.contains("why"), "{text}");
        assert_eq!(run(&words[..1]).unwrap(), "");
    }
}
