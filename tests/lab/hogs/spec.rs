// SPDX-License-Identifier: GPL-2.0-only
//! What a hog is (`--hog SPEC`) and what share of its CPUs it is entitled to.

use anyhow::{Context, Result, bail};

use crate::sys;

/// Weight of nice -20 .. 19, as the kernel's sched_prio_to_weight.
const NICE_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];
const IDLE_WEIGHT: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    Other,
    Batch,
    Idle,
}

impl Policy {
    pub fn number(self) -> libc::c_int {
        match self {
            Policy::Other => libc::SCHED_OTHER,
            Policy::Batch => libc::SCHED_BATCH,
            Policy::Idle => libc::SCHED_IDLE,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hog {
    pub name: String,
    pub nice: i32,
    /// Empty: not pinned.
    pub cpus: Vec<usize>,
    pub policy: Policy,
    /// 0: the scheduler's default slice.
    pub slice_us: u64,
    /// (run, sleep) in us; None: never sleeps.
    pub burst: Option<(u64, u64)>,
    /// Calls sched_yield all the time.
    pub yields: bool,
    /// (nice, ms after the start): what another process does to it.
    pub renices: Vec<(i32, u64)>,
    /// Every so many us another process changes its policy from other to batch or back, which takes it off its queue
    /// and puts it there again; 0: nobody does.
    pub poke_us: u64,
}

impl Hog {
    pub fn weight(&self) -> u32 {
        match self.policy {
            Policy::Idle => IDLE_WEIGHT,
            Policy::Other | Policy::Batch => NICE_WEIGHT[(self.nice + 20) as usize],
        }
    }

    pub fn pinned_text(&self) -> String {
        if self.cpus.is_empty() {
            return "-".to_string();
        }
        self.cpus
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join("+")
    }
}

/// One SPEC as the hogs it stands for (`count=K` gives K).
pub fn parse(spec: &str) -> Result<Vec<Hog>> {
    let mut hog = Hog {
        name: "hog".into(),
        nice: 0,
        cpus: Vec::new(),
        policy: Policy::Other,
        slice_us: 0,
        burst: None,
        yields: false,
        renices: Vec::new(),
        poke_us: 0,
    };
    let (mut count, mut run_us, mut sleep_us) = (1, None, None);
    for part in join_cpu_lists(spec) {
        let (key, value) = part
            .split_once('=')
            .with_context(|| format!("--hog {spec:?}: {part:?} has no '='"))?;
        let number = || {
            value
                .parse::<u64>()
                .with_context(|| format!("--hog {spec:?}: {part:?}"))
        };
        match key {
            "name" => hog.name = value.to_string(),
            "nice" => hog.nice = parse_nice(value).with_context(|| format!("--hog {spec:?}"))?,
            "renice" => {
                let (nice, ms) = value
                    .split_once('@')
                    .with_context(|| format!("--hog {spec:?}: want renice=NICE@MS"))?;
                let nice = parse_nice(nice).with_context(|| format!("--hog {spec:?}"))?;
                let ms = ms
                    .parse()
                    .with_context(|| format!("--hog {spec:?}: {part:?}"))?;
                hog.renices.push((nice, ms));
            }
            "cpu" | "cpus" => hog.cpus = sys::parse_cpus(value)?,
            "policy" => hog.policy = parse_policy(value)?,
            "slice_us" => hog.slice_us = number()?,
            "yields" => hog.yields = number()? != 0,
            "poke_us" => hog.poke_us = number()?,
            "run_us" => run_us = Some(number()?),
            "sleep_us" => sleep_us = Some(number()?),
            "count" => count = number()?,
            _ => bail!("--hog {spec:?}: unknown key {key:?}"),
        }
    }
    hog.burst = match (run_us, sleep_us) {
        (Some(run), Some(sleep)) => Some((run, sleep)),
        (None, None) => None,
        _ => bail!("--hog {spec:?}: run_us and sleep_us go together"),
    };
    Ok(vec![hog; count as usize])
}

/// Splits at commas, but leaves "cpus=0,2-3" whole: a part that starts with a digit belongs to the one before.
fn join_cpu_lists(spec: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in spec
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match parts.last_mut() {
            Some(last) if part.starts_with(|c: char| c.is_ascii_digit()) => {
                last.push(',');
                last.push_str(part);
            }
            _ => parts.push(part.to_string()),
        }
    }
    parts
}

fn parse_nice(value: &str) -> Result<i32> {
    let nice = value.parse().with_context(|| format!("nice {value:?}"))?;
    if !(-20..=19).contains(&nice) {
        bail!("nice {nice}: -20 to 19");
    }
    Ok(nice)
}

fn parse_policy(value: &str) -> Result<Policy> {
    match value {
        "other" => Ok(Policy::Other),
        "batch" => Ok(Policy::Batch),
        "idle" => Ok(Policy::Idle),
        _ => bail!("policy {value:?}: other, batch or idle"),
    }
}

/// Ideal parts of a whole of 1 that `nr_cpus` CPUs give, by weight. Nobody can use more than one CPU: who would
/// get more is cut to 1/nr_cpus and the rest is shared out again among the others.
pub fn ideal_shares(weights: &[u32], nr_cpus: usize) -> Vec<f64> {
    let full = 1.0 / nr_cpus as f64;
    let mut shares = vec![0.0; weights.len()];
    let mut capped = vec![false; weights.len()];
    loop {
        let left = 1.0 - full * capped.iter().filter(|&&c| c).count() as f64;
        let sum: f64 = weights
            .iter()
            .zip(&capped)
            .filter(|(_, c)| !**c)
            .map(|(&w, _)| f64::from(w))
            .sum();
        let mut settled = true;
        for i in 0..weights.len() {
            if capped[i] {
                continue;
            }
            shares[i] = left * f64::from(weights[i]) / sum;
            if shares[i] > full * (1.0 + 1e-9) {
                shares[i] = full;
                capped[i] = true;
                settled = false;
            }
        }
        if settled {
            return shares;
        }
    }
}

/// Hogs that never sleep, by the CPUs they are pinned to: (CPUs, indices). Groups that share some CPUs but not
/// all have no simple ideal and are refused, as are hogs whose weight changes.
pub fn groups(hogs: &[Hog]) -> Result<Vec<(Vec<usize>, Vec<usize>)>> {
    if hogs.iter().any(|hog| !hog.renices.is_empty()) {
        bail!("hogs that are reniced have no simple ideal share");
    }
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (i, hog) in hogs
        .iter()
        .enumerate()
        .filter(|(_, hog)| hog.burst.is_none())
    {
        match groups.iter_mut().find(|(cpus, _)| *cpus == hog.cpus) {
            Some((_, members)) => members.push(i),
            None => groups.push((hog.cpus.clone(), vec![i])),
        }
    }
    for (i, (a, _)) in groups.iter().enumerate() {
        for (b, _) in &groups[i + 1..] {
            if a.is_empty() || b.is_empty() || a.iter().any(|cpu| b.contains(cpu)) {
                bail!("hogs on overlapping but different CPUs have no simple ideal share");
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_with_everything() {
        let hogs = parse(
            "name=db,nice=-5,cpus=0,2-3,policy=batch,slice_us=3000,run_us=10,sleep_us=20,renice=-3@40,renice=1@50,poke_us=7,count=2",
        )
        .unwrap();
        assert_eq!(hogs.len(), 2);
        let hog = &hogs[1];
        assert_eq!(
            (hog.renices.as_slice(), hog.poke_us, hog.yields),
            (&[(-3, 40), (1, 50)][..], 7, false)
        );
        assert_eq!(
            (hog.name.as_str(), hog.nice, hog.policy),
            ("db", -5, Policy::Batch)
        );
        assert_eq!(
            (hog.cpus.as_slice(), hog.slice_us, hog.burst),
            (&[0, 2, 3][..], 3000, Some((10, 20)))
        );
        assert_eq!((hog.weight(), hog.pinned_text().as_str()), (3121, "0+2+3"));
    }

    #[test]
    fn bad_specs() {
        for spec in [
            "nice",
            "nice=20",
            "renice=5",
            "renice=20@5",
            "color=red",
            "run_us=5",
            "policy=fifo",
            "cpu=x",
            "3",
        ] {
            assert!(parse(spec).is_err(), "{spec}");
        }
        assert_eq!(parse("").unwrap()[0].weight(), 1024);
        assert_eq!(parse("policy=idle").unwrap()[0].weight(), 3);
        assert_eq!(
            (
                parse("nice=19").unwrap()[0].weight(),
                parse("nice=-20").unwrap()[0].weight()
            ),
            (15, 88761)
        );
    }

    #[test]
    fn ideals() {
        assert_eq!(ideal_shares(&[1024, 1024], 1), [0.5, 0.5]);
        let lab = ideal_shares(&[1024, 1024, 335, 3121], 1);
        assert!((lab[3] * 6000.0 - 3402.0).abs() < 1.0, "{lab:?}");
        // One heavy hog on two CPUs fills one; the two others share the second.
        assert_eq!(ideal_shares(&[88761, 1024, 1024], 2), [0.5, 0.25, 0.25]);
        // Fewer hogs than CPUs: each has its own.
        assert_eq!(ideal_shares(&[1024, 15], 4), [0.25, 0.25]);
    }

    #[test]
    fn groups_by_cpus() {
        let hogs = |specs: &[&str]| {
            specs
                .iter()
                .flat_map(|s| parse(s).unwrap())
                .collect::<Vec<_>>()
        };
        let found = groups(&hogs(&[
            "cpu=0,count=2",
            "cpu=1",
            "cpu=0,run_us=1,sleep_us=1",
        ]))
        .unwrap();
        assert_eq!(found, [(vec![0], vec![0, 1]), (vec![1], vec![2])]);
        assert!(groups(&hogs(&["cpu=0", "nice=1"])).is_err());
        assert!(groups(&hogs(&["renice=1@5"])).is_err());
        assert!(groups(&hogs(&["cpus=0-1", "cpus=1-2"])).is_err());
    }
}
