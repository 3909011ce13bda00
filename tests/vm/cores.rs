// SPDX-License-Identifier: GPL-2.0-only
//! The cores of this host, given to the machines that this process runs at the same time. Under icount a machine keeps one
//! busy and does not notice the others; one in real time gets them all.

use std::num::NonZero;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread;

static FREE: LazyLock<Mutex<usize>> = LazyLock::new(|| Mutex::new(nr_cores()));
static FREED: Condvar = Condvar::new();

fn nr_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Held for as long as a machine runs.
pub struct Cores(usize);

impl Cores {
    pub fn one() -> Self {
        Self::take(1)
    }

    pub fn all() -> Self {
        Self::take(nr_cores())
    }

    fn take(nr: usize) -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = FREED
            .wait_while(free, |free| *free < nr)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= nr;
        Self(nr)
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        FREED.notify_all();
    }
}
