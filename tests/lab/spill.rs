// SPDX-License-Identifier: GPL-2.0-only
//! `lab spill`: tasks that sleep and run in turn, at home on the first node: their memory is there. Then hogs pinned to
//! that node's CPUs crowd it for a while. Do the tasks come back when the hogs are gone, and how soon?
//!
//! Only wakeups are looked at. Whether to leave home in the crowd is the scheduler's choice, there is no good or bad.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::child::{self, Gate};
use crate::hogs::spin;
use crate::nodes::Nodes;
use crate::sys::{self, NS_PER_MS, NS_PER_SEC, NS_PER_US, monotonic_ns, thread_cpu_ns};

#[derive(Args)]
pub struct Options {
    /// Tasks [default: as many as the first node has CPUs]
    #[arg(long)]
    tasks: Option<usize>,
    /// CPU time of a task between two sleeps, in us
    #[arg(long, default_value_t = 1000)]
    run_us: u64,
    /// Sleep of the first task in us; each further one sleeps 37 us longer, so that they do not keep step
    #[arg(long, default_value_t = 1000)]
    sleep_us: u64,
    /// Hogs on each CPU of the first node
    #[arg(long, default_value_t = 2)]
    hogs: usize,
    /// Memory of a task in KiB
    #[arg(long, default_value_t = 1024)]
    footprint_kib: usize,
    /// Seconds before, of, and after the crowd
    #[arg(long, value_delimiter = ',', num_args = 3, default_value = "1,1,2")]
    seconds: Vec<f64>,
}

/// The first node is home.
const HOME: usize = 0;

/// Wakeups are counted in slots; the tasks are back when that part of those in so many slots are at home.
const SLOT_NS: u64 = 10 * NS_PER_MS;
const BACK_SLOTS: usize = 10;
const BACK: f64 = 0.98;

/// What is called "after": a second.
const AFTER_SLOTS: usize = (NS_PER_SEC / SLOT_NS) as usize;

/// Wakeups in a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    all: u64,
    home: u64,
}

pub fn run(options: &Options) -> Result<()> {
    let nodes = Nodes::here();
    let home = nodes.cpus(HOME);
    if nodes.nr() < 2 || home.is_empty() {
        bail!("this needs CPUs on two nodes, one of them node {HOME}");
    }
    let nr_tasks = options.tasks.unwrap_or(home.len());
    let [before, crowd, after] = options.seconds[..] else {
        bail!("--seconds takes three numbers");
    };
    let slots = |seconds: f64| (seconds * NS_PER_SEC as f64) as usize / SLOT_NS as usize;
    let (crowd_from, crowd_to) = (slots(before), slots(before) + slots(crowd));
    let nr_slots = crowd_to + slots(after);

    let gate = Gate::new()?;
    let mut children = Vec::new();
    for index in 0..nr_tasks {
        let sleep_ns = (options.sleep_us + 37 * index as u64) * NS_PER_US;
        children.push(child::spawn(|| {
            task(options, &nodes, &gate, sleep_ns, nr_slots)
        })?);
    }
    for &cpu in home.iter().flat_map(|cpu| vec![cpu; options.hogs]) {
        children.push(child::spawn(|| {
            let pinned = sys::pin(&[cpu]);
            let start_ns = gate.wait()?;
            pinned?;
            hog(start_ns, crowd_from as u64, crowd_to as u64)
        })?);
    }
    let end_ns = gate.open(children.len(), 0)? + nr_slots as u64 * SLOT_NS;
    let mut sum = vec![Slot::default(); nr_slots];
    for child in &mut children[..nr_tasks] {
        let report = child
            .finish(end_ns + 20 * NS_PER_SEC)?
            .context("a task did not end in time")?;
        add(&mut sum, &report).with_context(|| format!("a task's report: {report:?}"))?;
    }
    let back_ms = slots_until_back(&sum[crowd_to..]) as u64 * SLOT_NS / NS_PER_MS;
    let after = &sum[crowd_to..nr_slots.min(crowd_to + AFTER_SLOTS)];
    println!(
        "tasks={nr_tasks} hogs={} wakeups={} before_home_pct={:.2} crowd_home_pct={:.2} after_home_pct={:.2} back_ms={back_ms}",
        children.len() - nr_tasks,
        sum.iter().map(|slot| slot.all).sum::<u64>(),
        home_pct(&sum[..crowd_from]),
        home_pct(&sum[crowd_from..crowd_to]),
        home_pct(after)
    );
    Ok(())
}

/// Touches its memory at home, then may go anywhere.
fn task(
    options: &Options,
    nodes: &Nodes,
    gate: &Gate,
    sleep_ns: u64,
    nr_slots: usize,
) -> Result<String> {
    sys::exact_timers();
    let pinned = sys::pin(&nodes.cpus(HOME));
    let memory = vec![1u8; options.footprint_kib.max(1) * 1024];
    let start_ns = gate.wait()?;
    pinned?;
    sys::pin(&(0..nodes.nr_cpus()).collect::<Vec<usize>>())?;
    let mut slots = vec![Slot::default(); nr_slots];
    let mut lines = memory.iter().step_by(64).cycle();
    loop {
        sys::sleep_until(monotonic_ns() + sleep_ns);
        let at = ((monotonic_ns() - start_ns) / SLOT_NS) as usize;
        let Some(slot) = slots.get_mut(at) else {
            break;
        };
        slot.all += 1;
        slot.home += u64::from(nodes.current() == HOME);
        let end_ns = thread_cpu_ns() + options.run_us * NS_PER_US;
        while thread_cpu_ns() < end_ns {
            spin::work();
            std::hint::black_box(lines.next());
        }
    }
    let words = slots
        .iter()
        .map(|slot| format!("{}/{}", slot.home, slot.all));
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn hog(start_ns: u64, from_slot: u64, to_slot: u64) -> Result<String> {
    sys::sleep_until(start_ns + from_slot * SLOT_NS);
    let end_ns = start_ns + to_slot * SLOT_NS;
    while monotonic_ns() < end_ns {
        spin::work();
    }
    Ok(String::new())
}

fn add(sum: &mut [Slot], report: &str) -> Option<()> {
    for (slot, word) in sum.iter_mut().zip(report.split_whitespace()) {
        let (home, all) = word.split_once('/')?;
        slot.home += home.parse::<u64>().ok()?;
        slot.all += all.parse::<u64>().ok()?;
    }
    Some(())
}

fn home_pct(slots: &[Slot]) -> f64 {
    let all: u64 = slots.iter().map(|slot| slot.all).sum();
    let home: u64 = slots.iter().map(|slot| slot.home).sum();
    100.0 * home as f64 / all as f64
}

/// Slots to the end of the first stretch that was spent at home; all of them when there is none.
fn slots_until_back(slots: &[Slot]) -> usize {
    slots
        .windows(BACK_SLOTS)
        .position(|stretch| home_pct(stretch) >= 100.0 * BACK)
        .map_or(slots.len(), |first| first + BACK_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(homes: &[u64]) -> Vec<Slot> {
        homes.iter().map(|&home| Slot { all: 10, home }).collect()
    }

    #[test]
    fn back_is_a_whole_stretch_at_home() {
        assert_eq!(slots_until_back(&slots(&[10; 30])), BACK_SLOTS);
        let mut homes = [10; 30];
        homes[..5].fill(0);
        homes[12] = 8;
        // Slot 12 alone is two in a hundred, and no more are allowed.
        assert_eq!(slots_until_back(&slots(&homes)), 5 + BACK_SLOTS);
        homes[13] = 9;
        assert_eq!(slots_until_back(&slots(&homes)), 13 + BACK_SLOTS);
        assert_eq!(slots_until_back(&slots(&[5; 30])), 30);
        assert_eq!(slots_until_back(&[Slot::default(); 20]), 20);
    }

    #[test]
    fn reports_add_up() {
        let mut sum = slots(&[1, 2]);
        add(&mut sum, "3/4 0/5").unwrap();
        assert_eq!((sum[0].home, sum[0].all, sum[1].all), (4, 14, 15));
        assert!((home_pct(&sum) - 100.0 * 6.0 / 29.0).abs() < 1e-9);
        assert!(add(&mut sum, "3").is_none());
    }
}
