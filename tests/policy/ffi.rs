// SPDX-License-Identifier: GPL-2.0-only
//! bpf/eevdf.h as safe Rust functions.

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

/// `struct eevdf_curr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Curr {
    pub vruntime: u64,
    pub deadline: u64,
    pub vprot: u64,
    pub idle: bool,
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
    host_delayed_lag => fn delayed_lag(vlag: i64, avg: u64, vruntime: u64) -> i64;
    host_place => fn place(avg: u64, vlag: i64, weight: u32, sum_weight: u64) -> u64;
    host_rescale => fn rescale(x: i64, from: u32, to: u32) -> i64;
    host_renew => fn renew(se: &mut Se, slice_ns: u64) -> bool;
    host_forfeit => fn forfeit(rq: &mut Rq, se: &mut Se);
    host_window_ns => fn window_ns(se: &Se, run_to_parity: bool) -> u64;
    host_wakeup_preempts => fn wakeup_preempts(
        se: &Se, idle: bool, normal: bool, curr: &Curr, avg: u64) -> bool;
}
