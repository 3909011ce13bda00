// SPDX-License-Identifier: GPL-2.0-only
//! Decides what the scheduler's end in the kernel means for the daemon: stop, start again, or fail.

use std::fmt;

use scx_utils::{SCX_ECODE_ACT_RESTART, ScxExitKind};

/// How the scheduler ended in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The kernel's enum scx_exit_kind.
    pub(crate) kind: i32,
    /// Bits of the kernel's enum scx_exit_code; set by orderly exits only.
    pub(crate) code: i64,
    /// Where it happened, if the kernel tells.
    pub(crate) cpu: Option<u32>,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// State of the scheduler and of the CPUs at the end, text of many lines; may be empty.
    pub dump: String,
}

impl Exit {
    /// True when someone asked for it: unregistered, or ejected by SysRq-S. False for errors.
    pub fn was_asked_for(&self) -> bool {
        self.kind <= ScxExitKind::UnregKern as i32 || self.kind == ScxExitKind::SysRq as i32
    }

    /// True when the kernel wants the scheduler to start again, as it does after CPU hotplug.
    pub fn wants_restart(&self) -> bool {
        let may = [ScxExitKind::UnregBPF as i32, ScxExitKind::UnregKern as i32];
        may.contains(&self.kind) && self.code as u64 & *SCX_ECODE_ACT_RESTART != 0
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.reason.is_empty() {
            "unknown reason"
        } else {
            &self.reason
        };
        f.write_str(reason)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        match self.cpu {
            Some(cpu) => write!(f, " (on CPU {cpu})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(kind: ScxExitKind, code: u64) -> Exit {
        Exit {
            kind: kind as i32,
            code: code as i64,
            cpu: None,
            reason: "runnable task stall".to_string(),
            message: String::new(),
            dump: String::new(),
        }
    }

    #[test]
    fn unregistering_and_sysrq_are_asked_for_and_errors_are_not() {
        use ScxExitKind::{Error, ErrorBPF, ErrorStall, SysRq, Unreg, UnregBPF, UnregKern};
        for kind in [Unreg, UnregBPF, UnregKern, SysRq] {
            assert!(exit(kind, 0).was_asked_for());
        }
        for kind in [Error, ErrorBPF, ErrorStall] {
            assert!(!exit(kind, 0).was_asked_for());
        }
    }

    #[test]
    fn an_exit_reads_as_one_line() {
        let mut e = exit(ScxExitKind::ErrorStall, 0);
        assert_eq!(e.to_string(), "runnable task stall");
        e.message = "sleep[77] failed to run for 5.1s".to_string();
        e.cpu = Some(3);
        assert_eq!(
            e.to_string(),
            "runnable task stall: sleep[77] failed to run for 5.1s (on CPU 3)"
        );
    }
}
