// SPDX-License-Identifier: GPL-2.0-only
//! `lab hogs`: processes that take all the CPU they can get, and who got how much.
//!
//! Weak where hogs are unpinned and few: how the ideal is shared between CPUs is then the balancer's choice,
//! and the ideal used here (everybody by weight, nobody more than one CPU) is the fairest possible, not what
//! any kernel promises.

mod spec;
pub mod spin;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Child, Gate};
use crate::stats::{Hist, us};
use crate::sys::{self, NS_PER_MS, NS_PER_SEC, NS_PER_US, monotonic_ns};
use spec::Hog;
use spin::{Account, Plan};

#[derive(Args)]
pub struct Options {
    /// One hog (repeatable): comma list of nice=N, cpu=N or cpus=LIST, policy=other|batch|idle, slice_us=N,
    /// run_us=N with sleep_us=N (bursts of own CPU time), yields=1 (calls sched_yield all the time),
    /// renice=NICE@MS (repeatable: made so by another process that many ms after the start), poke_us=N (every N us
    /// taken off its queue and put back, by a change of policy), count=K, name=TEXT [default: one plain hog]
    #[arg(long = "hog", value_name = "SPEC", allow_hyphen_values = true)]
    hogs: Vec<String>,
    /// Length of the run in seconds
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Also account in windows of this many ms (0: no windows)
    #[arg(long, default_value_t = 0)]
    window_ms: u64,
    /// A hole between two clock reads that may mean being switched out, in us; smaller finds shorter
    /// interruptions, larger is not disturbed by interrupts
    #[arg(long, default_value_t = 150)]
    threshold_us: u64,
    /// Start each hog this many ms after the one before (0: all at once)
    #[arg(long, default_value_t = 0)]
    stagger_ms: u64,
    /// Fail if a hog that never sleeps is further than this many percent from its share by weight
    #[arg(long, value_name = "PCT")]
    expect_share: Option<f64>,
    /// Seconds after the end within which a hog must report; a starved one is killed then
    #[arg(long, default_value_t = 20)]
    grace_s: u64,
}

/// A hog's account and what the kernel says it waited.
struct Outcome {
    account: Account,
    run_delay_ns: u64,
    reported: bool,
}

pub fn run(options: &Options) -> Result<bool> {
    let mut hogs = Vec::new();
    for spec in &options.hogs {
        hogs.extend(spec::parse(spec)?);
    }
    if options.hogs.is_empty() {
        hogs = spec::parse("")?;
    }
    if hogs.is_empty() || options.seconds <= 0.0 {
        bail!("nothing to run");
    }
    let outcomes = measure(options, &hogs)?;
    print_hogs(&hogs, &outcomes);
    print_windows(options, &hogs, &outcomes);
    print_sums(&hogs, &outcomes);
    match options.expect_share {
        Some(percent) => check_shares(&hogs, &outcomes, percent),
        None => Ok(outcomes.iter().all(|outcome| outcome.reported)),
    }
}

fn measure(options: &Options, hogs: &[Hog]) -> Result<Vec<Outcome>> {
    let gate = Gate::new()?;
    let length_ns = (options.seconds * NS_PER_SEC as f64) as u64;
    let stagger_ns = options.stagger_ms * NS_PER_MS;
    let mut children = Vec::new();
    for hog in hogs {
        let job = || {
            let prepared = prepare(hog);
            let start_ns = gate.wait()?;
            prepared?;
            Ok(report(&spin::run(&plan(options, hog, start_ns, length_ns))))
        };
        children.push(child::spawn(job)?);
    }
    let start_ns = gate.open(hogs.len(), stagger_ns)?;
    let end_ns = start_ns + stagger_ns * (hogs.len() as u64 - 1) + length_ns;
    disturb(hogs, &children, start_ns, end_ns)?;
    sys::sleep_until(end_ns);
    children
        .iter_mut()
        .map(|child| collect(child, end_ns + options.grace_s * NS_PER_SEC))
        .collect()
}

/// Does to the hogs what their specs ask another process to do.
fn disturb(hogs: &[Hog], children: &[Child], start_ns: u64, end_ns: u64) -> Result<()> {
    let mut acts = Vec::new();
    for (i, hog) in hogs.iter().enumerate() {
        for &(nice, ms) in &hog.renices {
            acts.push((start_ns + ms * NS_PER_MS, i, Act::Renice(nice)));
        }
        let policies = [libc::SCHED_BATCH, libc::SCHED_OTHER].into_iter().cycle();
        let times = (start_ns..end_ns).step_by(hog.poke_us.max(1) as usize * NS_PER_US as usize);
        if hog.poke_us > 0 {
            let pokes = times.skip(1).zip(policies);
            acts.extend(pokes.map(|(at_ns, policy)| (at_ns, i, Act::Policy(policy))));
        }
    }
    acts.sort_by_key(|(at_ns, ..)| *at_ns);
    for (at_ns, i, act) in acts.into_iter().filter(|(at_ns, ..)| *at_ns < end_ns) {
        sys::sleep_until(at_ns);
        match act {
            Act::Renice(nice) => sys::set_nice(children[i].pid(), nice)?,
            Act::Policy(policy) => sys::set_policy(children[i].pid(), policy)?,
        }
    }
    Ok(())
}

enum Act {
    Renice(i32),
    Policy(libc::c_int),
}

fn plan(options: &Options, hog: &Hog, start_ns: u64, length_ns: u64) -> Plan {
    Plan {
        start_ns,
        end_ns: start_ns + length_ns,
        window_ns: if options.window_ms == 0 {
            length_ns
        } else {
            options.window_ms * NS_PER_MS
        },
        gap_ns: options.threshold_us * NS_PER_US,
        burst_ns: hog
            .burst
            .map(|(run, sleep)| (run * NS_PER_US, sleep * NS_PER_US)),
        yields: hog.yields,
    }
}

fn prepare(hog: &Hog) -> Result<()> {
    sys::exact_timers();
    sys::pin(&hog.cpus)?;
    if hog.policy == spec::Policy::Other && hog.nice == 0 && hog.slice_us == 0 {
        return Ok(());
    }
    sys::set_sched(hog.policy.number(), hog.nice, hog.slice_us * NS_PER_US)
}

fn report(account: &Account) -> String {
    let windows: Vec<String> = account.windows_ns.iter().map(u64::to_string).collect();
    format!(
        "{} {} {}\n{}\n{}\n{}\n{}",
        account.cpu_ns,
        account.voluntary,
        account.involuntary,
        windows.join(" "),
        account.runs.to_text(),
        account.waits.to_text(),
        account.wakes.to_text()
    )
}

fn parse_report(text: &str) -> Option<Account> {
    let mut lines = text.split('\n');
    let numbers = |line: &str| {
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect::<Option<Vec<u64>>>()
    };
    let [cpu_ns, voluntary, involuntary] = numbers(lines.next()?)?[..] else {
        return None;
    };
    let windows_ns = numbers(lines.next()?)?;
    let runs = Hist::from_text(lines.next()?)?;
    let waits = Hist::from_text(lines.next()?)?;
    let wakes = Hist::from_text(lines.next()?)?;
    Some(Account {
        cpu_ns,
        windows_ns,
        runs,
        waits,
        wakes,
        voluntary,
        involuntary,
    })
}

fn collect(child: &mut Child, deadline_ns: u64) -> Result<Outcome> {
    let report = child.finish(deadline_ns.max(monotonic_ns() + NS_PER_SEC))?;
    let run_delay_ns = child.run_delay_ns().unwrap_or(0);
    let Some(text) = report else {
        let nothing = Account {
            cpu_ns: 0,
            windows_ns: Vec::new(),
            runs: Hist::new(),
            waits: Hist::new(),
            wakes: Hist::new(),
            voluntary: 0,
            involuntary: 0,
        };
        return Ok(Outcome {
            account: nothing,
            run_delay_ns,
            reported: false,
        });
    };
    let account = parse_report(&text).with_context(|| format!("a hog's report: {text:?}"))?;
    Ok(Outcome {
        account,
        run_delay_ns,
        reported: true,
    })
}

fn print_hogs(hogs: &[Hog], outcomes: &[Outcome]) {
    for (i, (hog, outcome)) in hogs.iter().zip(outcomes).enumerate() {
        let Outcome {
            account,
            run_delay_ns,
            reported,
        } = outcome;
        print!(
            "hog={i} name={} nice={} weight={} pinned={} reported={} cpu_ms={:.3} run_delay_ms={:.3}",
            hog.name,
            hog.nice,
            hog.weight(),
            hog.pinned_text(),
            u8::from(*reported),
            account.cpu_ns as f64 / 1e6,
            *run_delay_ns as f64 / 1e6
        );
        let (runs, waits) = (&account.runs, &account.waits);
        print!(
            " switches_voluntary={} switches_involuntary={} runs={} run_mean_us={:.1} run_p50_us={:.1} run_max_us={:.1} wait_p50_us={:.1} wait_max_us={:.1}",
            account.voluntary,
            account.involuntary,
            runs.total(),
            us(runs.mean()),
            us(runs.percentile(50.0)),
            us(runs.max()),
            us(waits.percentile(50.0)),
            us(waits.max())
        );
        if hog.burst.is_some() {
            let wakes = &account.wakes;
            print!(
                " wakes={} wake_mean_us={:.1} wake_p50_us={:.1} wake_p99_us={:.1} wake_max_us={:.1}",
                wakes.total(),
                us(wakes.mean()),
                us(wakes.percentile(50.0)),
                us(wakes.percentile(99.0)),
                us(wakes.max())
            );
        }
        println!();
    }
}

/// CPU time of hog `i` in each window; what a hog did not report is 0.
fn window_ns(outcome: &Outcome, window: usize) -> u64 {
    outcome.account.windows_ns.get(window).copied().unwrap_or(0)
}

fn print_windows(options: &Options, hogs: &[Hog], outcomes: &[Outcome]) {
    if options.window_ms == 0 {
        return;
    }
    let nr_windows = (options.seconds * 1e3 / options.window_ms as f64) as usize;
    for (i, outcome) in outcomes.iter().enumerate() {
        for window in 0..nr_windows {
            println!(
                "hog={i} window={window} cpu_ms={:.3}",
                window_ns(outcome, window) as f64 / 1e6
            );
        }
    }
    let Ok(groups) = spec::groups(hogs) else {
        println!("worst_window_fraction=- # hogs overlap, no simple ideal");
        return;
    };
    let mut worst: Option<(f64, usize, usize)> = None;
    for (cpus, members) in groups {
        let nr_cpus = if cpus.is_empty() {
            sys::nr_cpus()
        } else {
            cpus.len()
        };
        let weights: Vec<u32> = members.iter().map(|&i| hogs[i].weight()).collect();
        for (&i, share) in members.iter().zip(spec::ideal_shares(&weights, nr_cpus)) {
            let ideal_ns = share * nr_cpus as f64 * (options.window_ms * NS_PER_MS) as f64;
            for window in 0..nr_windows {
                let fraction = window_ns(&outcomes[i], window) as f64 / ideal_ns;
                if worst.is_none_or(|(least, ..)| fraction < least) {
                    worst = Some((fraction, i, window));
                }
            }
        }
    }
    if let Some((fraction, hog, window)) = worst {
        println!(
            "worst_window_fraction={fraction:.4} worst_window_hog={hog} worst_window={window}"
        );
    }
}

fn print_sums(hogs: &[Hog], outcomes: &[Outcome]) {
    let total_ns: u64 = outcomes.iter().map(|outcome| outcome.account.cpu_ns).sum();
    let longest_ns = outcomes.iter().map(|outcome| outcome.account.waits.max());
    print!(
        "hogs={} total_cpu_ms={:.3} longest_wait_ms={:.3}",
        hogs.len(),
        total_ns as f64 / 1e6,
        longest_ns.max().unwrap_or(0) as f64 / 1e6
    );
    // Equal by weight is the ideal where nobody sleeps, and also where all sleep, but want more than there is.
    let all_sleep = hogs.iter().all(|hog| hog.burst.is_some());
    let compared = || {
        hogs.iter()
            .zip(outcomes)
            .filter(|(hog, _)| all_sleep || hog.burst.is_none())
    };
    let per_weight =
        || compared().map(|(hog, outcome)| outcome.account.cpu_ns as f64 / f64::from(hog.weight()));
    let (least, most) = (
        per_weight().fold(f64::INFINITY, f64::min),
        per_weight().fold(0.0, f64::max),
    );
    if compared().count() > 1 {
        let cpu_ms = || compared().map(|(_, outcome)| outcome.account.cpu_ns as f64 / 1e6);
        print!(
            " min_cpu_ms={:.3} max_cpu_ms={:.3} max_over_min={:.4}",
            cpu_ms().fold(f64::INFINITY, f64::min),
            cpu_ms().fold(0.0, f64::max),
            most / least
        );
    }
    if let Some(deviation) = deviations(hogs, outcomes)
        .ok()
        .and_then(|d| d.into_iter().map(|d| d.1.abs()).reduce(f64::max))
    {
        print!(" worst_share_deviation_pct={deviation:.2}");
    }
    println!();
}

/// (hog, percent by which it got more than its share of what its group got).
fn deviations(hogs: &[Hog], outcomes: &[Outcome]) -> Result<Vec<(usize, f64)>> {
    let mut found = Vec::new();
    for (cpus, members) in spec::groups(hogs)? {
        let nr_cpus = if cpus.is_empty() {
            sys::nr_cpus()
        } else {
            cpus.len()
        };
        let weights: Vec<u32> = members.iter().map(|&i| hogs[i].weight()).collect();
        let total: f64 = members
            .iter()
            .map(|&i| outcomes[i].account.cpu_ns as f64)
            .sum();
        let shares = spec::ideal_shares(&weights, nr_cpus);
        let entitled: f64 = shares.iter().sum();
        for (&i, share) in members.iter().zip(shares) {
            let ideal = total * share / entitled;
            found.push((i, (outcomes[i].account.cpu_ns as f64 / ideal - 1.0) * 100.0));
        }
    }
    Ok(found)
}

fn check_shares(hogs: &[Hog], outcomes: &[Outcome], percent: f64) -> Result<bool> {
    let mut passed = true;
    for (i, deviation) in deviations(hogs, outcomes)? {
        // A total of 0 gives NaN, which is no pass either.
        if deviation.is_nan() || deviation.abs() > percent {
            println!(
                "offender hog={i} nice={} deviation_pct={deviation:.2} allowed_pct={percent}",
                hogs[i].nice
            );
            passed = false;
        }
    }
    Ok(passed && outcomes.iter().all(|outcome| outcome.reported))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(cpu_ns: u64) -> Outcome {
        let account = Account {
            cpu_ns,
            windows_ns: vec![cpu_ns / 2, cpu_ns / 2],
            runs: Hist::new(),
            waits: Hist::new(),
            wakes: Hist::new(),
            voluntary: 1,
            involuntary: 2,
        };
        Outcome {
            account,
            run_delay_ns: 0,
            reported: true,
        }
    }

    #[test]
    fn reports_survive_the_pipe() {
        let mut sent = outcome(1000).account;
        sent.runs.record(77);
        let got = parse_report(&report(&sent)).unwrap();
        assert_eq!((got.cpu_ns, got.voluntary, got.involuntary), (1000, 1, 2));
        assert_eq!(
            (got.windows_ns.as_slice(), got.runs.max()),
            (&[500, 500][..], 77)
        );
        assert!(parse_report("1 2\n\n0 0\n0 0\n0 0").is_none());
    }

    #[test]
    fn shares_are_checked_by_weight() {
        let hogs = [
            spec::parse("cpu=0").unwrap(),
            spec::parse("cpu=0,nice=5").unwrap(),
        ]
        .concat();
        let fair = [outcome(1_024_000), outcome(335_000)];
        assert!(check_shares(&hogs, &fair, 1.0).unwrap());
        let equal = [outcome(500_000), outcome(500_000)];
        assert!(!check_shares(&hogs, &equal, 5.0).unwrap());
        assert!(!check_shares(&hogs, &[outcome(0), outcome(0)], 5.0).unwrap());
    }
}
