// SPDX-License-Identifier: GPL-2.0-only
//! What is measured in every arm: a cell is one kind of load, a metric one number of it.

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use super::tool;
use crate::nodes::Nodes;
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
    /// a pair on every CPU at once
    Pipes,
    /// pairs at once between a CPU of the first node and one of the second, as many as there are
    PipesAcross,
    /// as many pairs as CPUs at once, not pinned
    PipesFree,
    /// a plain hog more than CPUs (9 on 8): the best served over the worst served
    Hogs9,
    /// three plain hogs for every two CPUs (12 on 8), likewise
    #[value(alias = "hogs")]
    Hogs12,
    /// two plain hogs a CPU and one more (17 on 8), likewise
    Hogs17,
    /// hogs of nice 0, 0, 3, -3 for every two CPUs, likewise by weight
    Nices,
    /// hogs of which a third are pinned, two to the first CPUs of every four, likewise (12 on 8)
    Pinned,
    /// three hogs for every two CPUs that sleep 1 ms after 9 ms of CPU time, likewise
    Naps,
    /// nice 0, 0, 5, -5 on one CPU: the largest deviation from the share by weight
    Share,
    /// 8 short programs started at once: until all are done, and who stayed on the node it began on
    Burst8,
    /// 16 of them
    Burst16,
    /// 32 of them
    Burst32,
    /// 64 of them
    Burst64,
    /// pgbench, 16 clients that read; a server that this program can reach must run (tests/lab/postgres/serve.sh)
    PgRead,
    /// the same, and they write
    PgWrite,
    /// light tasks of the first node, which hogs crowd for a second: are they at home before and after
    Spill,
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
    /// Seconds of every cell of many pairs: who is done early would leave the machine to the others
    #[arg(long, default_value_t = 0.5)]
    pipes_s: f64,
    /// Runs of every burst cell in each arm; the mean counts
    #[arg(long, default_value_t = 4)]
    burst_runs: usize,
    /// Seconds of every pgbench cell
    #[arg(long, default_value_t = 4)]
    pg_s: u64,
    /// Seconds of every cell of hogs
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
            higher(concat!($text, ": requests/s"), concat!($key, "_rps")),
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
            higher(
                concat!($text, ": woken at home, %"),
                concat!($key, "_home_pct"),
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

const fn higher(label: &'static str, key: &'static str) -> Metric {
    Metric {
        lower_is_better: false,
        ..lower(label, key)
    }
}

macro_rules! burst_metrics {
    ($programs:literal) => {
        [
            lower(
                concat!($programs, " programs at once, ms"),
                concat!("burst", $programs, "_ms"),
            ),
            higher(
                concat!($programs, " programs: stayed on their node, %"),
                concat!("burst", $programs, "_stayed_pct"),
            ),
        ]
    };
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
            Cell::Pipes => vec![lower("pipe on every CPU, ns/round trip", "pipes_ns")],
            Cell::PipesAcross => vec![lower(
                "pipes across nodes, ns/round trip",
                "pipes_across_ns",
            )],
            Cell::PipesFree => vec![lower("pipes not pinned, ns/round trip", "pipes_free_ns")],
            Cell::Hogs9 => vec![lower("CPUs + 1 hogs, max/min", "hogs9_max_over_min")],
            Cell::Hogs12 => vec![lower("3 hogs per 2 CPUs, max/min", "hogs12_max_over_min")],
            Cell::Hogs17 => vec![lower("2 x CPUs + 1 hogs, max/min", "hogs17_max_over_min")],
            Cell::Nices => vec![lower(
                "hogs of 3 nices, by weight, max/min",
                "nices_max_over_min",
            )],
            Cell::Pinned => vec![lower(
                "hogs, a third pinned, max/min",
                "pinned_max_over_min",
            )],
            Cell::Naps => vec![lower("hogs that nap, max/min", "naps_max_over_min")],
            Cell::Share => vec![lower(
                "4 nices on a CPU, worst share, %",
                "share_deviation_pct",
            )],
            Cell::Burst8 => burst_metrics!(8).into(),
            Cell::Burst16 => burst_metrics!(16).into(),
            Cell::Burst32 => burst_metrics!(32).into(),
            Cell::Burst64 => burst_metrics!(64).into(),
            Cell::PgRead => vec![higher("pgbench, reading: tps", "pg_read_tps")],
            Cell::PgWrite => vec![higher("pgbench, writing: tps", "pg_write_tps")],
            Cell::Spill => vec![
                higher("spill: at home before, %", "spill_before_home_pct"),
                higher(
                    "spill: at home in the second after, %",
                    "spill_after_home_pct",
                ),
                lower("spill: until back home, ms", "spill_back_ms"),
            ],
        }
    }

    /// What the workload calls them.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Cell::Hackbench | Cell::PgRead | Cell::PgWrite => &[],
            Cell::Half | Cell::Full | Cell::Over => &[
                "rps",
                "wakeup_p50_us",
                "wakeup_p99_us",
                "request_p50_us",
                "request_p99_us",
                "home_pct",
            ],
            Cell::Pipe | Cell::Pipe2 | Cell::Pipes | Cell::PipesAcross | Cell::PipesFree => {
                &["ns_per_round_trip"]
            }
            Cell::Hogs9 | Cell::Hogs12 | Cell::Hogs17 | Cell::Nices | Cell::Pinned | Cell::Naps => {
                &["max_over_min"]
            }
            Cell::Share => &["worst_share_deviation_pct"],
            Cell::Burst8 | Cell::Burst16 | Cell::Burst32 | Cell::Burst64 => {
                &["elapsed_ms", "stayed_pct"]
            }
            Cell::Spill => &["before_home_pct", "after_home_pct", "back_ms"],
        }
    }

    /// Measures the cell under whatever scheduler is in charge: the values of `metrics`, in that order; NaN for one that
    /// the tool does not have.
    pub fn measure(self, lengths: &Lengths, exe: &str) -> Result<Vec<f64>> {
        match self {
            Cell::Hackbench => return Ok(vec![hackbench(lengths)?]),
            Cell::PgRead => return Ok(vec![pgbench(&format!("-T {}", lengths.pg_s), "-S")?]),
            Cell::PgWrite => return Ok(vec![pgbench(&format!("-T {}", lengths.pg_s), "-N")?]),
            _ => {}
        }
        let mut words = vec![exe.to_string()];
        words.extend(self.arguments(lengths, &Nodes::here()));
        let output = tool::run(&words)?;
        let keys = self.keys().iter();
        keys.map(|key| tool::value(&output, key)).collect()
    }

    fn arguments(self, lengths: &Lengths, nodes: &Nodes) -> Vec<String> {
        let nr_cpus = nodes.nr_cpus();
        // Away from CPU 0, which takes the interrupts.
        let (cpu, other_cpu) = if nr_cpus > 3 {
            (2, 3)
        } else {
            (nr_cpus - 1, 0)
        };
        let line = match self {
            Cell::Hackbench | Cell::PgRead | Cell::PgWrite => String::new(),
            Cell::Half => request_line(lengths, nr_cpus.div_ceil(4)),
            Cell::Full => request_line(lengths, nr_cpus.div_ceil(2)),
            Cell::Over => request_line(lengths, nr_cpus),
            Cell::Pipe => format!("pipe --cpus {cpu},{cpu} --rounds {}", lengths.pipe_rounds),
            Cell::Pipe2 => format!(
                "pipe --cpus {cpu},{other_cpu} --rounds {}",
                lengths.pipe_rounds
            ),
            Cell::Pipes => pipes_line(lengths, (0..nr_cpus).map(|cpu| (cpu, cpu))),
            Cell::PipesAcross => pipes_line(lengths, across(nodes)),
            Cell::PipesFree => format!("pipe --seconds {} --pairs {nr_cpus}", lengths.pipes_s),
            Cell::Hogs9 => hogs_line(lengths, &[&format!("count={}", nr_cpus + 1)]),
            Cell::Hogs12 => hogs_line(lengths, &[&format!("count={}", (nr_cpus * 3).div_ceil(2))]),
            Cell::Hogs17 => hogs_line(lengths, &[&format!("count={}", nr_cpus * 2 + 1)]),
            Cell::Nices => nices_line(lengths, nr_cpus),
            Cell::Pinned => pinned_line(lengths, nr_cpus),
            Cell::Naps => hogs_line(
                lengths,
                &[&format!(
                    "run_us=9000,sleep_us=1000,count={}",
                    (nr_cpus * 3).div_ceil(2)
                )],
            ),
            Cell::Share => hogs_line(
                lengths,
                &["", "", ",nice=5", ",nice=-5"].map(|rest| format!("cpu={cpu}{rest}")),
            ),
            Cell::Burst8 => burst_line(lengths, 8),
            Cell::Burst16 => burst_line(lengths, 16),
            Cell::Burst32 => burst_line(lengths, 32),
            Cell::Burst64 => burst_line(lengths, 64),
            Cell::Spill => "spill".into(),
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

fn pipes_line(lengths: &Lengths, places: impl Iterator<Item = (usize, usize)>) -> String {
    let places = places.map(|(a, b)| format!(" --cpus {a},{b}"));
    let places: String = places.collect();
    format!("pipe --seconds {}{places}", lengths.pipes_s)
}

/// The CPUs of the first node with those of the second; the halves of a machine with one node.
fn across(nodes: &Nodes) -> impl Iterator<Item = (usize, usize)> {
    let half = nodes.nr_cpus() / 2;
    let (left, right) = match nodes.nr() {
        1 => ((0..half).collect(), (half..nodes.nr_cpus()).collect()),
        _ => (nodes.cpus(0), nodes.cpus(1)),
    };
    left.into_iter().zip(right)
}

fn hogs_line(lengths: &Lengths, specs: &[impl AsRef<str>]) -> String {
    let specs = specs.iter().map(|spec| format!(" --hog {}", spec.as_ref()));
    let specs: String = specs.collect();
    format!("hogs --seconds {}{specs}", lengths.hogs_s)
}

/// Two of weight 1024, one of 526 and one of 1991 for every two CPUs: a CPU is worth 2282, more than the heaviest has, so
/// everybody can have the share by weight, and max/min is 1 at best.
fn nices_line(lengths: &Lengths, nr_cpus: usize) -> String {
    let pairs = (nr_cpus / 2).max(1);
    let specs = [("", pairs * 2), ("nice=3,", pairs), ("nice=-3,", pairs)];
    hogs_line(
        lengths,
        &specs.map(|(nice, count)| format!("{nice}count={count}")),
    )
}

/// Equal shares are two thirds of a CPU, so a pinned hog can have it beside free ones, and max/min is 1 at best.
fn pinned_line(lengths: &Lengths, nr_cpus: usize) -> String {
    let cpus = (0..nr_cpus).filter(|cpu| cpu % 4 < 2).take(nr_cpus / 2);
    let mut specs: Vec<String> = cpus.map(|cpu| format!("cpu={cpu}")).collect();
    specs.push(format!("count={nr_cpus}"));
    hogs_line(lengths, &specs)
}

fn burst_line(lengths: &Lengths, programs: usize) -> String {
    format!("burst --programs {programs} --runs {}", lengths.burst_runs)
}

fn hackbench(lengths: &Lengths) -> Result<f64> {
    let mut words = vec!["hackbench".to_string()];
    words.extend(lengths.hackbench.split_whitespace().map(String::from));
    let runs: Result<Vec<f64>> = (0..lengths.hackbench_runs.max(1))
        .map(|_| tool::hackbench_seconds(&tool::run(&words)?))
        .collect();
    Ok(median(&runs?))
}

/// Tables are as big as the server's start made them. Writers leave out the few rows that all would wait for each other at.
fn pgbench(length: &str, kind: &str) -> Result<f64> {
    let line = format!("pgbench -n -c 16 -j 2 {length} {kind}");
    let words: Vec<String> = line.split(' ').map(String::from).collect();
    tool::pgbench_tps(&tool::run(&words)?)
}

fn need_pgbench(cells: &[Cell]) -> bool {
    cells.contains(&Cell::PgRead) || cells.contains(&Cell::PgWrite)
}

/// Short runs whose results are thrown away: first touch of code, files and memory.
pub fn warm_up(cells: &[Cell], exe: &str) -> Result<()> {
    if cells.contains(&Cell::Hackbench) {
        tool::run(&["hackbench", "-g", "1", "-l", "20"].map(String::from))?;
    }
    if need_pgbench(cells) {
        pgbench("-t 100", "-S")?;
    }
    tool::run(&[exe, "request", "--own", "-n", "1", "-r", "0.2"].map(String::from))?;
    Ok(())
}

/// Fails before anything is measured if a cell's program is missing.
pub fn check_programs(cells: &[Cell]) -> Result<String> {
    if cells.contains(&Cell::Hackbench) && sys::find_program("hackbench").is_none() {
        bail!("hackbench (rt-tests) is not on PATH; leave it out with --cells");
    }
    if need_pgbench(cells) && sys::find_program("pgbench").is_none() {
        bail!("pgbench is not on PATH; leave it out with --cells");
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
            pipes_s: 0.5,
            burst_runs: 3,
            pg_s: 1,
            hogs_s: 2.0,
            own: true,
        }
    }

    #[test]
    fn loads_follow_the_cpus() {
        let on = |cell: Cell, nr_cpus, nr_nodes| {
            let nodes = Nodes::even(nr_cpus, nr_nodes);
            cell.arguments(&lengths(), &nodes).join(" ")
        };
        let line = |cell, nr_cpus| on(cell, nr_cpus, 1);
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
        let across = "pipe --seconds 0.5 --cpus 0,2 --cpus 1,3";
        assert_eq!(on(Cell::PipesAcross, 4, 2), across);
        assert_eq!(line(Cell::PipesAcross, 4), across);
        assert!(line(Cell::Hogs9, 8).ends_with("count=9"));
        assert!(line(Cell::Hogs12, 8).ends_with("count=12"));
        assert!(line(Cell::Hogs17, 8).ends_with("count=17"));
        assert!(
            line(Cell::Nices, 8).ends_with("count=8 --hog nice=3,count=4 --hog nice=-3,count=4")
        );
        assert_eq!(
            line(Cell::Pinned, 8),
            "hogs --seconds 2 --hog cpu=0 --hog cpu=1 --hog cpu=4 --hog cpu=5 --hog count=8"
        );
        assert_eq!(
            line(Cell::Share, 8),
            "hogs --seconds 2 --hog cpu=2 --hog cpu=2 --hog cpu=2,nice=5 --hog cpu=2,nice=-5"
        );
        assert_eq!(line(Cell::Burst32, 8), "burst --programs 32 --runs 3");
    }

    #[test]
    fn every_metric_has_its_key() {
        for cell in Cell::value_variants() {
            let has_own_tool = matches!(cell, Cell::Hackbench | Cell::PgRead | Cell::PgWrite);
            let nr = if has_own_tool {
                0
            } else {
                cell.metrics().len()
            };
            assert_eq!(nr, cell.keys().len(), "{cell:?}");
        }
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
