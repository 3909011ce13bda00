// SPDX-License-Identifier: GPL-2.0-only
//! Tests that boot real kernels. Each file is a topic; `harness` tests the machines themselves.

#![allow(dead_code, reason = "the command line of the harness uses the rest")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

mod arms;
mod bad_start;
mod balance;
mod cases;
mod compare;
mod cores;
mod fairness;
mod guest;
mod harness;
mod initramfs;
mod kernel;
mod life;
mod machine;
mod outcome;
mod placement;
mod shapes;
mod stall;
mod topology;
