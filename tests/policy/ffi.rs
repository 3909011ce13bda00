// SPDX-License-Identifier: GPL-2.0-only
//! bpf/eevdf.h and bpf/slices.h as safe Rust functions.

/// `struct eevdf_rq`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rq {
    pub sum_w_vruntime: i64,
    pub sum_weight: u64,
    pub zero_vruntime: u64,
}

/// `struct eevdf_se`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Se {
    pub vruntime: u64,
    pub deadline: u64,
    pub vlag: i64,
    pub slice_ns: u64,
    pub weight: u32,
    pub rem: u32,
}

/// `struct eevdf_slices`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slices {
    pub nr_tasks: u32,
    pub nr: [u32; 8],
    pub min_ns: [u64; 8],
    pub max_ns: [u64; 8],
}

/// `struct eevdf_curr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Curr {
    pub vruntime: u64,
    pub deadline: u64,
    pub vprot: u64,
    pub slice_ns: u64,
    pub idle: bool,
}

/// `struct eevdf_wakee`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wakee {
    pub idle: bool,
    pub normal: bool,
    pub forked: bool,
    pub buddy: bool,
}

/// `struct eevdf_rules`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub preempt_short: bool,
    pub pick_buddy: bool,
}

/// `enum eevdf_wakeup`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // made by C
pub enum Wakeup {
    Waits,
    Best,
    Runs,
    Pick,
}

macro_rules! bind {
    ($($host:ident => fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        #[link(name = "eevdf_host", kind = "static")]
        unsafe extern "C" {
            $(fn $host($($arg: $ty),*) $(-> $ret)?;)*
        }
        $(pub fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: plain arithmetic on values and on references that outlive the call.
            unsafe { $host($($arg),*) }
        })*
    };
}

bind! {
    host_weight_of_nice => fn weight_of_nice(nice: i32) -> u32;
    host_div_floor => fn div_floor(num: i64, den: u64) -> i64;
    host_div_trunc => fn div_trunc(num: i64, den: u64) -> i64;
    host_vtime => fn vtime(ns: u64, weight: u32) -> u64;
    host_avg_vruntime => fn avg_vruntime(rq: &Rq, ran_ns: u64) -> u64;
    host_eligible => fn eligible(vruntime: u64, avg: u64) -> bool;
    host_move_zero => fn move_zero(rq: &mut Rq, avg: u64);
    host_add => fn add(rq: &mut Rq, se: &Se);
    host_sub => fn sub(rq: &mut Rq, se: &Se);
    host_charge => fn charge(rq: &mut Rq, se: &mut Se, ns: u64);
    host_lag_limit => fn lag_limit(slice_ns: u64, tick_ns: u64, weight: u32) -> i64;
    host_lag => fn lag(avg: u64, vruntime: u64, limit: i64) -> i64;
    host_delayed_lag => fn delayed_lag(se: &Se, avg: u64, sum_weight: u64, credit: i64) -> i64;
    host_place => fn place(avg: u64, vlag: i64, weight: u32, sum_weight: u64) -> u64;
    host_rescale => fn rescale(x: i64, from: u32, to: u32) -> i64;
    host_renew => fn renew(se: &mut Se, slice_ns: u64) -> bool;
    host_forfeit => fn forfeit(rq: &mut Rq, se: &mut Se);
    host_reweigh => fn reweigh(rq: &mut Rq, se: &mut Se, weight: u32, avg: u64, limit: i64);
    host_slices_add => fn slices_add(slices: &mut Slices, ns: u64) -> u32;
    host_slices_del => fn slices_del(slices: &mut Slices, entry: u32);
    host_min_slice => fn min_slice(slices: &Slices, nr: u32, base_ns: u64) -> u64;
    host_max_slice => fn max_slice(slices: &Slices, nr: u32, base_ns: u64) -> u64;
    host_crowd_slice => fn crowd_slice(slice_ns: u64, nr: u32) -> u64;
    host_ineligible_at => fn ineligible_at(rq: &Rq, se: &Se) -> u64;
    host_protect => fn protect(
        se: &Se, min_slice_ns: u64, ineligible_at: u64, run_to_parity: bool, preempt_short: bool) -> u64;
    host_shrink => fn shrink(
        vprot: u64, vruntime: u64, weight: u32, avg: u64, min_slice_ns: u64) -> u64;
    host_follow => fn follow(mean: u64, point: u64) -> u64;
    host_near => fn near(mean: u64, point: u64, limit: i64) -> u64;
    host_pull_helps => fn pull_helps(dst: u64, src: u64, weight: u32) -> bool;
    host_window_ns => fn window_ns(vruntime: u64, deadline: u64, weight: u32) -> u64;
    host_wakeup => fn wakeup(
        se: &Se, wakee: &Wakee, curr: &Curr, avg: u64, rules: &Rules) -> Wakeup;
}
