// SPDX-License-Identifier: GPL-2.0-only
//! Decides how our knobs follow the switches of the in-kernel scheduler: what `--features` accepts,
//! and what `--like-kernel` takes over from debugfs.
//!
//! The flags are those of Linux 7.3 (kernel/sched/features.h): the counterparts of our switches in
//! [`KNOBS`], and those of [`WITHOUT_KNOB`]. Files are read below a root folder, `/` but in tests.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use log::{debug, info};

use crate::knobs::{KNOBS, Knob, Setting};

const FEATURES: &str = "sys/kernel/debug/sched/features";
const BASE_SLICE: &str = "sys/kernel/debug/sched/base_slice_ns";

/// The flags that no knob of ours stands for, and why.
pub static WITHOUT_KNOB: [(&str, &str); 17] = [
    ("CACHE_HOT_BUDDY", "load balancer of the fair class"),
    (
        "PARANOID_AVG",
        "guards the kernel's sum against overflow, ours is bounded (bpf/eevdf.h)",
    ),
    ("HRTICK_DL", "deadline class"),
    ("NONTASK_CAPACITY", "load tracking"),
    ("SIS_UTIL", "the fair class's search for an idle CPU"),
    ("WARN_DOUBLE_CLOCK", "kernel debugging"),
    ("RT_PUSH_IPI", "realtime class"),
    ("RT_RUNTIME_SHARE", "realtime class"),
    ("LB_MIN", "load balancer of the fair class"),
    ("ATTACH_AGE_LOAD", "load tracking"),
    ("WA_IDLE", "the fair class's choice of a CPU at a wakeup"),
    ("WA_WEIGHT", "the fair class's choice of a CPU at a wakeup"),
    ("WA_BIAS", "the fair class's choice of a CPU at a wakeup"),
    ("UTIL_EST", "load tracking"),
    ("LATENCY_WARN", "kernel debugging"),
    ("NI_RANDOM", "load balancer of the fair class"),
    ("NI_RATE", "load balancer of the fair class"),
];

/// The value of one `--features`.
#[derive(Clone, Debug)]
pub struct FeatureList(pub Vec<Setting>);

/// Reads names of flags, `NO_` before one turns it off, with commas or blanks between them.
///
/// # Errors
/// Names the first word that sets no knob, and says why.
pub fn parse_list(text: &str) -> Result<FeatureList, String> {
    let settings = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(parse_flag)
        .collect::<Result<Vec<_>, _>>()?;
    if settings.is_empty() {
        return Err("takes a list such as NO_PLACE_LAG,PREEMPT_SHORT".to_string());
    }
    Ok(FeatureList(settings))
}

fn parse_flag(word: &str) -> Result<Setting, String> {
    let word = word.to_ascii_uppercase();
    let (flag, value) = split_value(&word);
    if let Some(knob) = switch_of(flag) {
        return Ok((knob, value));
    }
    match WITHOUT_KNOB.iter().find(|(name, _)| *name == flag) {
        Some((name, why)) => Err(format!(
            "{name} has no counterpart here: {why}; see README, Rules"
        )),
        None => Err(format!(
            "{flag} is no flag of the kernel's scheduler; accepted, also with NO_ before it: {}",
            names(switches())
        )),
    }
}

/// The slice and the switches of the in-kernel scheduler below `root`, as settings of our knobs.
///
/// # Errors
/// Names the file of debugfs that cannot be used, and what to do about it.
pub fn of_kernel(root: &Path) -> Result<Vec<Setting>> {
    let flags = read(root, FEATURES)?;
    let mut settings = vec![parse_slice(read(root, BASE_SLICE)?.trim())?];
    let mut skipped = Vec::new();
    for word in flags.split_whitespace() {
        let (flag, value) = split_value(word);
        match switch_of(flag) {
            Some(knob) => settings.push((knob, value)),
            None => skipped.push(word),
        }
    }
    debug!("--like-kernel: no knob for {}", skipped.join(" "));
    let missing =
        names(switches().filter(|knob| settings.iter().all(|(k, _)| k.name != knob.name)));
    if !missing.is_empty() {
        info!("--like-kernel: this kernel has no {missing}: left at the default");
    }
    Ok(settings)
}

/// The setting of the knob for the kernel's base slice, from the kernel's ns.
fn parse_slice(ns: &str) -> Result<Setting> {
    let bad = |why: &str| {
        anyhow!(
            "--like-kernel: /{BASE_SLICE} is {ns:?}: {why}: change it, or use --features and --slice-us instead"
        )
    };
    let knob = KNOBS
        .iter()
        .find(|knob| knob.kernel == "base_slice_ns")
        .context("no knob for the slice")?;
    let ns: u64 = ns.parse().map_err(|_| bad("not a number of ns"))?;
    let us = ns.saturating_add(500) / 1000;
    let value = knob.parse(&us.to_string()).map_err(|why| bad(&why))?;
    Ok((knob, value))
}

/// `NO_X` is X off, `X` is X on.
fn split_value(word: &str) -> (&str, u64) {
    word.strip_prefix("NO_").map_or((word, 1), |flag| (flag, 0))
}

/// The knobs that stand for a flag. Of ttwu_queue off is 0 and the kernel's own way is 1, too.
fn switches() -> impl Iterator<Item = &'static Knob> {
    KNOBS
        .iter()
        .filter(|knob| knob.kernel == knob.name.to_uppercase())
}

fn switch_of(flag: &str) -> Option<&'static Knob> {
    switches().find(|knob| knob.kernel == flag)
}

/// The kernel's names of some knobs, with blanks between them.
fn names(knobs: impl Iterator<Item = &'static Knob>) -> String {
    knobs.map(|knob| knob.kernel).collect::<Vec<_>>().join(" ")
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &str, error: &Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => {
            "not root, or a kernel in lockdown: use --features and --slice-us instead"
        }
        _ => {
            "mount debugfs (mount -t debugfs none /sys/kernel/debug; a kernel with CONFIG_DEBUG_FS has it)"
        }
    };
    anyhow!("--like-kernel: cannot read /{file}: {error}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_root::{FakeRoot, assert_refusal};
    use crate::knobs::Knobs;

    /// What debugfs shows on Linux 7.3.
    const LINUX_7_3: &str = "PLACE_LAG PLACE_DEADLINE_INITIAL PLACE_REL_DEADLINE RUN_TO_PARITY PREEMPT_SHORT \
         NO_NEXT_BUDDY PICK_BUDDY CACHE_HOT_BUDDY DELAY_DEQUEUE DELAY_ZERO NO_PARANOID_AVG \
         WAKEUP_PREEMPTION HRTICK HRTICK_DL NONTASK_CAPACITY TTWU_QUEUE SIS_UTIL \
         NO_WARN_DOUBLE_CLOCK NO_RT_PUSH_IPI NO_RT_RUNTIME_SHARE NO_LB_MIN ATTACH_AGE_LOAD WA_IDLE \
         WA_WEIGHT WA_BIAS UTIL_EST NO_LATENCY_WARN NI_RANDOM NI_RATE \n";

    /// A root folder with a kernel's debugfs.
    struct Machine(FakeRoot);

    impl Machine {
        fn new(test: &str, features: &str, base_slice_ns: &str) -> Self {
            let root = FakeRoot::new(&format!("features-{test}"));
            root.write(FEATURES, features);
            root.write(BASE_SLICE, base_slice_ns);
            Machine(root)
        }

        fn knobs(&self) -> Knobs {
            Knobs::defaults(8).with(&of_kernel(self.0.path()).expect("a good debugfs"))
        }

        #[track_caller]
        fn refuses_with(&self, parts: &[&str]) {
            assert_refusal(of_kernel(self.0.path()).expect_err("a refusal"), parts);
        }
    }

    fn set_by(list: &str) -> Knobs {
        Knobs::defaults(8).with(&parse_list(list).expect(list).0)
    }

    #[test]
    fn every_flag_of_the_kernel_has_a_knob_or_a_reason() {
        let mut known: Vec<&str> = switches().map(|knob| knob.kernel).collect();
        known.extend(WITHOUT_KNOB.map(|(flag, _)| flag));
        let mut flags: Vec<&str> = LINUX_7_3
            .split_whitespace()
            .map(|word| split_value(word).0)
            .collect();
        known.sort_unstable();
        flags.sort_unstable();
        assert_eq!(known, flags);
    }

    #[test]
    fn commas_and_blanks_and_either_case_are_accepted() {
        let expected = Knobs {
            place_lag: false,
            next_buddy: true,
            ..Knobs::defaults(8)
        };
        for list in [
            "NO_PLACE_LAG,NEXT_BUDDY",
            "no_place_lag next_buddy",
            " ,No_Place_Lag,, NEXT_BUDDY\n",
        ] {
            assert_eq!(set_by(list), expected, "{list:?}");
        }
    }

    #[test]
    fn every_flag_with_a_knob_can_be_set_both_ways() {
        for knob in switches() {
            assert_eq!(set_by(knob.kernel).get(knob), 1);
            assert_eq!(set_by(&format!("NO_{}", knob.kernel)).get(knob), 0);
        }
    }

    #[test]
    fn the_later_of_two_wins() {
        assert!(!set_by("PLACE_LAG,NO_PLACE_LAG").place_lag);
        assert!(set_by("NO_PLACE_LAG,PLACE_LAG").place_lag);
    }

    #[test]
    fn a_flag_without_a_knob_is_refused_with_the_reason() {
        for (flag, why) in WITHOUT_KNOB {
            for list in [format!("PLACE_LAG,{flag}"), format!("no_{flag}")] {
                let message = parse_list(&list).expect_err(flag);
                assert!(message.starts_with(flag), "{message}");
                assert!(message.contains(why), "{message}");
            }
        }
    }

    #[test]
    fn an_unknown_word_is_named_and_the_flags_are_listed() {
        for word in ["PLACE_LAGG", "NO_NO_PLACE_LAG", "BASE_SLICE_NS", "+", "NO_"] {
            let message = parse_list(word).expect_err(word);
            assert!(
                message.starts_with(split_value(word).0)
                    && message.contains("no flag of the kernel"),
                "{message}"
            );
            assert!(switches().all(|knob| message.contains(knob.kernel)));
        }
    }

    #[test]
    fn an_empty_list_is_refused() {
        for empty in ["", " ", ",,"] {
            assert!(parse_list(empty).is_err());
        }
    }

    #[test]
    fn a_kernel_at_its_defaults_gives_ours() {
        let machine = Machine::new("defaults", LINUX_7_3, "2800000\n");
        assert_eq!(machine.knobs(), Knobs::defaults(8));
    }

    #[test]
    fn what_the_kernel_has_switched_is_taken_over() {
        let machine = Machine::new(
            "switched",
            "NO_PLACE_LAG NEXT_BUDDY NO_HRTICK NO_TTWU_QUEUE SOMETHING_NEW",
            "3000000\n",
        );
        let expected = Knobs {
            slice_us: 3000,
            place_lag: false,
            next_buddy: true,
            hrtick: false,
            ttwu_queue: 0,
            ..Knobs::defaults(8)
        };
        assert_eq!(machine.knobs(), expected);
    }

    #[test]
    fn a_flag_that_the_kernel_lacks_leaves_the_default() {
        let without = LINUX_7_3.replace("PICK_BUDDY ", "");
        let machine = Machine::new("lacks", &without, "2800000\n");
        assert!(machine.knobs().pick_buddy);
    }

    #[test]
    fn a_slice_is_rounded_to_whole_microseconds() {
        for (ns, us) in [("2800499\n", 2800), ("2800500", 2801), ("99500", 100)] {
            assert_eq!(parse_slice(ns.trim()).expect(ns).1, us);
        }
    }

    #[test]
    fn a_slice_that_we_cannot_have_is_refused_with_the_range() {
        for ns in ["99499", "100000500", "1000000000", "0"] {
            Machine::new("slice", LINUX_7_3, &format!("{ns}\n")).refuses_with(&[
                "/sys/kernel/debug/sched/base_slice_ns",
                ns,
                "100..=100000 us",
                "--slice-us",
            ]);
        }
        Machine::new("noslice", LINUX_7_3, "fast\n").refuses_with(&["\"fast\"", "ns"]);
    }

    #[test]
    fn a_missing_debugfs_is_named_with_the_remedy() {
        let machine = Machine::new("missing", LINUX_7_3, "2800000\n");
        machine.0.remove(BASE_SLICE);
        machine.refuses_with(&["/sys/kernel/debug/sched/base_slice_ns"]);
        machine.0.remove("sys/kernel/debug/sched");
        machine.refuses_with(&[
            "--like-kernel",
            "/sys/kernel/debug/sched/features",
            "mount -t debugfs none /sys/kernel/debug",
        ]);
    }

    #[test]
    fn a_locked_debugfs_is_not_blamed_on_the_mount() {
        let message = unreadable(FEATURES, &Error::from(ErrorKind::PermissionDenied)).to_string();
        assert!(message.contains("/sys/kernel/debug/sched/features"));
        assert!(message.contains("lockdown") && !message.contains("mount"));
    }
}
