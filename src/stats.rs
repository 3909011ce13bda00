// SPDX-License-Identifier: GPL-2.0-only
//! Decides how the scheduler's counters are shown: one line per interval, what was added since the
//! line before.
//!
//! A thread of its own writes to stdout, so that a reader that has stopped reading does not stop
//! the daemon; lines that it is too late for are dropped.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bpf::STATS_PER_CPU;

/// Names of the counters, in order of enum stat_idx in bpf/intf.h (where each is explained).
pub const LABELS: [&str; 35] = [
    "enq_direct",
    "enq_preempt",
    "enq_ready",
    "enq_wait",
    "enq_stage",
    "enq_noctx",
    "pick_keep",
    "pick_ready",
    "pick_fallback",
    "steal_llc",
    "steal_node",
    "steal_remote",
    "pull",
    "promote",
    "demote",
    "rescue",
    "idle_prev",
    "idle_sync",
    "idle_llc",
    "idle_node",
    "idle_remote",
    "idle_none",
    "wake_affine",
    "wake_home",
    "wake_away",
    "fork_spread",
    "exec_spread",
    "idle_kick",
    "ttwu_queued",
    "stage_drain",
    "stage_steal",
    "hrtick_arm",
    "hrtick_kick",
    "migrate",
    "race",
];

const LINES_PER_HEADER: usize = 20;
/// Lines on their way to a slow reader.
const BACKLOG: usize = 16;
/// How long the last lines may take at the end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Prints the counters at regular intervals.
pub struct Printer {
    start: Instant,
    interval: Duration,
    next: Instant,
    before: [u64; STATS_PER_CPU],
    nr_lines: usize,
    lines: Option<SyncSender<String>>,
    finished: Receiver<()>,
}

impl Printer {
    /// Prepares to print every `interval` from [`Printer::begin`] on.
    ///
    /// # Errors
    /// Fails when no thread can be started.
    pub fn new(interval: Duration) -> Result<Self> {
        let (lines, queue) = mpsc::sync_channel::<String>(BACKLOG);
        let (done, finished) = mpsc::channel();
        thread::Builder::new()
            .name("stats".to_string())
            .spawn(move || {
                // A closed stdout ends the printing, and nothing else.
                while let Ok(line) = queue.recv() {
                    let mut out = io::stdout().lock();
                    if out
                        .write_all(line.as_bytes())
                        .and_then(|()| out.flush())
                        .is_err()
                    {
                        break;
                    }
                }
                let _ = done.send(());
            })
            .context("cannot start the thread that prints the counters")?;
        let start = Instant::now();
        let before = [0; STATS_PER_CPU];
        Ok(Printer {
            start,
            interval,
            next: start + interval,
            before,
            nr_lines: 0,
            lines: Some(lines),
            finished,
        })
    }

    /// Time until the next line is due; none when nothing is printed any more.
    pub fn due_in(&self) -> Option<Duration> {
        self.lines
            .as_ref()
            .map(|_| self.next.saturating_duration_since(Instant::now()))
    }

    /// Notes that a scheduler was attached: its counters start at 0, an interval begins.
    pub fn begin(&mut self) {
        self.before = [0; STATS_PER_CPU];
        self.next = Instant::now() + self.interval;
        if self.nr_lines == 0 {
            self.start = Instant::now();
        }
    }

    /// Prints a line if one is due; `now` reads the counters.
    pub fn tick(&mut self, now: impl FnOnce() -> [u64; STATS_PER_CPU]) {
        if self.due_in() != Some(Duration::ZERO) {
            return;
        }
        // Intervals that were missed, in suspend for example, are not made up for.
        while self.next <= Instant::now() {
            self.next += self.interval;
        }
        let now = now();
        let mut text = String::new();
        if self.nr_lines.is_multiple_of(LINES_PER_HEADER) {
            text.push_str(&header());
        }
        text.push_str(&row(self.start.elapsed(), &self.before, &now));
        self.nr_lines += 1;
        self.before = now;
        if let Some(lines) = &self.lines
            && let Err(TrySendError::Disconnected(_)) = lines.try_send(text)
        {
            self.lines = None;
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.finished.recv_timeout(FAREWELL);
    }
}

fn header() -> String {
    let names: Vec<String> = LABELS
        .iter()
        .map(|label| format!("{label:>width$}", width = width(label)))
        .collect();
    format!("{:>8} {}\n", "time_s", names.join(" "))
}

fn row(time: Duration, before: &[u64], now: &[u64]) -> String {
    let deltas: Vec<String> = LABELS
        .iter()
        .zip(now.iter().zip(before))
        .map(|(label, (now, before))| {
            format!(
                "{:>width$}",
                now.wrapping_sub(*before),
                width = width(label)
            )
        })
        .collect();
    format!("{:>8.1} {}\n", time.as_secs_f64(), deltas.join(" "))
}

fn width(label: &str) -> usize {
    label.len().max(8)
}

#[test]
fn every_counter_of_the_bpf_part_has_its_label_in_order() {
    let header = include_str!("../bpf/intf.h");
    let names: Vec<String> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STAT_"))
        .map(|rest| {
            rest.chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect::<String>()
        })
        .map(|name| name.to_lowercase())
        .collect();
    assert_eq!(names, LABELS);
}

#[test]
fn a_row_shows_increases_under_their_labels() {
    let (mut before, mut now) = ([0; STATS_PER_CPU], [0; STATS_PER_CPU]);
    (before[0], now[0]) = (5, 12);
    now[LABELS.len() - 1] = 3;
    let row = row(Duration::from_millis(1500), &before, &now);
    assert_eq!(row.len(), self::header().len());
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        (cells[0], cells[1], cells[2], cells[LABELS.len()]),
        ("1.5", "7", "0", "3")
    );
}
