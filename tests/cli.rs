// SPDX-License-Identifier: GPL-2.0-only
//! The program as its users start it, on whatever machine runs the tests: usage, and refusals to start.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use scx_eevdfx::features::WITHOUT_KNOB;
use scx_eevdfx::knobs::{Domain, KNOBS};
use serde_json::Value;

const NOBODY: u32 = 65534;

/// Runs the program; with a backtrace asked for, because none must be seen.
fn run(args: &[&str]) -> Output {
    command(args).output().expect("the program runs")
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scx_eevdfx"));
    command
        .args(args)
        .env("RUST_BACKTRACE", "1")
        .env("RUST_LOG", "trace");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    status.lines().any(|line| line.starts_with("Uid:\t0\t0\t"))
}

fn has_sched_ext() -> bool {
    Path::new("/sys/kernel/sched_ext").exists()
}

/// Checks a refusal to start: exit code 1, nothing on stdout, one line on stderr, which is returned.
#[track_caller]
fn refusal(output: &Output) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("scx_eevdfx: "), "{stderr}");
    stderr
}

#[test]
fn a_slice_out_of_range_is_a_usage_error_that_names_option_and_range() {
    for bad in ["0", "99", "100001", "-1", "many"] {
        let output = run(&["--slice-us", bad]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = text(&output.stderr);
        let line = stderr.lines().next().unwrap_or_default();
        assert!(
            line.contains("--slice-us") && line.contains("100..=100000 us"),
            "{stderr}"
        );
    }
}

#[test]
fn unknown_options_and_stray_arguments_are_usage_errors() {
    for bad in [["--no-such-knob"], ["stray"], ["--stats"], ["--stats=0"]] {
        let output = run(&bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert_eq!(text(&output.stdout), "");
        assert!(
            text(&output.stderr).contains(bad[0].split('=').next().unwrap_or_default()),
            "{bad:?}"
        );
    }
}

#[test]
fn version_is_name_and_version() {
    for option in ["--version", "-V"] {
        let output = run(&[option]);
        assert!(output.status.success());
        assert_eq!(
            text(&output.stdout),
            format!("scx_eevdfx {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
}

#[test]
fn help_lists_every_knob_and_the_exit_codes() {
    for option in ["--help", "-h"] {
        let output = run(&[option]);
        assert!(output.status.success());
        let help = text(&output.stdout);
        let words: Vec<&str> = help.split_whitespace().collect();
        for knob in &KNOBS {
            let mut options = vec![format!("--{}", knob.option)];
            if let Domain::Switch { off } = knob.domain {
                options.push(format!("--{off}"));
            }
            for wanted in options {
                assert!(words.contains(&wanted.as_str()), "{option}: {wanted}");
            }
        }
        assert!(help.contains("Exit codes:"), "{option}");
    }
}

#[test]
fn the_long_help_names_the_kernels_counterparts() {
    let help = text(&run(&["--help"]).stdout);
    for knob in &KNOBS {
        assert!(help.contains(knob.kernel), "{}", knob.kernel);
    }
}

#[test]
fn a_kernel_without_sched_ext_is_named_to_anybody() {
    if has_sched_ext() {
        return;
    }
    let mut users = vec![command(&[])];
    if is_root() {
        let mut nobody = command(&["--slice-us", "3000", "--place-lag", "--no-place-lag"]);
        nobody.uid(NOBODY);
        users.push(nobody);
    }
    for mut user in users {
        let line = refusal(&user.output().expect("the program runs"));
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("procfs");
        for part in [release.trim(), "sched_ext", "CONFIG_SCHED_CLASS_EXT"] {
            assert!(line.contains(part), "{line}");
        }
    }
}

#[test]
fn an_ordinary_user_is_refused_in_one_line() {
    let mut user = command(&[]);
    if is_root() {
        user.uid(NOBODY);
    }
    let line = refusal(&user.output().expect("the program runs"));
    if has_sched_ext() {
        assert!(line.contains("sudo"), "{line}");
    }
}

#[test]
fn a_closed_stdout_is_no_reason_to_panic() {
    for option in ["--help", "--version", "topology"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = command(&[option])
            .stdout(writer)
            .output()
            .expect("the program runs");
        assert_eq!(text(&output.stderr), "", "{option}");
    }
}

#[test]
fn a_stdout_that_takes_nothing_is_a_failure_of_one_line() {
    let full = std::fs::File::create("/dev/full").expect("a device of Linux");
    let output = command(&["topology"])
        .stdout(full)
        .output()
        .expect("the program runs");
    assert!(refusal(&output).contains("cannot write to stdout"));
}

/// Whoever calls, whatever the kernel; a line on stderr would tell of odd firmware.
fn topology(args: &[&str]) -> String {
    let mut user = command(&[&["topology"], args].concat());
    if is_root() {
        user.uid(NOBODY);
    }
    let output = user.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The rows of `lscpu -p=CPU,CORE,NODE` for the CPUs that are online; none without lscpu. No node
/// is node 0.
fn lscpu() -> Option<Vec<[u64; 3]>> {
    let output = Command::new("lscpu")
        .args(["--online", "-p=CPU,CORE,NODE"])
        .output()
        .ok()?;
    let row = |line: &str| {
        let mut fields = line.split(',').map(|field| field.parse().unwrap_or(0));
        std::array::from_fn(|_| fields.next().expect("three columns"))
    };
    let stdout = text(&output.stdout);
    let rows = stdout.lines().filter(|line| !line.starts_with('#'));
    Some(rows.map(row).collect())
}

#[test]
fn topology_agrees_with_lscpu() {
    let Some(rows) = lscpu() else {
        return;
    };
    let json: Value = serde_json::from_str(&topology(&["--json"])).expect("JSON");
    let mut seen = Vec::new();
    for node in json["nodes"].as_array().expect("a list") {
        for llc in node["llcs"].as_array().expect("a list") {
            for core in llc["cores"].as_array().expect("a list") {
                let cpus = core.as_array().expect("a list").iter();
                seen.extend(cpus.map(|cpu| (cpu.as_u64(), node["id"].as_u64())));
            }
        }
    }
    seen.sort_unstable();
    let expected: Vec<_> = rows
        .iter()
        .map(|[cpu, _, node]| (Some(*cpu), Some(*node)))
        .collect();
    assert_eq!(seen, expected);
    let cores: BTreeSet<u64> = rows.iter().map(|[_, core, _]| *core).collect();
    assert_eq!(json["nr_cores"], cores.len());
    assert_eq!(json["nr_cpus"], rows.len());

    let plural = if rows.len() == 1 { "" } else { "s" };
    let start = format!("{} CPU{plural} online: ", rows.len());
    assert!(topology(&[]).starts_with(&start), "{start}");
}

#[test]
fn options_of_the_scheduler_do_not_go_with_a_subcommand() {
    for line in [
        ["--slice-us=3000", "topology"],
        ["topology", "--slice-us=3000"],
        ["topology", "--verbose"],
    ] {
        let output = run(&line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn a_flag_of_the_kernel_without_a_knob_is_a_usage_error_that_names_it_and_says_why() {
    let output = run(&["--features", "NO_PLACE_LAG,NO_WA_IDLE"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    for part in ["--features", "WA_IDLE has no counterpart here", "README"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn an_unknown_flag_is_a_usage_error_that_lists_the_known_ones() {
    let output = run(&["--features", "NO_PLACE_LAGG"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    for part in ["--features", "PLACE_LAGG is no flag", "PLACE_REL_DEADLINE"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn the_kernels_spelling_is_no_usage_error() {
    for list in ["NO_PLACE_LAG,NEXT_BUDDY", "no_place_lag  next_buddy "] {
        let mut user = command(&["--features", list, "--like-kernel", "--features", "HRTICK"]);
        if is_root() {
            user.uid(NOBODY);
        }
        refusal(&user.output().expect("the program runs"));
    }
}

#[test]
fn help_tells_which_source_of_a_knobs_value_counts() {
    for option in ["--help", "-h"] {
        let help = text(&run(&[option]).stdout);
        let words: Vec<&str> = help.split_whitespace().collect();
        for wanted in ["--features <LIST>", "--like-kernel"] {
            assert!(help.contains(wanted), "{option}: {wanted}");
        }
        let order =
            "own option counts first, then --features, then --like-kernel, then the default";
        assert!(words.join(" ").contains(order), "{option}");
    }
}

/// Checks that one rule of the README has these cells, from the kernel's name on.
#[track_caller]
fn assert_rule(cells: &str) {
    let readme = include_str!("../README.md");
    let is_rule = |line: &&str| line.starts_with("| ") && line.contains(cells);
    let rows = readme.lines().filter(is_rule).count();
    assert_eq!(rows, 1, "rows with: {cells}");
}

#[test]
fn readme_has_a_rule_for_every_knob_with_its_kernel_counterpart() {
    for knob in &KNOBS {
        let kernel = match knob.kernel {
            "none" => String::new(),
            name => format!("| `{name}` "),
        };
        let option = match knob.domain {
            Domain::Switch { .. } => format!("`--[no-]{}`", knob.option),
            Domain::Number { min, max, .. } => format!("`--{} N` ({min}..{max})", knob.option),
            Domain::Choice { words } => format!("`--{}` {}", knob.option, words.join("/")),
        };
        let default = match knob.name {
            "slice_us" => "",
            _ => knob.default,
        };
        assert_rule(&format!("{kernel}| {option} | {default}"));
    }
}

#[test]
fn readme_has_a_rule_for_every_flag_without_a_knob_and_says_why() {
    for (flag, why) in WITHOUT_KNOB {
        assert_rule(&format!("| `{flag}` | - | - | {why} |"));
    }
}
