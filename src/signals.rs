// SPDX-License-Identifier: GPL-2.0-only
//! Decides how the daemon is told to stop: the first SIGINT, SIGTERM or SIGHUP asks it to detach,
//! the second ends the process at once (the kernel then detaches the scheduler by itself).

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context, Result};

/// Whether the daemon was told to stop.
pub struct Stop {
    asked: Arc<AtomicBool>,
    wakeup: Receiver<()>,
}

impl Stop {
    /// Takes over the signals. To be called once per process.
    ///
    /// # Errors
    /// Fails when the handler cannot be installed.
    pub fn install() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (send, wakeup) = mpsc::channel();
        let flag = Arc::clone(&asked);
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                process::exit(0);
            }
            // The receiver is gone only when main has returned already.
            let _ = send.send(());
        })
        .context("cannot install the signal handler")?;
        Ok(Stop { asked, wakeup })
    }

    /// True once a signal has come.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until a signal comes, at most for `timeout`; true if one has come, now or before.
    pub fn wait(&self, timeout: Duration) -> bool {
        if !self.asked() {
            let _ = self.wakeup.recv_timeout(timeout);
        }
        self.asked()
    }
}
