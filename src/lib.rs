// SPDX-License-Identifier: GPL-2.0-only
//! The loader of the scx_eevdfx scheduler. The major components are:
//!
//! - [`cli`] and [`knobs`]: what can be asked of it, [`features`]: in the kernel's own terms;
//! - [`preflight`] and [`topology`]: what the machine offers;
//! - [`bpf`]: the boundary to the BPF part, the only place with `unsafe` code;
//! - [`kconfig`]: what libbpf is told about the kernel;
//! - [`scheduler`]: the life of the scheduler, from opening to detaching, and [`exit`]: its end;
//! - [`stats`], [`logging`] and [`signals`]: what comes out, and how it is told to stop.

pub mod bpf;
pub mod cli;
pub mod exit;
#[cfg(test)]
mod fake_root;
pub mod features;
pub mod kconfig;
pub mod knobs;
pub mod logging;
pub mod preflight;
pub mod scheduler;
pub mod signals;
pub mod stats;
pub mod topology;
