// SPDX-License-Identifier: GPL-2.0-only
//! How messengers and workers hand over to each other: futexes and one lock-free list per messenger.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::sys::{self, monotonic_ns};

const BLOCKED: u32 = 0;
const POSTED: u32 = 1;
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    WarmUp,
    Measure,
    Stop,
}

/// Makes the owner of `word` run, or its next wait return at once.
fn post(word: &AtomicU32) {
    if word.swap(POSTED, SeqCst) == BLOCKED {
        sys::futex_wake(word);
    }
}

/// Waits for a post and takes it.
fn wait(word: &AtomicU32) {
    while word
        .compare_exchange(POSTED, BLOCKED, SeqCst, SeqCst)
        .is_err()
    {
        sys::futex_wait(word, BLOCKED);
    }
}

/// What a worker and its messenger share, on cache lines of its own.
#[repr(align(128))]
struct Desk {
    futex: AtomicU32,
    /// Who waits behind this worker in the messenger's list.
    next: AtomicU32,
    /// Stamp of the wakeup; 0: nobody has woken it.
    woken_ns: AtomicU64,
}

#[repr(align(128))]
struct Messenger {
    futex: AtomicU32,
    /// First of those who wait. Workers push, the messenger takes all at once, so there is no ABA.
    waiting: AtomicU32,
}

pub struct Office {
    phase: AtomicU32,
    workers_each: usize,
    messengers: Vec<Messenger>,
    /// Workers of messenger 0, then those of messenger 1, ...
    desks: Vec<Desk>,
    cpu_locks: Vec<AtomicBool>,
}

impl Office {
    pub fn new(nr_messengers: usize, workers_each: usize, cpu_lock: bool) -> Self {
        let nr_workers = nr_messengers * workers_each;
        let desk = || Desk {
            futex: AtomicU32::new(BLOCKED),
            next: AtomicU32::new(NOBODY),
            woken_ns: AtomicU64::new(0),
        };
        let messenger = || Messenger {
            futex: AtomicU32::new(BLOCKED),
            waiting: AtomicU32::new(NOBODY),
        };
        let nr_locks = if cpu_lock { 1024 } else { 0 };
        Office {
            phase: AtomicU32::new(Phase::WarmUp as u32),
            workers_each,
            messengers: (0..nr_messengers).map(|_| messenger()).collect(),
            desks: (0..nr_workers).map(|_| desk()).collect(),
            cpu_locks: (0..nr_locks).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    pub fn nr_messengers(&self) -> usize {
        self.messengers.len()
    }

    pub fn nr_workers(&self) -> usize {
        self.desks.len()
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(SeqCst) {
            nr if nr == Phase::WarmUp as u32 => Phase::WarmUp,
            nr if nr == Phase::Measure as u32 => Phase::Measure,
            _ => Phase::Stop,
        }
    }

    pub fn measure(&self) {
        self.phase.store(Phase::Measure as u32, SeqCst);
    }

    /// Ends the run: every messenger and every worker gets a last post.
    pub fn stop(&self) {
        self.phase.store(Phase::Stop as u32, SeqCst);
        self.messengers
            .iter()
            .for_each(|messenger| post(&messenger.futex));
        self.desks.iter().for_each(|desk| post(&desk.futex));
    }

    pub fn stopping(&self) -> bool {
        self.phase() == Phase::Stop
    }

    fn wake_all(&self, messenger: &Messenger) {
        let mut index = messenger.waiting.swap(NOBODY, SeqCst);
        let stamp_ns = monotonic_ns();
        while let Some(desk) = self.desks.get(index as usize) {
            // Read before the post: the worker may queue again at once.
            index = desk.next.load(SeqCst);
            desk.woken_ns.store(stamp_ns, SeqCst);
            post(&desk.futex);
        }
    }

    /// A messenger's life.
    pub fn serve(&self, index: usize) {
        let messenger = &self.messengers[index];
        while !self.stopping() {
            self.wake_all(messenger);
            wait(&messenger.futex);
        }
        self.wake_all(messenger);
    }

    /// Queues with the messenger and waits; returns the wakeup latency unless the end of the run woke us.
    pub fn report_and_wait(&self, index: usize) -> Option<u64> {
        let desk = &self.desks[index];
        let messenger = &self.messengers[index / self.workers_each];
        desk.woken_ns.store(0, SeqCst);
        desk.futex.store(BLOCKED, SeqCst);
        let mut first = messenger.waiting.load(SeqCst);
        loop {
            desk.next.store(first, SeqCst);
            match messenger
                .waiting
                .compare_exchange(first, index as u32, SeqCst, SeqCst)
            {
                Ok(_) => break,
                Err(now_first) => first = now_first,
            }
        }
        post(&messenger.futex);
        // The end of the run posts every desk after saying STOP, so this cannot sleep for ever.
        if !self.stopping() {
            wait(&desk.futex);
        }
        let now = monotonic_ns();
        match desk.woken_ns.load(SeqCst) {
            0 => None,
            stamp_ns => Some(now.saturating_sub(stamp_ns)),
        }
    }

    /// The lock of the CPU that the caller runs on, taken by spinning; None without --cpu-lock.
    pub fn lock_cpu(&self) -> Option<&AtomicBool> {
        if self.cpu_locks.is_empty() {
            return None;
        }
        loop {
            let cpu = sys::current_cpu();
            let lock = &self.cpu_locks[cpu % self.cpu_locks.len()];
            while lock.swap(true, SeqCst) {
                std::hint::spin_loop();
            }
            if sys::current_cpu() == cpu {
                return Some(lock);
            }
            lock.store(false, SeqCst);
        }
    }
}

pub fn unlock(lock: &AtomicBool) {
    lock.store(false, SeqCst);
}
