// SPDX-License-Identifier: GPL-2.0-only
//! What a job left behind, put together from the lines that the guest's init and the job wrote.

use std::io::{self, Write};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::initramfs::MARK;

/// A job that has ended.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    /// stdout and stderr, as the job wrote them.
    pub output: String,
    /// The kernel's log, when it was asked for.
    pub dmesg: String,
    /// From the start of QEMU to the start of the job.
    pub boot: Duration,
    /// From the start of QEMU to the end of the job.
    pub wall: Duration,
}

impl Outcome {
    /// The value of the first `key=value` that the job printed, as a line or as a word of one.
    pub fn value(&self, key: &str) -> Option<&str> {
        let words = self.output.split_whitespace();
        words
            .filter_map(|word| word.split_once('='))
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// The same as a number or whatever it is; that it is missing is an error that shows the output.
    pub fn get<T: FromStr>(&self, key: &str) -> Result<T> {
        let value = self
            .value(key)
            .with_context(|| format!("no {key}=… in the output:\n{}", self.output))?;
        value
            .parse()
            .ok()
            .with_context(|| format!("{key}={value}: not what was expected"))
    }

    /// The outcome of a job that must not fail.
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(
            self.code, 0,
            "the job failed:\n{}{}",
            self.output, self.dmesg
        );
        self
    }
}

/// The job's side of the conversation so far.
pub struct Transcript {
    echo: bool,
    held: usize,
    output: String,
    dmesg: String,
    boot: Option<Duration>,
    code: Option<i32>,
    ended: bool,
}

impl Transcript {
    pub fn new(echo: bool) -> Self {
        Self {
            echo,
            held: 0,
            output: String::new(),
            dmesg: String::new(),
            boot: None,
            code: None,
            ended: false,
        }
    }

    pub fn output(&self) -> &str {
        &self.output
    }

    /// Takes in one line with its line feed.
    pub fn add(&mut self, line: &str, started: Instant) -> Result<()> {
        let mark = line
            .strip_prefix(MARK)
            .map(|rest| rest.split_whitespace().collect::<Vec<_>>());
        match mark.as_deref() {
            Some(["start"]) => self.boot = Some(started.elapsed()),
            Some(["exit", code]) => {
                self.code = Some(code.parse()?);
                // Init's, so that its own line starts a line.
                self.output.pop();
            }
            Some(["end"]) => self.ended = true,
            _ if self.code.is_some() => self.dmesg.push_str(line),
            _ => self.add_output(line)?,
        }
        Ok(())
    }

    /// An empty line is shown when more follows: the last one is init's.
    fn add_output(&mut self, line: &str) -> Result<()> {
        self.output.push_str(line);
        if !self.echo {
            return Ok(());
        }
        if line == "\n" {
            self.held += 1;
            return Ok(());
        }
        let held = "\n".repeat(std::mem::take(&mut self.held));
        let mut stdout = io::stdout().lock();
        write!(stdout, "{held}{line}")?;
        stdout.flush()?;
        Ok(())
    }

    pub fn outcome(&mut self, started: Instant) -> Option<Outcome> {
        if !self.ended {
            return None;
        }
        Some(Outcome {
            code: self.code?,
            output: std::mem::take(&mut self.output),
            dmesg: std::mem::take(&mut self.dmesg),
            boot: self.boot.unwrap_or_default(),
            wall: started.elapsed(),
        })
    }
}
