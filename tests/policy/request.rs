// SPDX-License-Identifier: GPL-2.0-only
//! Requests: renewal, forfeit, protection, the timer's window.

use crate::ffi::{self, Rq, Se};
use crate::inputs::{MAX_SLICE_NS, clock, rq_of, task, weight};
use proptest::prelude::*;

/// `EEVDF_QUANTUM_NS`.
const QUANTUM_NS: u64 = 700_000;

/// Of two clock values the earlier one.
fn earlier(a: u64, b: u64) -> u64 {
    if (a.wrapping_sub(b) as i64) < 0 { a } else { b }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_used_up_request_is_followed_by_the_next_and_only_then(
        vruntime in clock(),
        ahead in prop_oneof![4 => -(1i64 << 40)..1i64 << 40, 1 => -2i64..3],
        weight in weight(),
        slice_ns in 100_000u64..=MAX_SLICE_NS,
    ) {
        let old = vruntime.wrapping_add(ahead as u64);
        let mut se = Se { vruntime, deadline: old, weight, slice_ns: 1, ..Se::default() };
        let renewed = ffi::renew(&mut se, slice_ns);
        prop_assert_eq!(renewed, ahead <= 0);
        if renewed {
            let vslice = u128::from(slice_ns) * 1024 / u128::from(weight);
            prop_assert_eq!(u128::from(se.deadline.wrapping_sub(vruntime)), vslice);
            prop_assert_eq!(se.slice_ns, slice_ns);
        } else {
            prop_assert_eq!((se.deadline, se.slice_ns), (old, 1));
        }
    }

    #[test]
    fn the_window_ends_with_the_request_and_not_before(
        vruntime in clock(),
        weight in weight(),
        left_ns in 1u64..=MAX_SLICE_NS,
    ) {
        let left = ffi::vtime(left_ns, weight);
        let deadline = vruntime.wrapping_add(left);
        let ns = ffi::window_ns(vruntime, deadline, weight);
        prop_assert!(u128::from(ns) * 1024 >= u128::from(left) * u128::from(weight));
        prop_assert!(ns == 1 || u128::from(ns - 1) * 1024 < u128::from(left) * u128::from(weight));
        prop_assert_eq!(ffi::window_ns(deadline, vruntime, weight), 1);
    }

    #[test]
    fn a_yield_costs_the_rest_of_the_request(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..20),
        left in 1u64..1 << 36,
    ) {
        let (mut rq, mut ses) = rq_of(zero, &tasks);
        let v = ses[0].vruntime;
        ses[0].deadline = v.wrapping_add(left);
        ffi::forfeit(&mut rq, &mut ses[0]);
        prop_assert_eq!(ses[0].vruntime, v.wrapping_add(left));
        for se in &ses {
            ffi::sub(&mut rq, se);
        }
        prop_assert_eq!((rq.sum_w_vruntime, rq.sum_weight), (0, 0));
    }

    #[test]
    fn a_request_is_protected_to_its_end_unless_a_shorter_one_waits(
        vruntime in clock(),
        weight in weight(),
        slice_ns in 100_000..=MAX_SLICE_NS,
        left_ns in 0..=MAX_SLICE_NS,
        min_ns in 100_000..=MAX_SLICE_NS,
        lead in -(1i64 << 36)..1i64 << 36,
    ) {
        let deadline = vruntime.wrapping_add(ffi::vtime(left_ns.min(slice_ns), weight));
        let se = Se { vruntime, deadline, weight, slice_ns, ..Se::default() };
        let at = vruntime.wrapping_add(lead as u64);
        let min_ns = min_ns.min(slice_ns);
        for (parity, shortest) in [(true, min_ns), (false, QUANTUM_NS)] {
            for short in [false, true] {
                let vprot = ffi::protect(&se, min_ns, at, parity, short);
                let vshort = (u128::from(shortest) * 1024 / u128::from(weight)) as u64;
                let expect = match (shortest < slice_ns, short) {
                    (false, _) => deadline,
                    (true, true) => earlier(deadline, at),
                    (true, false) => earlier(deadline, vruntime.wrapping_add(vshort)),
                };
                prop_assert_eq!(vprot, expect, "parity {} short {}", parity, short);
            }
        }
    }

    #[test]
    fn a_wakeup_leaves_no_more_than_the_shortest_request_and_never_adds_protection(
        vruntime in clock(),
        weight in weight(),
        prot in -(1i64 << 36)..1i64 << 36,
        lag in -(1i64 << 36)..1i64 << 36,
        min_ns in 100_000..=MAX_SLICE_NS,
    ) {
        let vprot = vruntime.wrapping_add(prot as u64);
        let avg = vruntime.wrapping_add(lag as u64);
        let new = ffi::shrink(vprot, vruntime, weight, avg, min_ns);
        let left = (u128::from(min_ns) * 1024 / u128::from(weight)) as i64 + lag.min(0);
        prop_assert_eq!(new.wrapping_sub(vruntime) as i64, prot.min(left));
    }

    #[test]
    fn a_running_task_stops_being_eligible_exactly_there(
        zero in clock(),
        tasks in prop::collection::vec(task(), 2..50),
        ran in 0u64..MAX_SLICE_NS,
    ) {
        let (mut rq, mut ses) = rq_of(zero, &tasks);
        ffi::charge(&mut rq, &mut ses[0], ran);
        let at = ffi::ineligible_at(&rq, &ses[0]);
        ffi::sub(&mut rq, &ses[0]);
        for offset in -20i64..20 {
            let se = Se { vruntime: at.wrapping_add(offset as u64), ..ses[0] };
            ffi::add(&mut rq, &se);
            let avg = ffi::avg_vruntime(&rq, 0);
            prop_assert_eq!(ffi::eligible(se.vruntime, avg), offset < 0, "at {}", offset);
            prop_assert_eq!(ffi::ineligible_at(&rq, &se), at, "it does not depend on itself");
            ffi::sub(&mut rq, &se);
        }
    }
}

#[test]
fn alone_a_task_stays_eligible_and_its_deadline_stands_for_that() {
    let se = Se {
        vruntime: u64::MAX - 5,
        deadline: 77,
        weight: 15,
        ..Se::default()
    };
    let mut rq = Rq::default();
    ffi::add(&mut rq, &se);
    assert_eq!(ffi::ineligible_at(&rq, &se), 77);
}

/// Every place of a light and a heavy task in a small world, by the definition of eligibility.
#[test]
fn ineligible_at_is_right_in_every_small_world() {
    for (mine, other) in [(1u32, 1u32), (3, 1), (1, 3), (1024, 15), (7, 5)] {
        for a in -8i64..8 {
            for b in -8i64..8 {
                let (rq, ses) = rq_of(0, &[(mine, 0), (other, a), (other + 1, b)]);
                let at = ffi::ineligible_at(&rq, &ses[0]) as i64;
                let first = (-20i64..20).find(|&v| {
                    let lags = i64::from(other) * (a - v) + i64::from(other + 1) * (b - v);
                    lags < 0
                });
                assert_eq!(Some(at), first, "weights {mine} {other}, others at {a} {b}");
            }
        }
    }
}
