// SPDX-License-Identifier: GPL-2.0-only
//! `lab nomigrate`: attaches BPF programs that take their time to reads, writes and clock_gettime of everybody, and
//! counts the tasks that were switched out inside of one, which is with migration disabled. No load by itself.

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    unused_qualifications
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/nomigrate_skel.rs"));
}

use std::mem::MaybeUninit;

use anyhow::{Context, Result};
use clap::Args;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use crate::sys::{self, NS_PER_SEC, monotonic_ns};
use skel::NomigrateSkelBuilder;

#[derive(Args)]
pub struct Options {
    /// Seconds from the attachment, which is told by a line, to the end
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Loops of a program, a few ns each; more are preempted more often and slow the load down more
    #[arg(long, default_value_t = 50_000)]
    loops: u32,
    /// One in how many calls is made to wait
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
}

pub fn run(options: &Options) -> Result<()> {
    let mut storage = MaybeUninit::uninit();
    let mut open = NomigrateSkelBuilder::default()
        .open(&mut storage)
        .context("opening the BPF object")?;
    let rodata = open.maps.rodata_data.as_mut().context("no .rodata")?;
    rodata.nr_loops = options.loops;
    rodata.one_in = options.one_in;
    let mut skel = open.load().context("loading the BPF programs")?;
    skel.attach().context("attaching the BPF programs")?;
    println!("attached");
    sys::sleep_until(monotonic_ns() + (options.seconds * NS_PER_SEC as f64) as u64);
    let counts = skel.maps.bss_data.as_ref().context("no .bss")?;
    println!(
        "lingered={} switched_out={} outside_mask={}",
        counts.nr_lingered, counts.nr_switched_out, counts.nr_outside_mask
    );
    Ok(())
}
