// SPDX-License-Identifier: GPL-2.0-only
//! bpf/eevdf.h against exact arithmetic in 128 bits: random and edge inputs, virtual time that wraps,
//! thousands of tasks.

mod audit;
mod balance;
mod dispatch;
mod ffi;
mod history;
mod inputs;
mod lag;
mod model;
mod queue;
mod reference;
mod request;
mod simulation;
mod slices;
mod steps;
mod virtual_time;
mod wakeup;
