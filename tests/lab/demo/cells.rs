// SPDX-License-Identifier: GPL-2.0-only
//! What is measured in every arm: a cell is one kind of load, a metric one number of it.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::tool;
use crate::stats::median;
use crate::sys;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cell {
    /// hackbench, median of some runs
    Hackbench,
    /// lab request, half as many workers as CPUs
    Half,
    /// lab request, as many workers as CPUs
    Full,
    /// lab request, twice as many workers as CPUs
    Over,
    /// pipe round trips on one CPU
    Pipe,
    /// pipe round trips between two CPUs
    Pipe2,
    /// three plain hogs for every two CPUs: the best served over the worst served
    Hogs,
    /// nice 0, 0, 5, -5 on one CPU: the largest deviation from the share by weight
    Share,
}

#[derive(Args, Clone)]
pub struct Lengths {
    /// Options of hackbench, split at blanks
    #[arg(long, default_value = "-g 4 -l 50", allow_hyphen_values = true)]
    hackbench: String,
    /// Runs of hackbench in each arm; the median counts
    #[arg(long, default_value_t = 3)]
    hackbench_runs: usize,
    /// Seconds of every request cell (schbench takes whole ones: rounded up)
    #[arg(long, default_value_t = 1.5)]
    request_s: f64,
    /// Round trips of every pipe cell
    #[arg(long, default_value_t = 10000)]
    pipe_rounds: u64,
    /// Seconds of the hogs and share cells
    #[arg(long, default_value_t = 4.0)]
    hogs_s: f64,
    /// Use our own request load even if schbench is on PATH
    #[arg(long)]
    pub own: bool,
}

pub struct Metric {
    /// In the table.
    pub label: &'static str,
    /// In JSON; the unit last.
    pub key: &'static str,
    pub lower_is_better: bool,
}

macro_rules! request_metrics {
    ($text:literal, $key:literal) => {
        [
            Metric {
                label: concat!($text, ": requests/s"),
                key: concat!($key, "_rps"),
                lower_is_better: false,
            },
            lower(
                concat!($text, ": wakeup p50, us"),
                concat!($key, "_wakeup_p50_us"),
            ),
            lower(
                concat!($text, ": wakeup p99, us"),
                concat!($key, "_wakeup_p99_us"),
            ),
            lower(
                concat!($text, ": request p50, us"),
                concat!($key, "_request_p50_us"),
            ),
            lower(
                concat!($text, ": request p99, us"),
                concat!($key, "_request_p99_us"),
            ),
        ]
    };
}

const fn lower(label: &'static str, key: &'static str) -> Metric {
    Metric {
        label,
        key,
        lower_is_better: true,
    }
}

impl Cell {
    pub fn metrics(self) -> Vec<Metric> {
        match self {
            Cell::Hackbench => vec![lower("hackbench, s", "hackbench_s")],
            Cell::Half => request_metrics!("half load", "half").into(),
            Cell::Full => request_metrics!("full load", "full").into(),
            Cell::Over => request_metrics!("over load", "over").into(),
            Cell::Pipe => vec![lower("pipe, same CPU, ns/round trip", "pipe_ns")],
            Cell::Pipe2 => vec![lower("pipe, two CPUs, ns/round trip", "pipe2_ns")],
            Cell::Hogs => vec![lower("3 hogs per 2 CPUs, max/min", "hogs_max_over_min")],
            Cell::Share => vec![lower(
                "4 nices on a CPU, worst share, %",
                "share_deviation_pct",
            )],
        }
    }

    /// Measures the cell under whatever scheduler is in charge: the values of `metrics`, in that order.
    pub fn measure(self, lengths: &Lengths, exe: &str) -> Result<Vec<f64>> {
        if self == Cell::Hackbench {
            return Ok(vec![hackbench(lengths)?]);
        }
        let mut words = vec![exe.to_string()];
        words.extend(self.arguments(lengths, sys::nr_cpus()));
        let output = tool::run(&words)?;
        let keys: &[&str] = match self {
            Cell::Hackbench => &[],
            Cell::Half | Cell::Full | Cell::Over => &[
                "rps",
                "wakeup_p50_us",
                "wakeup_p99_us",
                "request_p50_us",
                "request_p99_us",
            ],
            Cell::Pipe | Cell::Pipe2 => &["ns_per_round_trip"],
            Cell::Hogs => &["max_over_min"],
            Cell::Share => &["worst_share_deviation_pct"],
        };
        keys.iter().map(|key| tool::value(&output, key)).collect()
    }

    fn arguments(self, lengths: &Lengths, nr_cpus: usize) -> Vec<String> {
        // Away from CPU 0, which takes the interrupts.
        let (cpu, other_cpu) = if nr_cpus > 3 {
            (2, 3)
        } else {
            (nr_cpus - 1, 0)
        };
        let line = match self {
            Cell::Hackbench => String::new(),
            Cell::Half => request_line(lengths, nr_cpus.div_ceil(4)),
            Cell::Full => request_line(lengths, nr_cpus.div_ceil(2)),
            Cell::Over => request_line(lengths, nr_cpus),
            Cell::Pipe => format!("pipe --cpus {cpu},{cpu} --rounds {}", lengths.pipe_rounds),
            Cell::Pipe2 => format!(
                "pipe --cpus {cpu},{other_cpu} --rounds {}",
                lengths.pipe_rounds
            ),
            Cell::Hogs => {
                format!(
                    "hogs --seconds {} --hog count={}",
                    lengths.hogs_s,
                    (nr_cpus * 3).div_ceil(2)
                )
            }
            Cell::Share => format!(
                "hogs --seconds {} --hog cpu={cpu},count=2 --hog cpu={cpu},nice=5 --hog cpu={cpu},nice=-5",
                lengths.hogs_s
            ),
        };
        line.split_whitespace().map(String::from).collect()
    }
}

fn request_line(lengths: &Lengths, workers_each: usize) -> String {
    let own = if lengths.own { " --own" } else { "" };
    format!(
        "request -m 2 -t {workers_each} -F 128 -n 1 -r {}{own}",
        lengths.request_s
    )
}

fn hackbench(lengths: &Lengths) -> Result<f64> {
    let mut words = vec!["hackbench".to_string()];
    words.extend(lengths.hackbench.split_whitespace().map(String::from));
    let runs: Result<Vec<f64>> = (0..lengths.hackbench_runs.max(1))
        .map(|_| tool::hackbench_seconds(&tool::run(&words)?))
        .collect();
    Ok(median(&runs?))
}

/// Short runs whose results are thrown away: first touch of code, files and memory.
pub fn warm_up(cells: &[Cell], exe: &str) -> Result<()> {
    if cells.contains(&Cell::Hackbench) {
        tool::run(&["hackbench", "-g", "1", "-l", "20"].map(String::from))?;
    }
    tool::run(&[exe, "request", "--own", "-n", "1", "-r", "0.2"].map(String::from))?;
    Ok(())
}

/// Fails before anything is measured if a cell's program is missing.
pub fn check_programs(cells: &[Cell]) -> Result<String> {
    if cells.contains(&Cell::Hackbench) && sys::find_program("hackbench").is_none() {
        bail!("hackbench (rt-tests) is not on PATH; leave it out with --cells");
    }
    let exe = std::env::current_exe().context("finding this program")?;
    Ok(exe.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths() -> Lengths {
        Lengths {
            hackbench: "-g 1".into(),
            hackbench_runs: 1,
            request_s: 1.5,
            pipe_rounds: 10,
            hogs_s: 2.0,
            own: true,
        }
    }

    #[test]
    fn loads_follow_the_cpus() {
        let line = |cell: Cell, nr_cpus| cell.arguments(&lengths(), nr_cpus).join(" ");
        assert_eq!(
            line(Cell::Over, 8),
            "request -m 2 -t 8 -F 128 -n 1 -r 1.5 --own"
        );
        assert_eq!(
            line(Cell::Half, 8),
            "request -m 2 -t 2 -F 128 -n 1 -r 1.5 --own"
        );
        assert_eq!(line(Cell::Pipe, 8), "pipe --cpus 2,2 --rounds 10");
        assert_eq!(line(Cell::Pipe2, 2), "pipe --cpus 1,0 --rounds 10");
        assert_eq!(line(Cell::Pipe2, 1), "pipe --cpus 0,0 --rounds 10");
        assert!(line(Cell::Hogs, 8).ends_with("count=12"));
    }

    #[test]
    fn metric_keys_are_unique() {
        let mut keys: Vec<_> = Cell::value_variants()
            .iter()
            .flat_map(|cell| cell.metrics())
            .map(|m| m.key)
            .collect();
        let nr = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), nr);
    }
}
