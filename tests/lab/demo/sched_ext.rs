// SPDX-License-Identifier: GPL-2.0-only
//! One arm of the comparison: the in-kernel scheduler, or a sched_ext scheduler that is started, proved to be
//! the one in charge, and asked to leave.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::tool;
use crate::sys::{self, NS_PER_SEC, monotonic_ns};

/// How the name of our ops starts.
pub const OURS: &str = "eevdfx";

/// What to run; no command is the in-kernel scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    pub name: String,
    pub command: Vec<String>,
    /// Start of the ops name that must be in charge; empty: any.
    pub ops_prefix: String,
}

impl Arm {
    pub fn kernel(name: &str) -> Self {
        Arm {
            name: name.into(),
            command: Vec::new(),
            ops_prefix: String::new(),
        }
    }

    /// The ops of scx_NAME are called NAME..., by convention.
    pub fn new(name: &str, command: Vec<String>) -> Self {
        let program = command[0].rsplit('/').next().unwrap_or_default();
        let ops_prefix = program.strip_prefix("scx_").unwrap_or_default().to_string();
        Arm {
            name: name.into(),
            command,
            ops_prefix,
        }
    }

    /// Our scheduler, under whatever name the arm has.
    pub fn is_ours(&self) -> bool {
        self.ops_prefix == OURS
    }

    /// "NAME=COMMAND LINE", the line split at blanks.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, line) = text.split_once('=').context("give NAME=COMMAND LINE")?;
        let command: Vec<String> = line.split_whitespace().map(String::from).collect();
        if name.is_empty() || command.is_empty() {
            bail!("give NAME=COMMAND LINE");
        }
        Ok(Arm::new(name, command))
    }
}

/// The kernel's view of sched_ext.
pub struct SchedExt {
    root: PathBuf,
}

impl SchedExt {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        SchedExt { root: root.into() }
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(name))
            .ok()
            .map(|text| text.trim().to_string())
    }

    pub fn present(&self) -> bool {
        self.read("state").is_some()
    }

    /// "disabled" too where the kernel has no sched_ext.
    pub fn state(&self) -> String {
        self.read("state").unwrap_or_else(|| "disabled".into())
    }

    pub fn ops(&self) -> String {
        self.read("root/ops").unwrap_or_default()
    }

    fn enable_seq(&self) -> String {
        self.read("enable_seq").unwrap_or_default()
    }

    /// The attachment ends with the last reference, which can be a moment after the process.
    fn wait_until_disabled(&self) -> Result<()> {
        let deadline_ns = monotonic_ns() + 5 * NS_PER_SEC;
        while monotonic_ns() < deadline_ns {
            if self.state() == "disabled" {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        self.expect_disabled()
    }

    pub fn expect_disabled(&self) -> Result<()> {
        match self.state().as_str() {
            "disabled" => Ok(()),
            state => bail!(
                "sched_ext is {state} ({}), the in-kernel arm would not be one",
                self.ops()
            ),
        }
    }
}

/// A scheduler that is in charge. Dropping it asks it to leave, and kills it if it does not.
pub struct Running<'a> {
    sched_ext: &'a SchedExt,
    child: Child,
    log: File,
    pub ops: String,
    enable_seq: String,
}

const ATTACH_NS: u64 = 60 * NS_PER_SEC;
const LEAVE_NS: u64 = 15 * NS_PER_SEC;
const LOOK: Duration = Duration::from_millis(20);

pub fn start<'a>(sched_ext: &'a SchedExt, arm: &Arm) -> Result<Running<'a>> {
    sched_ext.expect_disabled()?;
    let seq_before = sched_ext.enable_seq();
    let log = sys::memfd()?;
    let mut command = Command::new(&arm.command[0]);
    command
        .args(&arm.command[1..])
        .stdin(Stdio::null())
        .process_group(0);
    command.stdout(log.try_clone()?).stderr(log.try_clone()?);
    // SAFETY: between fork and exec only one system call.
    unsafe { command.pre_exec(|| sys::die_with_parent(libc::SIGTERM)) };
    let child = command
        .spawn()
        .with_context(|| format!("starting {}", arm.command[0]))?;
    let mut running = Running {
        sched_ext,
        child,
        log,
        ops: String::new(),
        enable_seq: String::new(),
    };
    let deadline_ns = monotonic_ns() + ATTACH_NS;
    // The kernel counts an attachment a moment after it says that it is enabled.
    while sched_ext.state() != "enabled"
        || sched_ext.ops().is_empty()
        || sched_ext.enable_seq() == seq_before
    {
        if let Some(status) = running.child.try_wait()? {
            bail!(
                "{} ended before it was in charge ({status}): {}",
                arm.name,
                running.log_tail()
            );
        }
        tool::check_interrupted()?;
        if monotonic_ns() > deadline_ns {
            bail!(
                "{} was not in charge after {} s: {}",
                arm.name,
                ATTACH_NS / NS_PER_SEC,
                running.log_tail()
            );
        }
        std::thread::sleep(LOOK);
    }
    running.ops = sched_ext.ops();
    running.enable_seq = sched_ext.enable_seq();
    if !running.ops.starts_with(&arm.ops_prefix) {
        bail!("{} is in charge, not {}...", running.ops, arm.ops_prefix);
    }
    Ok(running)
}

impl Running<'_> {
    /// The same scheduler, attached the same time, is still in charge.
    pub fn expect_in_charge(&mut self) -> Result<()> {
        let now = (
            self.sched_ext.state(),
            self.sched_ext.ops(),
            self.sched_ext.enable_seq(),
        );
        if now
            != (
                "enabled".to_string(),
                self.ops.clone(),
                self.enable_seq.clone(),
            )
        {
            bail!(
                "{} is no longer in charge ({}): {}",
                self.ops,
                now.0,
                self.log_tail()
            );
        }
        Ok(())
    }

    /// Asks it to leave; it must exit with 0 and leave sched_ext disabled.
    pub fn stop(mut self) -> Result<()> {
        sys::kill(self.child.id() as i32, libc::SIGTERM);
        let Some(status) = self.wait(LEAVE_NS)? else {
            bail!(
                "{} did not leave within {} s of SIGTERM",
                self.ops,
                LEAVE_NS / NS_PER_SEC
            );
        };
        self.sched_ext.wait_until_disabled()?;
        if status.code() != Some(0) {
            bail!(
                "{} left with {}: {}",
                self.ops,
                exit_text(status),
                self.log_tail()
            );
        }
        Ok(())
    }

    fn wait(&mut self, for_ns: u64) -> Result<Option<ExitStatus>> {
        let deadline_ns = monotonic_ns() + for_ns;
        while monotonic_ns() < deadline_ns {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    fn log_tail(&self) -> String {
        // By position: the scheduler writes at the offset that it shares with this descriptor.
        let mut text = vec![0; self.log.metadata().map_or(0, |meta| meta.len()) as usize];
        if self.log.read_exact_at(&mut text, 0).is_err() {
            return "(its output cannot be read)".into();
        }
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n  ")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
        // Whoever starts the next scheduler finds out.
        let _ = self.sched_ext.wait_until_disabled();
    }
}

impl Running<'_> {
    /// Asks, then kills.
    fn end(&mut self) {
        sys::kill(self.child.id() as i32, libc::SIGTERM);
        if !matches!(self.wait(LEAVE_NS), Ok(Some(_))) {
            sys::kill(-(self.child.id() as i32), libc::SIGKILL);
            // Nothing to do about a failure here: the process is beyond our reach.
            let _ = self.child.wait();
        }
    }
}

fn exit_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up sysfs, removed again at the end.
    struct FakeSysfs(PathBuf);

    impl FakeSysfs {
        fn new(name: &str, state: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("lab-{name}-{}", std::process::id()));
            std::fs::create_dir_all(dir.join("root")).unwrap();
            std::fs::write(dir.join("state"), state).unwrap();
            std::fs::write(dir.join("enable_seq"), "1\n").unwrap();
            FakeSysfs(dir)
        }
    }

    impl Drop for FakeSysfs {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A shell script in the part of a scheduler: attaches, counted a moment after it is enabled as the
    /// kernel does, and on SIGTERM detaches and exits with `code`.
    fn actor(dir: &std::path::Path, ops: &str, code: u8) -> Arm {
        let dir = dir.display();
        let script = format!(
            "trap 'echo disabled >{dir}/state; exit {code}' TERM; echo {ops} >{dir}/root/ops; \
             echo enabled >{dir}/state; sleep 0.1; echo 2 >{dir}/enable_seq; while :; do sleep 0.02; done"
        );
        Arm {
            name: "actor".into(),
            command: vec!["sh".into(), "-c".into(), script],
            ops_prefix: "eevdfx".into(),
        }
    }

    #[test]
    fn ours_is_known_under_any_name() {
        let prefix = |text| Arm::parse(text).unwrap().ops_prefix;
        assert_eq!(prefix("a=/bin/scx_rusty --slice 1"), "rusty");
        assert_eq!(prefix("a=sh -c exit"), "");
        assert!(Arm::parse("delayed=/bin/scx_eevdfx -v").unwrap().is_ours());
        assert!(!Arm::kernel("in-kernel").is_ours());
    }

    #[test]
    fn attaches_and_leaves() {
        let sysfs = FakeSysfs::new("leaves", "disabled\n");
        let sched_ext = SchedExt::new(&sysfs.0);
        let mut running = start(&sched_ext, &actor(&sysfs.0, "eevdfx_1", 0)).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        running.expect_in_charge().unwrap();
        std::fs::write(sysfs.0.join("enable_seq"), "3\n").unwrap();
        assert!(running.expect_in_charge().is_err());
        running.stop().unwrap();
        assert_eq!(sched_ext.state(), "disabled");
    }

    #[test]
    fn a_bad_exit_code_is_told() {
        let sysfs = FakeSysfs::new("code", "disabled\n");
        let sched_ext = SchedExt::new(&sysfs.0);
        let running = start(&sched_ext, &actor(&sysfs.0, "eevdfx_1", 3)).unwrap();
        let text = running.stop().unwrap_err().to_string();
        assert!(text.contains("exit code 3"), "{text}");
    }

    #[test]
    fn wrong_or_no_scheduler() {
        let sysfs = FakeSysfs::new("wrong", "disabled\n");
        let sched_ext = SchedExt::new(&sysfs.0);
        assert!(start(&sched_ext, &actor(&sysfs.0, "bpfland", 0)).is_err());
        assert_eq!(sched_ext.state(), "disabled");
        let text = start(&sched_ext, &Arm::parse("x=sh -c exit").unwrap())
            .err()
            .unwrap()
            .to_string();
        assert!(text.contains("ended before"), "{text}");
        std::fs::write(sysfs.0.join("state"), "enabled").unwrap();
        assert!(sched_ext.expect_disabled().is_err());
    }
}
