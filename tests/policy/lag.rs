// SPDX-License-Identifier: GPL-2.0-only
//! Lag: its bound, placement, a sleeper's debt, another weight.

use crate::ffi::{self, Se};
use crate::inputs::{MAX_SLICE_NS, TICK_NS, clock, rq_of, task, weight};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_task_is_placed_so_that_its_lag_is_the_one_it_left_with(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..50),
        (weight, vlag) in task(),
    ) {
        let (mut rq, _) = rq_of(zero, &tasks);
        let avg = ffi::avg_vruntime(&rq, 0);
        let vruntime = ffi::place(avg, vlag, weight, rq.sum_weight);
        ffi::add(&mut rq, &Se { vruntime, weight, ..Se::default() });
        let lag = ffi::avg_vruntime(&rq, 0).wrapping_sub(vruntime) as i64;
        /* V is rounded down before and after, the inflation toward zero. */
        prop_assert!((lag - vlag).abs() <= 2, "left with {vlag}, came back with {lag}");
    }

    #[test]
    fn joining_an_empty_queue_is_joining_at_v(avg in clock(), (weight, vlag) in task()) {
        prop_assert_eq!(ffi::place(avg, vlag, weight, 0), avg);
    }

    #[test]
    fn lag_is_bounded_by_a_request_and_a_tick(
        avg in clock(),
        distance in -(1i64 << 50)..(1i64 << 50),
        weight in weight(),
        slice_ns in 100_000u64..=MAX_SLICE_NS,
    ) {
        let limit = ffi::lag_limit(slice_ns, TICK_NS, weight);
        let exact = u128::from(slice_ns + TICK_NS) * 1024 / u128::from(weight);
        prop_assert_eq!(limit as u128, exact);
        let lag = ffi::lag(avg, avg.wrapping_sub(distance as u64), limit);
        prop_assert_eq!(lag, distance.clamp(-limit, limit));
    }

    #[test]
    fn a_sleepers_debt_is_that_of_a_task_that_stayed_queued(
        zero in clock(),
        others in prop::collection::vec(task(), 1..20),
        (weight, vlag) in task().prop_filter("owes", |t| t.1 < 0),
        progress in -(1i64 << 37)..(1i64 << 37),
        credit in prop_oneof![Just(0), 0..1i64 << 36],
    ) {
        let (rq, _) = rq_of(zero, &others);
        let avg = ffi::avg_vruntime(&rq, 0);
        let later = avg.wrapping_add(progress as u64);
        let se = Se { vruntime: avg.wrapping_sub(vlag as u64), weight, vlag, ..Se::default() };
        let lag = i128::from(ffi::delayed_lag(&se, later, rq.sum_weight, credit));
        // Its lag by definition, in a mean that it is part of.
        let (w, all) = (i128::from(weight), i128::from(rq.sum_weight));
        let ahead = i128::from(progress + vlag);
        let exact = ahead * all / (all + w);
        let expect = exact.clamp(i128::from(vlag), i128::from(credit));
        prop_assert!((lag - expect).abs() <= 1, "{lag} is not {expect}");
        prop_assert!((i128::from(vlag)..=i128::from(credit)).contains(&lag));
    }

    #[test]
    fn a_debt_of_any_age_is_paid_without_overflow(
        avg in clock(),
        (weight, vlag) in task().prop_filter("owes", |t| t.1 < 0),
        sum_weight in 1u64..1 << 40,
        age in 0i64..i64::MAX / 2,
    ) {
        let se = Se { vruntime: avg.wrapping_sub(vlag as u64), weight, vlag, ..Se::default() };
        let later = avg.wrapping_add(age as u64);
        let lag = ffi::delayed_lag(&se, later, sum_weight, 0);
        prop_assert!((vlag..=0).contains(&lag));
        prop_assert!(age < -vlag || lag == 0);
    }

    #[test]
    fn a_new_weight_keeps_the_service_owed((from, vlag) in task(), to in weight()) {
        let scaled = ffi::rescale(vlag, from, to);
        let (old, new) = (i128::from(vlag) * i128::from(from), i128::from(scaled) * i128::from(to));
        prop_assert!((old - new).abs() < i128::from(to));
        prop_assert!(new.abs() <= old.abs());
    }

    #[test]
    fn another_weight_while_competing_keeps_the_worth_of_lag_and_request(
        zero in clock(),
        tasks in prop::collection::vec(task(), 1..50),
        to in weight(),
        at_v in any::<bool>(),
        left_ns in 0..=MAX_SLICE_NS,
    ) {
        let (mut rq, mut ses) = rq_of(zero, &tasks);
        let avg = ffi::avg_vruntime(&rq, 0);
        if at_v {
            ffi::move_zero(&mut rq, avg);
        }
        let mut se = ses[0];
        se.deadline = se.vruntime.wrapping_add(ffi::vtime(left_ns, se.weight));
        se.rem = se.weight - 1;
        let old = se;
        let limit = ffi::lag_limit(MAX_SLICE_NS, TICK_NS, old.weight);
        let (weight, all) = (i128::from(to), i128::from(rq.sum_weight));
        ffi::reweigh(&mut rq, &mut se, to, avg, limit);
        let owed = avg.wrapping_sub(old.vruntime) as i64;
        let left = old.deadline.wrapping_sub(avg) as i64;
        for (was, is, bound) in [
            (owed, avg.wrapping_sub(se.vruntime) as i64, limit),
            (left, se.deadline.wrapping_sub(avg) as i64, 2 * limit),
        ] {
            let was = i128::from(was.clamp(-bound, bound)) * i128::from(old.weight);
            let is = i128::from(is) * weight;
            prop_assert!((was - is).abs() < weight && is.abs() <= was.abs(), "{was} -> {is}");
        }
        prop_assert_eq!((se.weight, se.rem), (to, 0));
        let new_all = all - i128::from(old.weight) + weight;
        prop_assert_eq!(i128::from(rq.sum_weight), new_all);
        if owed.abs() <= limit {
            /* V was rounded down by less than W of service, the lag by less than the new weight's. */
            let moved = i128::from(ffi::avg_vruntime(&rq, 0).wrapping_sub(avg) as i64);
            prop_assert!(moved >= -1 && moved * new_all < all + weight, "V moved by {moved}");
        }
        ses[0] = se;
        for se in &ses {
            ffi::sub(&mut rq, se);
        }
        prop_assert_eq!((rq.sum_w_vruntime, rq.sum_weight), (0, 0));
    }
}
