// SPDX-License-Identifier: GPL-2.0-only
//! Tests that boot real kernels. Each file is a topic; `harness` tests the machines themselves.

#![allow(dead_code, reason = "the command line of the harness uses the rest")]

mod harness;
mod initramfs;
mod kernel;
mod machine;
mod outcome;
mod topology;
