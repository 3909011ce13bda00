// SPDX-License-Identifier: GPL-2.0-only
//! The system calls that std does not offer, each in a safe wrapper.

use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::FromRawFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;

use anyhow::{Context, Result, bail};

pub const NS_PER_US: u64 = 1_000;
pub const NS_PER_MS: u64 = 1_000_000;
pub const NS_PER_SEC: u64 = 1_000_000_000;

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut ts = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `ts` is valid for writes; the clocks used here always exist, so the call fills it.
    let ts = unsafe {
        libc::clock_gettime(clock, ts.as_mut_ptr());
        ts.assume_init()
    };
    ts.tv_sec as u64 * NS_PER_SEC + ts.tv_nsec as u64
}

/// CLOCK_MONOTONIC; a vDSO read, no system call where the clock source is the TSC.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, exact to the moment; a system call.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`; returns how late the caller runs again.
pub fn sleep_until(deadline_ns: u64) -> u64 {
    let ts = libc::timespec {
        tv_sec: (deadline_ns / NS_PER_SEC) as libc::time_t,
        tv_nsec: (deadline_ns % NS_PER_SEC) as libc::c_long,
    };
    loop {
        // SAFETY: `ts` is valid for reads; an absolute sleep needs no remainder, so null is allowed.
        let rc = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &ts,
                std::ptr::null_mut(),
            )
        };
        if rc != libc::EINTR {
            return monotonic_ns().saturating_sub(deadline_ns);
        }
    }
}

/// Takes away the 50 us by which the kernel may delay an ordinary task's timers.
pub fn exact_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Asks for `signal` when the thread that started this process ends.
pub fn die_with_parent(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes one integer and touches no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sleeps while `word` is `expected`. Spurious returns are allowed: callers loop.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    // SAFETY: `word` outlives the call; FUTEX_WAIT only reads it, a null timeout waits for ever.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
}

/// Wakes one waiter on `word`.
pub fn futex_wake(word: &AtomicU32) {
    futex_wake_nr(word, 1);
}

/// Wakes all who wait on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    futex_wake_nr(word, i32::MAX);
}

fn futex_wake_nr(word: &AtomicU32, nr: i32) {
    // SAFETY: FUTEX_WAKE uses only the address of `word`, which outlives the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            nr,
        )
    };
}

/// CPUs that are online.
pub fn nr_cpus() -> usize {
    // SAFETY: sysconf only takes a number.
    let nr = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    nr.max(1) as usize
}

/// The CPU the caller runs on, or 0 if the kernel will not say.
pub fn current_cpu() -> usize {
    // SAFETY: no arguments.
    unsafe { libc::sched_getcpu() }.max(0) as usize
}

/// Pins the calling thread to `cpus`; an empty list leaves it alone.
pub fn pin(cpus: &[usize]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut words = [0u64; 16];
    for &cpu in cpus {
        let word = words
            .get_mut(cpu / 64)
            .with_context(|| format!("CPU {cpu} is out of range"))?;
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is read for exactly its size; pid 0 is the calling thread.
    let rc = unsafe { libc::sched_setaffinity(0, size_of_val(&words), words.as_ptr().cast()) };
    if rc != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("pinning to CPUs {cpus:?}"));
    }
    Ok(())
}

/// struct sched_attr, first version (include/uapi/linux/sched/types.h).
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

/// Policy, nice and requested slice (0 = the scheduler's own) of the calling thread.
pub fn set_sched(policy: libc::c_int, nice: i32, slice_ns: u64) -> Result<()> {
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: policy as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: slice_ns,
        deadline: 0,
        period: 0,
    };
    // SAFETY: `attr` is valid for reads of the size it names; pid 0 is the calling thread.
    let rc = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if rc != 0 {
        return Err(io::Error::last_os_error()).with_context(|| {
            format!("sched_setattr policy={policy} nice={nice} slice_ns={slice_ns}")
        });
    }
    Ok(())
}

/// Nice value of another process.
pub fn set_nice(pid: i32, nice: i32) -> Result<()> {
    // SAFETY: setpriority only takes numbers.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, pid as libc::id_t, nice) };
    if rc != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("setpriority pid={pid} nice={nice}"));
    }
    Ok(())
}

/// Policy of another process; its nice value and slice stay.
pub fn set_policy(pid: i32, policy: libc::c_int) -> Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` is valid for reads.
    let rc = unsafe { libc::sched_setscheduler(pid, policy, &raw const param) };
    if rc != 0 {
        return Err(io::Error::last_os_error())
            .with_context(|| format!("sched_setscheduler pid={pid} policy={policy}"));
    }
    Ok(())
}

/// Gives up the CPU to whom the scheduler chooses, which may be the caller.
pub fn yield_cpu() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Context switches of the calling thread: (voluntary, involuntary).
pub fn switches() -> (u64, u64) {
    switches_of(libc::RUSAGE_THREAD)
}

/// The same of all threads of this process together.
pub fn process_switches() -> (u64, u64) {
    switches_of(libc::RUSAGE_SELF)
}

fn switches_of(who: libc::c_int) -> (u64, u64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes and, being zeroed integers, initialized even if the call fails.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

/// A pipe, (read end, write end), closed on exec.
pub fn pipe() -> Result<(File, File)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for the two descriptors.
    let rc = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) };
    if rc != 0 {
        return Err(io::Error::last_os_error()).context("pipe2");
    }
    // SAFETY: both descriptors are new and owned by nobody else.
    Ok(unsafe { (File::from_raw_fd(fds[0]), File::from_raw_fd(fds[1])) })
}

/// A file without a name, gone with its last descriptor.
pub fn memfd() -> Result<File> {
    // SAFETY: the name is a NUL-terminated literal.
    let fd = unsafe { libc::memfd_create(c"lab".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error()).context("memfd_create");
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Sends `signal`; a negative `pid` means a process group. Errors mean that the target is gone.
pub fn kill(pid: i32, signal: libc::c_int) {
    // SAFETY: kill touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}

/// Room for a mayfly's one system call.
pub type MayflyStack = [u8; 8192];

extern "C" fn mayfly(nap_ns: *mut libc::c_void) -> libc::c_int {
    let nap = libc::timespec {
        tv_sec: 0,
        tv_nsec: nap_ns as libc::c_long,
    };
    if nap.tv_nsec > 0 {
        // SAFETY: `nap` is valid for reads; null for the remainder is allowed.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
    }
    0
}

/// Starts a process that sleeps for `nap_ns`, less than a second, if at all, and ends with 0. It shares our memory:
/// copying it would take most of the time.
///
/// # Safety
/// `stack` must stay, and be nobody else's, until the process has been waited for.
pub unsafe fn start_mayfly(stack: *mut MayflyStack, nap_ns: u64) -> io::Result<()> {
    // SAFETY: one past the end of the stack is its top, and aligned as the whole is a multiple of 16; the child keeps
    // to its own stack, makes a system call and ends.
    let pid = unsafe {
        libc::clone(
            mayfly,
            stack.add(1).cast(),
            libc::CLONE_VM | libc::SIGCHLD,
            nap_ns as *mut libc::c_void,
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for any child to end: its status, or none when there is no child.
pub fn wait_for_any() -> io::Result<Option<libc::c_int>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writes.
        if unsafe { libc::wait(&raw mut status) } > 0 {
            return Ok(Some(status));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ECHILD) => return Ok(None),
            Some(libc::EINTR) => {}
            _ => return Err(error),
        }
    }
}

/// Effective user is root.
pub fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// "0-3,6" as a list of CPUs.
pub fn parse_cpus(text: &str) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let number = |s: &str| {
            s.trim()
                .parse::<usize>()
                .with_context(|| format!("CPU list {text:?}"))
        };
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            bail!("CPU list {text:?}: {first} is after {last}");
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// The first executable of this name on PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpus("0-2,5").unwrap(), [0, 1, 2, 5]);
        assert!(parse_cpus("3-1").is_err());
        assert!(parse_cpus("a").is_err());
    }

    #[test]
    fn cpu_clock_stands_still_in_sleep() {
        let before = thread_cpu_ns();
        sleep_until(monotonic_ns() + 20 * NS_PER_MS);
        assert!(thread_cpu_ns() - before < 15 * NS_PER_MS);
    }
}
