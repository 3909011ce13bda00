// SPDX-License-Identifier: GPL-2.0-only
//! The virtual clock: weights, divisions, V, eligibility, charging.

use crate::ffi::{self, Rq, Se};
use crate::inputs::{MAX_SLICE_NS, TICK_NS, clock, exact_avg, rq_of, task, weight};
use proptest::prelude::*;

#[test]
fn nice_levels_have_the_kernels_weights_and_a_level_is_a_factor_of_about_1_25() {
    assert_eq!(ffi::weight_of_nice(-20), 88761);
    assert_eq!(ffi::weight_of_nice(-5), 3121);
    assert_eq!(ffi::weight_of_nice(0), 1024);
    assert_eq!(ffi::weight_of_nice(5), 335);
    assert_eq!(ffi::weight_of_nice(19), 15);
    assert_eq!(ffi::weight_of_nice(-100), 88761);
    assert_eq!(ffi::weight_of_nice(100), 15);
    for nice in -20..19 {
        let ratio = f64::from(ffi::weight_of_nice(nice)) / f64::from(ffi::weight_of_nice(nice + 1));
        assert!((1.19..1.29).contains(&ratio), "nice {nice}: {ratio}");
    }
}

#[test]
fn divisions_round_down_and_toward_zero_at_the_edges() {
    for num in [i64::MIN + 1, -7, -6, -1, 0, 1, 6, 7, i64::MAX] {
        for den in [1u64, 2, 3, 1024, 88761, 1 << 40] {
            let (n, d) = (i128::from(num), i128::from(den));
            assert_eq!(
                i128::from(ffi::div_floor(num, den)),
                n.div_euclid(d),
                "{num} / {den}"
            );
            assert_eq!(i128::from(ffi::div_trunc(num, den)), n / d, "{num} / {den}");
        }
    }
}

#[test]
fn the_mean_of_nobody_is_where_it_was() {
    let rq = Rq {
        zero_vruntime: u64::MAX - 5,
        ..Rq::default()
    };
    assert_eq!(ffi::avg_vruntime(&rq, 1_000_000), u64::MAX - 5);
}

#[test]
fn ten_thousand_of_the_heaviest_tasks_do_not_overflow() {
    let limit = ffi::lag_limit(MAX_SLICE_NS, TICK_NS, 88761);
    for offset in [-limit, limit] {
        let tasks = vec![(88761, offset); 10_000];
        let (rq, _) = rq_of(17, &tasks);
        assert_eq!(ffi::avg_vruntime(&rq, 0), 17u64.wrapping_add(offset as u64));
    }
}

#[test]
fn a_mixed_crowd_of_five_thousand_has_its_exact_mean() {
    let tasks: Vec<_> = (0..5000i64)
        .map(|i| {
            let w = if i % 41 == 40 {
                3
            } else {
                ffi::weight_of_nice((i % 41) as i32 - 20)
            };
            let limit = ffi::lag_limit(MAX_SLICE_NS, TICK_NS, w);
            (w, (i * 7919 % 2001 - 1000) * limit / 1000)
        })
        .collect();
    let zero = u64::MAX - 1000;
    let (rq, _) = rq_of(zero, &tasks);
    let avg = ffi::avg_vruntime(&rq, 3_000_000);
    assert_eq!(
        i128::from(avg.wrapping_sub(zero) as i64),
        exact_avg(&tasks, 3_000_000)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn floor_and_trunc_equal_exact_division(num in (i64::MIN + 1)..=i64::MAX, den in 1u64..1 << 62) {
        let (n, d) = (i128::from(num), i128::from(den));
        prop_assert_eq!(i128::from(ffi::div_floor(num, den)), n.div_euclid(d));
        prop_assert_eq!(i128::from(ffi::div_trunc(num, den)), n / d);
    }

    #[test]
    fn avg_vruntime_is_the_exact_weighted_mean(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..200),
        ran_ns in 0u64..200_000_000,
    ) {
        let (rq, _) = rq_of(zero, &tasks);
        let avg = ffi::avg_vruntime(&rq, ran_ns);
        prop_assert_eq!(i128::from(avg.wrapping_sub(zero) as i64), exact_avg(&tasks, ran_ns));
    }

    #[test]
    fn eligible_is_exactly_lag_not_negative(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..100),
    ) {
        let (rq, ses) = rq_of(zero, &tasks);
        let avg = ffi::avg_vruntime(&rq, 0);
        let mut any = false;
        for (se, &(_, offset)) in ses.iter().zip(&tasks) {
            let lags: i128 = tasks
                .iter()
                .map(|&(w, o)| i128::from(w) * (i128::from(o) - i128::from(offset)))
                .sum();
            prop_assert_eq!(ffi::eligible(se.vruntime, avg), lags >= 0);
            any |= lags >= 0;
        }
        prop_assert!(any, "nobody was eligible");
    }

    #[test]
    fn moving_zero_changes_no_mean(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..100),
        ran_ns in 0u64..100_000_000,
        later_ns in 0u64..100_000_000,
    ) {
        let (rq, _) = rq_of(zero, &tasks);
        let mut moved = rq;
        ffi::move_zero(&mut moved, ffi::avg_vruntime(&rq, ran_ns));
        prop_assert_eq!(ffi::avg_vruntime(&moved, later_ns), ffi::avg_vruntime(&rq, later_ns));
    }

    #[test]
    fn who_leaves_takes_exactly_what_it_brought(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..100),
        moves in prop::collection::vec(0u64..10_000_000, 1..10),
    ) {
        let (mut rq, ses) = rq_of(zero, &tasks);
        for ran_ns in moves {
            let avg = ffi::avg_vruntime(&rq, ran_ns);
            ffi::move_zero(&mut rq, avg);
        }
        for se in &ses {
            ffi::sub(&mut rq, se);
        }
        prop_assert_eq!((rq.sum_w_vruntime, rq.sum_weight), (0, 0));
    }

    #[test]
    fn vruntime_is_the_whole_service_over_weight_however_it_was_cut(
        start in clock(),
        weight in weight(),
        pieces in prop::collection::vec(0u64..20_000_000, 1..200),
    ) {
        let mut se = Se { vruntime: start, weight, ..Se::default() };
        let mut rq = Rq { zero_vruntime: start, ..Rq::default() };
        ffi::add(&mut rq, &se);
        for &ns in &pieces {
            ffi::charge(&mut rq, &mut se, ns);
        }
        let total: u128 = pieces.iter().map(|&ns| u128::from(ns)).sum();
        let expect = total * 1024 / u128::from(weight);
        prop_assert_eq!(u128::from(se.vruntime.wrapping_sub(start)), expect);
        prop_assert_eq!(ffi::avg_vruntime(&rq, 0), se.vruntime);
        ffi::sub(&mut rq, &se);
        prop_assert_eq!((rq.sum_w_vruntime, rq.sum_weight), (0, 0));
    }

    #[test]
    fn uncharged_service_moves_v_as_charging_will(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..50),
        ns in 0u64..100_000_000,
    ) {
        let (mut rq, mut ses) = rq_of(zero, &tasks);
        let before = ffi::avg_vruntime(&rq, ns);
        ffi::charge(&mut rq, &mut ses[0], ns);
        let after = ffi::avg_vruntime(&rq, 0);
        /* The remainder that charge() carries is less than one unit of w. */
        prop_assert!(before.wrapping_sub(after) <= 1, "{} then {}", before, after);
    }
}
