// SPDX-License-Identifier: GPL-2.0-only
//! Decides what the command line looks like. The options of the knobs are made from
//! [`crate::knobs::KNOBS`]; everything else stands here.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand};
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::features::{self, FeatureList};
use crate::knobs::{Domain, KNOBS, Knob, Knobs, Setting};

const ABOUT: &str = "EEVDF scheduler for sched_ext with switchable rules

Without a command it replaces the kernel's fair scheduler while it runs: start it as root, stop it
with Ctrl-C or SIGTERM. On any exit, also a crash or SysRq-S, the kernel's own scheduler takes over
again.";

const AFTER_HELP: &str =
    "Of a knob's values its own option counts first, then --features, then --like-kernel, then the
default, in whatever order they are given.

Exit codes:
  0  asked to stop: SIGINT, SIGTERM, SIGHUP, SysRq-S, or unregistered; or the command succeeded
  1  failure: cannot start, the kernel ejected the scheduler, or the command failed; one line on
     stderr says why
  2  usage";

const KNOBS_HEADING: &str = "Knobs";
const LIBBPF_HEADING: &str = "Libbpf Options";

/// Largest state dump, bytes; the kernel allocates it when we attach.
const LONGEST_DUMP: i64 = 16 << 20;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "scx_eevdfx",
    version,
    about = "EEVDF scheduler for sched_ext with switchable rules",
    long_about = ABOUT,
    after_help = AFTER_HELP,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    mut_args(shorten_help)
)]
pub struct Cli {
    /// What to do instead of running the scheduler.
    #[command(subcommand)]
    pub action: Option<Action>,

    #[allow(missing_docs)]
    #[command(flatten)]
    pub options: Options,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show which CPUs belong together, as the scheduler sees it
    ///
    /// Nodes with their distances, last-level caches (LLCs) and cores. Runs as any user, and on
    /// kernels without sched_ext. An LLC that spans nodes counts as one in each of them; a node is
    /// taken to be 20 away where the firmware does not say. Nodes of memory alone are left out.
    Topology {
        /// Print JSON, on one line
        #[arg(long)]
        json: bool,
    },
}

/// How the scheduler is to run.
#[derive(Debug, Args)]
pub struct Options {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub knobs: KnobArgs,

    /// Set knobs by the kernel's names of them: NO_PLACE_LAG,PREEMPT_SHORT
    ///
    /// LIST is flags as debugfs sched/features spells them, NO_ before one that is to be off, with
    /// commas or blanks between them, in either case. Of two about the same knob the later counts,
    /// and so of two lists. A flag of the kernel that no knob stands for is refused.
    #[arg(
        long,
        value_name = "LIST",
        value_parser = features::parse_list,
        help_heading = KNOBS_HEADING
    )]
    pub features: Vec<FeatureList>,

    /// Set knobs as the in-kernel scheduler of this machine has them now
    ///
    /// Takes over base_slice_ns and features of /sys/kernel/debug/sched, which tell of the in-kernel
    /// scheduler also while it is replaced. Flags without a knob do not matter; a knob whose flag
    /// this kernel does not have keeps its default.
    #[arg(long, help_heading = KNOBS_HEADING)]
    pub like_kernel: bool,

    /// Print what the scheduler did to stdout every SEC seconds
    ///
    /// One line of counters per interval, each the increase since the line before. Fractions are
    /// allowed.
    #[arg(long, value_name = "SEC", value_parser = seconds, allow_negative_numbers = true)]
    pub stats: Option<Duration>,

    /// Log more, libbpf's own messages too
    #[arg(short, long)]
    pub verbose: bool,

    /// Size of the state dump that the kernel makes when it ejects the scheduler [0: kernel default, 32768]
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        hide_default_value = true, value_parser = clap::value_parser!(u32).range(..=LONGEST_DUMP)
    )]
    pub exit_dump_len: u32,

    #[allow(missing_docs)]
    #[command(flatten, next_help_heading = LIBBPF_HEADING)]
    pub libbpf: LibbpfOpts,
}

impl Options {
    /// The values to start with, from `defaults` and what the command line says. The kernel's own
    /// are read below `root`.
    ///
    /// # Errors
    /// Fails when the kernel's own are asked for and cannot be had.
    pub fn knobs(&self, root: &Path, defaults: Knobs) -> Result<Knobs> {
        let mut knobs = defaults;
        if self.like_kernel {
            knobs = knobs.with(&features::of_kernel(root)?);
        }
        for list in &self.features {
            knobs = knobs.with(&list.0);
        }
        Ok(knobs.with(&self.knobs.given))
    }
}

/// The knobs that were set by options of their own.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    given: Vec<Setting>,
}

impl FromArgMatches for KnobArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KNOBS
            .iter()
            .filter_map(|knob| Some((knob, value_of(knob, matches)?)));
        Ok(KnobArgs {
            given: given.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for KnobArgs {
    fn augment_args(cmd: Command) -> Command {
        KNOBS.iter().flat_map(options).fold(cmd, Command::arg)
    }

    fn augment_args_for_update(cmd: Command) -> Command {
        Self::augment_args(cmd)
    }
}

/// What the command line says about `knob`. Of an on/off pair clap keeps only the later one.
fn value_of(knob: &Knob, matches: &ArgMatches) -> Option<u64> {
    match knob.domain {
        Domain::Number { .. } | Domain::Choice { .. } => matches.get_one(knob.option).copied(),
        Domain::Switch { .. } if matches.get_flag(knob.option) => Some(1),
        Domain::Switch { off } if matches.get_flag(off) => Some(0),
        Domain::Switch { .. } => None,
    }
}

/// The option of a number; the two options of a switch.
fn options(knob: &'static Knob) -> Vec<Arg> {
    let option = |name: &'static str| Arg::new(name).long(name).help_heading(KNOBS_HEADING);
    match knob.domain {
        Domain::Number { unit, .. } => vec![
            option(knob.option)
                .value_name("N")
                .value_parser(|text: &str| knob.parse(text))
                .allow_negative_numbers(true)
                .help(format!("{}, {} [default: {}]", knob.summary, knob.range(), knob.default))
                .long_help(format!(
                    "{}, {}\n\nMore {unit}: {}.\nFewer {unit}: {}.\n\nThe kernel's counterpart is {}.\n\n[default: {}]",
                    knob.summary, knob.range(), knob.up, knob.down, knob.kernel, knob.default
                )),
        ],
        Domain::Choice { words } => vec![
            option(knob.option)
                .value_name("WORD")
                .value_parser(|text: &str| knob.parse(text))
                .help(format!("{}: {} [default: {}]", knob.summary, knob.range(), knob.default))
                .long_help(format!(
                    "{}: {}\n\nFrom {} towards {}: {}.\nThe other way: {}.\n\nThe kernel's counterpart is {}.\n\n[default: {}]",
                    knob.summary,
                    knob.range(),
                    words[0],
                    words[words.len() - 1],
                    knob.up,
                    knob.down,
                    knob.kernel,
                    knob.default
                )),
        ],
        Domain::Switch { off } => vec![
            option(knob.option)
                .action(ArgAction::SetTrue)
                .overrides_with(off)
                .help(format!("{} [default: {}]", knob.summary, knob.default))
                .long_help(format!(
                    "{} [default: {}]\n\nOn: {}.\nOff: {}.\n\nThe kernel's counterpart is {}. Of the two options the later wins.",
                    knob.summary, knob.default, knob.up, knob.down, knob.kernel
                )),
            option(off)
                .action(ArgAction::SetTrue)
                .overrides_with(knob.option)
                .help(format!("Turn {} off", knob.name)),
        ],
    }
}

/// Leaves the options that only libbpf's own users need to the long help.
fn shorten_help(arg: Arg) -> Arg {
    let is_libbpf = arg.get_help_heading() == Some(LIBBPF_HEADING);
    arg.hide_short_help(is_libbpf)
}

/// Reads an interval in seconds, above 0 and up to a day.
fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|sec| *sec > 0.0 && *sec <= 86_400.0)
        .and_then(|sec| Duration::try_from_secs_f64(sec).ok())
        .filter(|interval| !interval.is_zero())
        .ok_or_else(|| "takes seconds, more than 0 and at most 86400".to_string())
}

#[cfg(test)]
mod tests {
    use crate::fake_root::FakeRoot;

    use clap::CommandFactory;

    use super::*;

    fn knobs(line: &[&str]) -> Knobs {
        let cli =
            Cli::try_parse_from([&["scx_eevdfx"], line].concat()).expect("a good command line");
        cli.options
            .knobs(Path::new("/nonexistent"), Knobs::defaults(8))
            .expect("no file is needed")
    }

    #[track_caller]
    fn refused(line: &[&str]) -> String {
        let error =
            Cli::try_parse_from([&["scx_eevdfx"], line].concat()).expect_err("a bad command line");
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_given_leaves_the_defaults() {
        assert_eq!(knobs(&[]), Knobs::defaults(8));
    }

    #[test]
    fn the_last_of_a_pair_wins() {
        assert!(!knobs(&["--place-lag", "--no-place-lag"]).place_lag);
        assert!(knobs(&["--no-place-lag", "--place-lag"]).place_lag);
        assert!(!knobs(&["--no-place-lag", "--place-lag", "--no-place-lag"]).place_lag);
        assert!(!knobs(&["--no-place-lag", "--no-place-lag"]).place_lag);
    }

    #[test]
    fn the_last_slice_wins() {
        assert_eq!(
            knobs(&["--slice-us", "3000", "--slice-us=6440"]).slice_us,
            6440
        );
    }

    #[test]
    fn a_knobs_own_option_wins_over_features_in_any_order() {
        for line in [
            ["--features", "NO_PLACE_LAG,NEXT_BUDDY", "--place-lag"],
            ["--place-lag", "--features", "no_place_lag next_buddy"],
        ] {
            let knobs = knobs(&line);
            assert!(knobs.place_lag && knobs.next_buddy, "{line:?}");
        }
    }

    #[test]
    fn features_add_up_and_the_last_wins() {
        let knobs = knobs(&[
            "--features",
            "NO_HRTICK,NO_PLACE_LAG",
            "--features=NO_DELAY_ZERO,PLACE_LAG",
        ]);
        assert!(!knobs.hrtick && !knobs.delay_zero && knobs.place_lag);
    }

    #[test]
    fn the_kernels_values_give_way_to_features_and_options_in_any_order() {
        let root = FakeRoot::new("cli");
        let sched = "sys/kernel/debug/sched";
        root.write(&format!("{sched}/base_slice_ns"), "3000000\n");
        root.write(
            &format!("{sched}/features"),
            "NO_PLACE_LAG NO_HRTICK NO_DELAY_ZERO \n",
        );
        let expected = Knobs {
            slice_us: 3000,
            delay_zero: false,
            hrtick: true,
            ..Knobs::defaults(8)
        };
        for line in [
            "--like-kernel --features NO_PLACE_LAG,HRTICK --place-lag",
            "--place-lag --features NO_PLACE_LAG,HRTICK --like-kernel",
        ] {
            let words = ["scx_eevdfx"].into_iter().chain(line.split(' '));
            let cli = Cli::try_parse_from(words).expect("a good command line");
            let knobs = cli
                .options
                .knobs(root.path(), Knobs::defaults(8))
                .expect("a good tree");
            assert_eq!(knobs, expected, "{line}");
        }
    }

    #[test]
    fn a_debugfs_that_is_missing_matters_only_to_like_kernel() {
        let cli = Cli::try_parse_from(["scx_eevdfx", "--like-kernel"]).expect("a good line");
        let error = cli
            .options
            .knobs(Path::new("/nonexistent"), Knobs::defaults(8))
            .expect_err("nothing to read");
        assert!(error.to_string().starts_with("--like-kernel: cannot read"));
    }

    #[test]
    fn a_bad_feature_is_a_usage_error_that_names_it() {
        for (list, named) in [
            ("PLACE_LAG,CACHE_HOT_BUDDY", "CACHE_HOT_BUDDY"),
            ("NO_PLACE_LAGG", "PLACE_LAGG"),
            ("", "--features"),
        ] {
            let message = refused(&["--features", list]);
            assert!(message.contains(named), "{message}");
        }
    }

    #[test]
    fn every_knob_has_its_options_and_help_in_both_directions() {
        let help = Cli::command().render_long_help().to_string();
        let flat = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for knob in &KNOBS {
            assert!(
                help.contains(&format!("--{}", knob.option)),
                "{}",
                knob.name
            );
            for effect in [knob.up, knob.down] {
                assert!(flat.contains(effect), "{}: {effect}", knob.name);
            }
            if let Domain::Switch { off } = knob.domain {
                assert!(help.contains(&format!("--{off}")), "{}", knob.name);
            }
        }
    }

    #[test]
    fn a_bad_slice_names_the_option_and_the_range() {
        for bad in ["99", "100001", "-5", "fast", "2.5"] {
            let message = refused(&["--slice-us", bad]);
            let line = message.lines().next().unwrap_or_default();
            assert!(
                line.contains("--slice-us") && line.contains("100..=100000 us"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_subcommand_takes_no_options_of_the_scheduler() {
        for line in [
            &["--slice-us", "3000", "topology"][..],
            &["--no-place-lag", "topology"],
            &["--verbose", "topology", "--json"],
            &["topology", "--slice-us", "3000"],
            &["topology", "--no-place-lag"],
            &["topology", "stray"],
        ] {
            refused(line);
        }
        let cli = Cli::try_parse_from(["scx_eevdfx", "topology", "--json"]).expect("a good line");
        assert!(matches!(cli.action, Some(Action::Topology { json: true })));
        let cli = Cli::try_parse_from(["scx_eevdfx", "--verbose"]).expect("a good line");
        assert!(cli.action.is_none());
    }

    #[test]
    fn a_dump_larger_than_the_kernel_would_allocate_is_refused() {
        assert!(refused(&["--exit-dump-len", "4294967295"]).contains("--exit-dump-len"));
    }

    #[test]
    fn an_interval_is_a_positive_number_of_seconds() {
        for bad in ["0", "-1", "nan", "inf", "1e-300", "x", "1e9"] {
            assert!(refused(&["--stats", bad]).contains("--stats"), "{bad}");
        }
        let cli =
            Cli::try_parse_from(["scx_eevdfx", "--stats", "0.5"]).expect("a fraction is allowed");
        assert_eq!(cli.options.stats, Some(Duration::from_millis(500)));
    }
}
