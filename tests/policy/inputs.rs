// SPDX-License-Identifier: GPL-2.0-only
//! Random inputs on the policy's whole range, and its definitions in 128 bits.

use crate::ffi::{self, Rq, Se};
use proptest::prelude::*;

pub const TICK_NS: u64 = 10_000_000;
pub const MAX_SLICE_NS: u64 = 100_000_000;

/// Every weight there is: the nice table and SCHED_IDLE.
pub fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![4 => (-20..20i32).prop_map(ffi::weight_of_nice), 1 => Just(3u32)]
}

/// A place on the virtual clock, often beside its two wrap-around points.
pub fn clock() -> impl Strategy<Value = u64> {
    let near = -(1i64 << 40)..(1i64 << 40);
    prop_oneof![
        any::<u64>(),
        near.clone().prop_map(|x| x as u64),
        near.prop_map(|x| (1u64 << 63).wrapping_add(x as u64)),
    ]
}

/// A lag within the bound that the policy keeps.
pub fn lag_of(weight: u32) -> impl Strategy<Value = i64> {
    let limit = ffi::lag_limit(MAX_SLICE_NS, TICK_NS, weight);
    prop_oneof![8 => -limit..=limit, 1 => Just(limit), 1 => Just(-limit), 1 => Just(0)]
}

pub fn task() -> impl Strategy<Value = (u32, i64)> {
    weight().prop_flat_map(|w| (Just(w), lag_of(w)))
}

pub fn rq_of(zero: u64, tasks: &[(u32, i64)]) -> (Rq, Vec<Se>) {
    let mut rq = Rq {
        zero_vruntime: zero,
        ..Rq::default()
    };
    let mut ses = Vec::with_capacity(tasks.len());
    for &(weight, offset) in tasks {
        let se = Se {
            vruntime: zero.wrapping_add(offset as u64),
            weight,
            ..Se::default()
        };
        ffi::add(&mut rq, &se);
        ses.push(se);
    }
    (rq, ses)
}

/// V - zero by definition: the weighted mean, rounded down.
pub fn exact_avg(tasks: &[(u32, i64)], ran_ns: u64) -> i128 {
    let sum: i128 = tasks
        .iter()
        .map(|&(w, o)| i128::from(w) * i128::from(o))
        .sum();
    let weight: i128 = tasks.iter().map(|&(w, _)| i128::from(w)).sum();
    (sum + 1024 * i128::from(ran_ns)).div_euclid(weight)
}
