// SPDX-License-Identifier: GPL-2.0-only
//! bpf/eevdf.h against exact arithmetic in 128 bits: random and edge inputs, virtual time that wraps,
//! thousands of tasks.

mod ffi;
mod queue;

use ffi::{Rq, Se};
use proptest::prelude::*;

const TICK_NS: u64 = 10_000_000;
const MAX_SLICE_NS: u64 = 100_000_000;

/// Every weight there is: the nice table and SCHED_IDLE.
fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![4 => (-20..20i32).prop_map(ffi::weight_of_nice), 1 => Just(3u32)]
}

/// A place on the virtual clock, often beside its two wrap-around points.
fn clock() -> impl Strategy<Value = u64> {
    let near = -(1i64 << 40)..(1i64 << 40);
    prop_oneof![
        any::<u64>(),
        near.clone().prop_map(|x| x as u64),
        near.prop_map(|x| (1u64 << 63).wrapping_add(x as u64)),
    ]
}

/// A lag within the bound that the policy keeps.
fn lag_of(weight: u32) -> impl Strategy<Value = i64> {
    let limit = ffi::lag_limit(MAX_SLICE_NS, TICK_NS, weight);
    prop_oneof![8 => -limit..=limit, 1 => Just(limit), 1 => Just(-limit), 1 => Just(0)]
}

fn task() -> impl Strategy<Value = (u32, i64)> {
    weight().prop_flat_map(|w| (Just(w), lag_of(w)))
}

fn rq_of(zero: u64, tasks: &[(u32, i64)]) -> (Rq, Vec<Se>) {
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
fn exact_avg(tasks: &[(u32, i64)], ran_ns: u64) -> i128 {
    let sum: i128 = tasks
        .iter()
        .map(|&(w, o)| i128::from(w) * i128::from(o))
        .sum();
    let weight: i128 = tasks.iter().map(|&(w, _)| i128::from(w)).sum();
    (sum + 1024 * i128::from(ran_ns)).div_euclid(weight)
}

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
    fn a_sleepers_debt_is_paid_down_and_never_becomes_credit(
        avg in clock(),
        vlag in -(1i64 << 36)..0,
        progress in -(1i64 << 37)..(1i64 << 37),
    ) {
        let vruntime = avg.wrapping_sub(vlag as u64);
        let later = avg.wrapping_add(progress as u64);
        let lag = ffi::delayed_lag(vlag, later, vruntime);
        prop_assert_eq!(lag, (vlag + progress).clamp(vlag, 0));
    }

    #[test]
    fn a_new_weight_keeps_the_service_owed((from, vlag) in task(), to in weight()) {
        let scaled = ffi::rescale(vlag, from, to);
        let (old, new) = (i128::from(vlag) * i128::from(from), i128::from(scaled) * i128::from(to));
        prop_assert!((old - new).abs() < i128::from(to));
        prop_assert!(new.abs() <= old.abs());
    }

    #[test]
    fn a_used_up_request_is_followed_by_the_next_and_only_then(
        vruntime in clock(),
        ahead in -(1i64 << 40)..(1i64 << 40),
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
        let se = Se { vruntime, deadline: vruntime.wrapping_add(left), weight, ..Se::default() };
        let ns = ffi::window_ns(&se, true);
        prop_assert!(u128::from(ns) * 1024 >= u128::from(left) * u128::from(weight));
        prop_assert!(ns == 1 || u128::from(ns - 1) * 1024 < u128::from(left) * u128::from(weight));
        prop_assert_eq!(ffi::window_ns(&se, false), ns.min(700_000));
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
}

/// V = 1000 in every case; the running task has the deadline 3000.
fn preempts(v: u64, deadline: u64, curr_v: u64, vprot: u64) -> bool {
    let se = Se {
        vruntime: v,
        deadline,
        weight: 1024,
        ..Se::default()
    };
    let curr = ffi::Curr {
        vruntime: curr_v,
        deadline: 3000,
        vprot,
        idle: false,
    };
    ffi::wakeup_preempts(&se, false, true, &curr, 1000)
}

#[test]
fn a_wakeup_preempts_by_the_rules_of_pick_eevdf() {
    assert!(
        !preempts(900, 2000, 950, 3000),
        "protected to the end of its request"
    );
    assert!(
        preempts(900, 2000, 950, 940),
        "protection used up, earlier deadline"
    );
    assert!(!preempts(900, 3000, 950, 940), "no earlier deadline");
    assert!(
        !preempts(1001, 2000, 950, 940),
        "the waking task is not eligible"
    );
    assert!(
        preempts(1000, 9000, 1001, 3000),
        "the running task is no longer eligible"
    );
    assert!(!preempts(1001, 2000, 1001, 940), "neither is eligible");
}

#[test]
fn policies_decide_before_deadlines_do() {
    let se = Se {
        vruntime: 900,
        deadline: 2000,
        weight: 1024,
        ..Se::default()
    };
    let curr = |idle| ffi::Curr {
        vruntime: 1001,
        deadline: 3000,
        vprot: 0,
        idle,
    };
    assert!(ffi::wakeup_preempts(&se, false, true, &curr(false), 1000));
    assert!(
        !ffi::wakeup_preempts(&se, false, false, &curr(false), 1000),
        "BATCH never"
    );
    assert!(
        ffi::wakeup_preempts(&se, false, false, &curr(true), 1000),
        "SCHED_IDLE always yields"
    );
    assert!(
        !ffi::wakeup_preempts(&se, true, false, &curr(false), 1000),
        "SCHED_IDLE never"
    );
    assert!(
        !ffi::wakeup_preempts(&se, true, false, &curr(true), 1000),
        "among SCHED_IDLE neither"
    );
}
