// SPDX-License-Identifier: GPL-2.0-only
//! Decides what the command line looks like. The options of the knobs are made from
//! [`crate::knobs::KNOBS`]; everything else stands here.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Parser};
use scx_utils::libbpf_clap_opts::LibbpfOpts;

use crate::knobs::{Domain, KNOBS, Knob, Knobs};

const ABOUT: &str = "EEVDF scheduler for sched_ext with switchable rules

Replaces the kernel's fair scheduler while it runs: start it as root, stop it with Ctrl-C or
SIGTERM. On any exit, also a crash or SysRq-S, the kernel's own scheduler takes over again.";

const AFTER_HELP: &str = "Exit codes:
  0  asked to stop: SIGINT, SIGTERM, SIGHUP, SysRq-S, or unregistered
  1  failure: cannot start, or the kernel ejected the scheduler; one line on stderr says why
  2  usage";

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
    mut_args(shorten_help)
)]
pub struct Cli {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub knobs: KnobArgs,

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

/// The knobs that were set on the command line; the others have their defaults.
#[derive(Clone, Debug, Default)]
pub struct KnobArgs {
    given: Vec<(&'static Knob, u64)>,
}

impl KnobArgs {
    /// `defaults` with the given values in their place.
    pub fn over(&self, defaults: Knobs) -> Knobs {
        let mut knobs = defaults;
        for (knob, value) in &self.given {
            knobs.set(knob, *value);
        }
        knobs
    }
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
        Domain::Number { .. } => matches.get_one(knob.option).copied(),
        Domain::Switch { .. } if matches.get_flag(knob.option) => Some(1),
        Domain::Switch { off } if matches.get_flag(off) => Some(0),
        Domain::Switch { .. } => None,
    }
}

/// The option of a number; the two options of a switch.
fn options(knob: &'static Knob) -> Vec<Arg> {
    let option = |name: &'static str| Arg::new(name).long(name).help_heading("Knobs");
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
    use clap::CommandFactory;

    use super::*;

    fn knobs(line: &[&str]) -> Knobs {
        let cli =
            Cli::try_parse_from([&["scx_eevdfx"], line].concat()).expect("a good command line");
        cli.knobs.over(Knobs::defaults(8))
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
        assert_eq!(cli.stats, Some(Duration::from_millis(500)));
    }
}
