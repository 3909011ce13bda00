// SPDX-License-Identifier: GPL-2.0-only
//! The boundary to the BPF part: opening, loading and attaching it, and the memory it shares with
//! us. All `unsafe` code of the program is here.
//!
//! The shared memory is maps that the kernel writes while we read: counters are read with volatile
//! reads, each exact by itself but not all of one instant.

use std::ffi::{CString, c_char, c_int, c_long};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use anyhow::{Context, Result, bail};
use libbpf_rs::libbpf_sys::bpf_object_open_opts;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, OpenObject};
use log::warn;
use scx_utils::libbpf_clap_opts::LibbpfOpts;
use scx_utils::{UEI_DUMP_PTR_MUTEX, compat, scx_ops_attach, scx_ops_load, scx_ops_open};

use crate::exit::Exit;
use crate::kconfig;
use crate::knobs::{Knobs, SPREAD, TTWU_QUEUE};
use crate::topology::{MAX_CPUS, MAX_NODES, Topology};

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    unused_qualifications
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
}

use skel::{BpfSkel, BpfSkelBuilder, OpenBpfSkel, types};

// Same number as in intf.h.
const _: () = assert!(size_of::<types::knobs>() == 128);

/// Counters that each CPU has room for; more than are in use.
pub const STATS_PER_CPU: usize = 64;

/// Place for the libbpf object, which a scheduler borrows for as long as it lives.
pub type Storage = MaybeUninit<OpenObject>;

/// The flags of the scheduler in the kernel that we want with these knobs on this machine, with their
/// value there; 0 where the kernel does not know one.
pub fn wanted_flags(knobs: &Knobs, topology: &Topology) -> Vec<(&'static str, u64)> {
    let mut flags = vec![
        ("ENQ_EXITING", *compat::SCX_OPS_ENQ_EXITING),
        (
            "ENQ_MIGRATION_DISABLED",
            *compat::SCX_OPS_ENQ_MIGRATION_DISABLED,
        ),
    ];
    if TTWU_QUEUE[knobs.ttwu_queue as usize] == "kernel" {
        flags.push(("ALLOW_QUEUED_WAKEUP", *compat::SCX_OPS_ALLOW_QUEUED_WAKEUP));
    }
    if moves_programs(knobs, topology) {
        flags.push(("ENQ_LAST", *compat::SCX_OPS_ENQ_LAST));
    }
    // A kernel without NUMA knows the flag but keeps one mask all the same.
    if topology.nodes.len() > 1 {
        flags.push((
            "BUILTIN_IDLE_PER_NODE",
            *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE,
        ));
    }
    flags
}

/// exec_balance has something to choose.
fn moves_programs(knobs: &Knobs, topology: &Topology) -> bool {
    SPREAD[knobs.exec_balance as usize] != "off" && topology.nodes.len() > 1
}

/// The opened, not yet loaded BPF object.
pub struct Opened<'a>(OpenBpfSkel<'a>);

impl<'a> Opened<'a> {
    /// Opens the object.
    ///
    /// # Errors
    /// Fails on what libbpf refuses; the reason is in its warnings.
    pub fn new(storage: &'a mut Storage, options: &OpenOptions) -> Result<Self> {
        let skel = scx_ops_open!(
            BpfSkelBuilder::default(),
            storage,
            eevdfx_ops,
            Some(options.raw)
        )?;
        Ok(Opened(skel))
    }

    /// Fills in everything that is fixed from the load on, and the first values of the knobs.
    /// `tick_ns` is the length of a scheduler tick; a dump length of 0 is the kernel's default.
    ///
    /// # Errors
    /// Fails when libbpf did not map the object's data.
    pub fn configure(
        &mut self,
        topology: &Topology,
        knobs: &Knobs,
        tick_ns: u64,
        exit_dump_len: u32,
    ) -> Result<()> {
        let maps = &mut self.0.maps;
        let (Some(rodata), Some(data)) = (maps.rodata_data.as_mut(), maps.data_data.as_mut())
        else {
            bail!("libbpf did not map the BPF object's data");
        };
        rodata.tick_ns = tick_ns;
        write_topology(rodata, topology);
        let nr_cpu_ids = rodata.nr_cpu_ids;
        let flags = wanted_flags(knobs, topology)
            .iter()
            .fold(0, |flags, (_, flag)| flags | flag);
        rodata.idle_per_node = flags & *compat::SCX_OPS_BUILTIN_IDLE_PER_NODE != 0;
        write_knobs(&mut data.knobs, knobs);

        let exec = &mut self.0.progs.eevdfx_exec;
        exec.set_autoload(moves_programs(knobs, topology));
        exec.set_autoattach(false);

        let ops = self.0.struct_ops.eevdfx_ops_mut();
        ops.exit_dump_len = exit_dump_len;
        ops.flags |= flags;

        let maps = &mut self.0.maps;
        for map in [&mut maps.runqs, &mut maps.hrticks] {
            map.set_max_entries(nr_cpu_ids)
                .context("cannot size a map with one entry a CPU")?;
        }
        Ok(())
    }

    /// Loads the object into the kernel, past its verifier.
    ///
    /// # Errors
    /// Fails with libbpf's error code; the reason is in libbpf's warnings.
    pub fn load(self) -> Result<Loaded<'a>> {
        let mut skel = self.0;
        let skel = scx_ops_load!(skel, eevdfx_ops, uei)?;
        Ok(Loaded {
            skel,
            link: None,
            exec_link: None,
        })
    }
}

/// The tables' lengths are spelled out so that limits other than intf.h's do not compile.
fn write_topology(to: &mut types::rodata, from: &Topology) {
    to.nr_cpu_ids = from.order.len() as u32;
    to.nr_nodes = from.nodes.len() as u32;
    to.cpu_order[..from.order.len()].copy_from_slice(&from.order);
    let cpus: &mut [types::cpu_topo; MAX_CPUS] = &mut to.cpu_topo;
    for (entry, place) in cpus.iter_mut().zip(&from.places) {
        *entry = types::cpu_topo {
            chunk: place.chunk,
            bit: place.bit,
            llc_first: place.llc.start,
            llc_end: place.llc.end,
            node: place.node,
            node_id: place.node_id,
        };
    }
    for (entry, chunk) in to.chunk_topo.iter_mut().zip(&from.chunks) {
        *entry = types::chunk_topo {
            first: chunk.cpus.start,
            end: chunk.cpus.end,
        };
    }
    let nodes: &mut [types::node_topo; MAX_NODES] = &mut to.node_topo;
    for (entry, node) in nodes.iter_mut().zip(&from.nodes) {
        entry.chunk_first = node.chunks.start;
        entry.chunk_end = node.chunks.end;
        entry.block_first = node.blocks.start;
        entry.block_end = node.blocks.end;
        entry.node_id = node.id;
        entry.nr_order = node.order.len() as u16;
        entry.order[..node.order.len()].copy_from_slice(&node.order);
        entry.dist[..node.dist.len()].copy_from_slice(&node.dist);
    }
}

/// Every field by name: a knob that is forgotten here does not compile.
fn write_knobs(to: &mut types::knobs, from: &Knobs) {
    let Knobs {
        slice_us,
        place_lag,
        place_rel_deadline,
        place_deadline_initial,
        run_to_parity,
        preempt_short,
        wakeup_preemption,
        delay_dequeue,
        delay_zero,
        next_buddy,
        pick_buddy,
        hrtick,
        numa_spill,
        wake_sync,
        wake_affine,
        steal_delay_llc_us,
        steal_delay_node_us,
        steal_delay_remote_us,
        migration_cost_us,
        balance_us,
        balance_interval_ms,
        fork_balance,
        exec_balance,
        ttwu_queue,
    } = *from;
    to.slice_ns = slice_us * 1000;
    to.place_lag.write(place_lag);
    to.place_rel_deadline.write(place_rel_deadline);
    to.place_deadline_initial.write(place_deadline_initial);
    to.run_to_parity.write(run_to_parity);
    to.preempt_short.write(preempt_short);
    to.wakeup_preemption.write(wakeup_preemption);
    to.delay_dequeue.write(delay_dequeue);
    to.delay_zero.write(delay_zero);
    to.next_buddy.write(next_buddy);
    to.pick_buddy.write(pick_buddy);
    to.hrtick.write(hrtick);
    to.numa_spill = numa_spill as u8;
    to.wake_sync.write(wake_sync);
    to.wake_affine.write(wake_affine);
    to.steal_delay_llc_ns = steal_delay_llc_us * 1000;
    to.steal_delay_node_ns = steal_delay_node_us * 1000;
    to.steal_delay_remote_ns = steal_delay_remote_us * 1000;
    to.migration_cost_ns = migration_cost_us * 1000;
    to.balance_ns = balance_us * 1000;
    to.balance_interval_ns = balance_interval_ms * 1_000_000;
    to.fork_balance = fork_balance as u8;
    to.exec_balance = exec_balance as u8;
    to.ttwu_queue = ttwu_queue as u8;
}

/// The loaded BPF object, attached or not. Detaches when dropped.
pub struct Loaded<'a> {
    skel: BpfSkel<'a>,
    link: Option<Link>,
    exec_link: Option<Link>,
}

impl Loaded<'_> {
    /// Makes it the system's scheduler. An error in its own init is not reported here but by
    /// [`Loaded::exit`].
    ///
    /// # Errors
    /// Fails when another scheduler is attached.
    pub fn attach(&mut self) -> Result<()> {
        self.link = Some(scx_ops_attach!(self.skel, eevdfx_ops)?);
        let exec = &self.skel.progs.eevdfx_exec;
        if exec.autoload() {
            match exec.attach_trace() {
                Ok(link) => self.exec_link = Some(link),
                Err(error) => warn!(
                    "exec_balance has no effect: cannot attach to the tracepoint sched_process_exec: {error}"
                ),
            }
        }
        Ok(())
    }

    /// Gives the system back to the kernel's own scheduler; returns when that is done.
    pub fn detach(&mut self) {
        self.exec_link = None;
        self.link = None;
    }

    /// How many instructions the verifier walked through for each program, by the program's name; without
    /// those programs of which the kernel does not tell.
    pub fn verified_insns(&self) -> Vec<(String, u32)> {
        let programs = self.skel.object().progs();
        programs
            .filter_map(|program| {
                // Negative for a program that this kernel has no use for and libbpf left out.
                let fd = program.as_fd().as_raw_fd();
                let fdinfo = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
                let name = program.name().to_string_lossy().into_owned();
                Some((name, verified_in(&fdinfo)?))
            })
            .collect()
    }

    /// How and why the scheduler ended in the kernel; none while it runs.
    pub fn exit(&self) -> Option<Exit> {
        let uei = &self.skel.maps.data_data.as_ref()?.uei;
        // SAFETY: a field of the mapped .data, which lives as long as the skeleton; volatile
        // because the kernel writes it.
        let kind = unsafe { ptr::read_volatile(&raw const uei.kind) };
        if kind == 0 {
            return None;
        }
        // Pairs with the cmpxchg in UEI_RECORD, which writes `kind` last.
        fence(Ordering::Acquire);
        Some(Exit {
            kind,
            code: uei.exit_code,
            cpu: u32::try_from(uei.exit_cpu).ok(),
            reason: until_nul(&uei.reason),
            message: until_nul(&uei.msg),
            dump: self.dump(),
        })
    }

    /// The dump that came with an exit; empty if none did. Tasks may bear any bytes in their names.
    fn dump(&self) -> String {
        let len = self
            .skel
            .maps
            .rodata_data
            .map_or(0, |rodata| rodata.uei_dump_len as usize);
        let start = UEI_DUMP_PTR_MUTEX
            .lock()
            .map_or(ptr::null(), |dump| dump.ptr);
        if start.is_null() {
            return String::new();
        }
        // SAFETY: scx_ops_load!() pointed it at the mapped value of the dump's map and made that
        // `uei_dump_len` bytes long. The map lives as long as the skeleton, libbpf keeps the
        // address when it loads, and the kernel wrote it before `kind`.
        let bytes = unsafe { std::slice::from_raw_parts(start, len) };
        until_nul(bytes)
    }

    /// The counters, summed over the CPUs in order of enum stat_idx.
    pub fn counters(&self) -> [u64; STATS_PER_CPU] {
        let mut sums = [0u64; STATS_PER_CPU];
        let Some(bss) = self.skel.maps.bss_data.as_ref() else {
            return sums;
        };
        let nr_cpus = self
            .skel
            .maps
            .rodata_data
            .map_or(0, |rodata| rodata.nr_cpu_ids as usize);
        for row in bss.stats.iter().take(nr_cpus) {
            for (sum, counter) in sums.iter_mut().zip(row) {
                // SAFETY: a counter in the mapped .bss, which lives as long as the skeleton;
                // volatile because its CPU writes it.
                *sum = sum.wrapping_add(unsafe { ptr::read_volatile(counter) });
            }
        }
        sums
    }
}

/// What libbpf is to do when it opens the object; owns the strings that `raw` points to.
pub struct OpenOptions {
    raw: bpf_object_open_opts,
    _strings: Vec<CString>,
}

impl OpenOptions {
    /// Takes the user's options over and adds what this machine needs.
    ///
    /// # Errors
    /// Names the option that cannot be used.
    pub fn new(given: &LibbpfOpts) -> Result<Self> {
        let user_kconfig = match &given.kconfig {
            Some(path) => Some(
                fs::read_to_string(path)
                    .with_context(|| format!("--kconfig {path}: cannot read it"))?,
            ),
            None => None,
        };
        let root = Path::new("/");
        let kconfig = kconfig::text(root, user_kconfig, || has_preempt_rcu(root));
        let mut strings = Vec::new();
        let mut pointer = |option: &str, text: &Option<String>| -> Result<*const c_char> {
            let Some(text) = text else {
                return Ok(ptr::null());
            };
            let string = CString::new(text.as_str())
                .with_context(|| format!("{option}: holds a NUL byte"))?;
            // The heap buffer stays where it is when the CString is moved.
            let start = string.as_ptr();
            strings.push(string);
            Ok(start)
        };
        let raw = bpf_object_open_opts {
            sz: size_of::<bpf_object_open_opts>() as _,
            relaxed_maps: given.relaxed_maps.unwrap_or(false),
            kconfig: pointer("--kconfig", &kconfig)?,
            pin_root_path: pointer("--pin-root-path", &given.pin_root_path)?,
            btf_custom_path: pointer("--btf-custom-path", &given.btf_custom_path)?,
            bpf_token_path: pointer("--bpf-token-path", &given.bpf_token_path)?,
            ..Default::default()
        };
        Ok(OpenOptions {
            raw,
            _strings: strings,
        })
    }
}

/// The count of verified instructions in what /proc tells of a program's descriptor.
fn verified_in(fdinfo: &str) -> Option<u32> {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("verified_insns:"))?
        .trim()
        .parse()
        .ok()
}

/// With CONFIG_PREEMPT_RCU __rcu_read_lock() is a function of its own, else it is always inlined.
fn has_preempt_rcu(root: &Path) -> bool {
    compat::ksym_exists("__rcu_read_lock").unwrap_or_else(|_| kconfig::version_says_preempt(root))
}

/// The text before the first NUL, whatever its bytes.
fn until_nul(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|c| *c as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The length of the kernel's scheduler tick in ns (1/HZ), from the resolution of the coarse clock.
///
/// # Errors
/// Fails where there is no such clock.
pub fn tick_ns() -> Result<u64> {
    #[repr(C)]
    struct Timespec {
        sec: c_long,
        nsec: c_long,
    }
    const CLOCK_MONOTONIC_COARSE: c_int = 6;
    unsafe extern "C" {
        fn clock_getres(clock: c_int, resolution: *mut Timespec) -> c_int;
    }
    let mut resolution = Timespec { sec: 0, nsec: 0 };
    // SAFETY: the pointer is to a timespec that outlives the call.
    let error = unsafe { clock_getres(CLOCK_MONOTONIC_COARSE, &mut resolution) };
    if error != 0 || resolution.sec != 0 || resolution.nsec <= 0 {
        bail!("the clock CLOCK_MONOTONIC_COARSE does not tell the length of a tick");
    }
    Ok(resolution.nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_utf8_in_a_name_is_no_trouble() {
        assert_eq!(until_nul(&[0x61, 0xc3u8 as c_char, 0, 0x62]), "a\u{fffd}");
    }

    #[test]
    fn a_tick_is_one_of_the_usual_lengths() {
        let hz = 1_000_000_000 / tick_ns().expect("Linux has the clock");
        assert!([100, 250, 300, 1000].contains(&hz), "{hz}");
    }

    #[test]
    fn the_verifiers_count_is_found_among_the_other_facts() {
        let fdinfo = "pos:\t0\nprog_id:\t42\nrecursion_misses:\t0\nverified_insns:\t1234\n";
        assert_eq!(verified_in(fdinfo), Some(1234));
        assert_eq!(verified_in("pos:\t0\nflags:\t02000000\n"), None);
        assert_eq!(verified_in("verified_insns:\tmany\n"), None);
    }

    #[test]
    fn a_kconfig_file_that_cannot_be_read_is_named() {
        let given = LibbpfOpts {
            kconfig: Some("/nonexistent".to_string()),
            ..Default::default()
        };
        let error = OpenOptions::new(&given).err().expect("a refusal");
        assert!(format!("{error:#}").starts_with("--kconfig /nonexistent: cannot read it"));
    }
}
