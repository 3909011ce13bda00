// SPDX-License-Identifier: GPL-2.0-only
//! Forked children that do a job, send one report through a pipe, and never outlive their parent.
//!
//! A child is killed when its parent ends (PR_SET_PDEATHSIG), when its handle is dropped, and by the parent
//! when it does not report in time.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, bail};

use crate::sys::{self, NS_PER_MS, monotonic_ns};

pub struct Child {
    pid: i32,
    report: File,
}

/// Runs `job` in a forked child; what it returns is what `finish` gets.
pub fn spawn(job: impl FnOnce() -> Result<String>) -> Result<Child> {
    let nr_threads = std::fs::read_dir("/proc/self/task")
        .context("/proc/self/task")?
        .count();
    if nr_threads != 1 {
        bail!("forking with {nr_threads} threads is not safe");
    }
    let (report, mut sender) = sys::pipe()?;
    let parent = std::process::id();
    // SAFETY: this process has one thread (checked above), so no lock can be left held in the child.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()).context("fork"),
        0 => {
            let armed = sys::die_with_parent(libc::SIGKILL).is_ok()
                && std::os::unix::process::parent_id() == parent;
            let sent = armed && report_outcome(&mut sender, job);
            // SAFETY: ends the child at once: the parent's buffers and exit handlers are not ours to run.
            unsafe { libc::_exit(i32::from(!sent)) }
        }
        pid => Ok(Child { pid, report }),
    }
}

fn report_outcome(sender: &mut File, job: impl FnOnce() -> Result<String>) -> bool {
    let text = match catch_unwind(AssertUnwindSafe(job)) {
        Ok(Ok(text)) => format!("+{text}"),
        Ok(Err(err)) => format!("-{err:#}"),
        Err(_) => "-panicked".to_string(),
    };
    sender.write_all(text.as_bytes()).is_ok()
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Run delay of the child so far in ns (/proc/PID/schedstat, second field).
    pub fn run_delay_ns(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).ok()?;
        stat.split_whitespace().nth(1)?.parse().ok()
    }

    /// Waits for the report until `deadline_ns`. None: it did not come, the child is killed on drop.
    pub fn finish(&mut self, deadline_ns: u64) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 16384];
        loop {
            let left_ms = deadline_ns
                .saturating_sub(monotonic_ns())
                .div_ceil(NS_PER_MS);
            let mut poll = libc::pollfd {
                fd: self.report.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid pollfd for the length of the call.
            if unsafe { libc::poll(&mut poll, 1, left_ms.min(i32::MAX as u64) as i32) } == 0 {
                return Ok(None);
            }
            match self.report.read(&mut chunk) {
                Ok(0) => break,
                Ok(nr) => bytes.extend_from_slice(&chunk[..nr]),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err).context("reading a child's report"),
            }
        }
        let text = String::from_utf8(bytes).context("a child's report")?;
        match text.split_at_checked(1) {
            Some(("+", report)) => Ok(Some(report.to_string())),
            Some((_, error)) => bail!("child {}: {error}", self.pid),
            None => bail!("child {} ended without a report", self.pid),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        sys::kill(self.pid, libc::SIGKILL);
        // SAFETY: waits for a child that nobody else waits for; a null status is allowed.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Lets children start together: each says that it is ready, then all learn the same start time.
pub struct Gate {
    ready: (File, File),
    start: (File, File),
}

impl Gate {
    pub fn new() -> Result<Self> {
        Ok(Gate {
            ready: sys::pipe()?,
            start: sys::pipe()?,
        })
    }

    /// In a child, after its setup (or its failure): the start time, reached.
    pub fn wait(&self) -> Result<u64> {
        (&self.ready.1)
            .write_all(b".")
            .context("telling that the child is ready")?;
        let mut stamp = [0; 8];
        (&self.start.0)
            .read_exact(&mut stamp)
            .context("waiting for the start")?;
        let start_ns = u64::from_ne_bytes(stamp);
        sys::sleep_until(start_ns);
        Ok(start_ns)
    }

    /// In the parent: waits for `nr` children, then starts them; child i of N gets the i-th multiple of `stagger_ns`.
    pub fn open(&self, nr: usize, stagger_ns: u64) -> Result<u64> {
        let mut ready = vec![0; nr];
        (&self.ready.0)
            .read_exact(&mut ready)
            .context("waiting for the children")?;
        let start_ns = monotonic_ns() + 20 * NS_PER_MS + nr as u64 * NS_PER_MS / 10;
        for i in 0..nr as u64 {
            let stamp = (start_ns + i * stagger_ns).to_ne_bytes();
            (&self.start.1)
                .write_all(&stamp)
                .context("starting the children")?;
        }
        Ok(start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The test harness has threads, so only the refusal can be tried here; the workloads try the rest.
    #[test]
    fn refuses_to_fork_with_threads() {
        assert!(spawn(|| Ok(String::new())).is_err());
    }
}
