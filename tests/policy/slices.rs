// SPDX-License-Identifier: GPL-2.0-only
//! The slices in use on a CPU: shortest and longest after any history; requests in a crowd.

use crate::ffi::{self, Slices};
use crate::inputs::MAX_SLICE_NS;
use proptest::prelude::*;

const BASE_NS: u64 = 2_800_000;
const ROUND_NS: u64 = 8_000_000_000;

/// The tasks counted, as (slice, entry).
#[derive(Default)]
struct Counted {
    slices: Slices,
    tasks: Vec<(u64, u32)>,
}

impl Counted {
    fn add(&mut self, ns: u64) {
        let entry = ffi::slices_add(&mut self.slices, ns);
        self.tasks.push((ns, entry));
    }

    fn del(&mut self, n: usize) {
        if !self.tasks.is_empty() {
            let (_, entry) = self.tasks.swap_remove(n % self.tasks.len());
            ffi::slices_del(&mut self.slices, entry);
        }
    }

    fn distinct(&self) -> usize {
        let mut values: Vec<u64> = self.tasks.iter().map(|t| t.0).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    }

    /// What the policy says with `plain` more tasks of the base slice, and what is true.
    fn ends(&self, plain: u32) -> ((u64, u64), (u64, u64)) {
        let nr = self.tasks.len() as u32 + plain;
        let said = (
            ffi::min_slice(&self.slices, nr, BASE_NS),
            ffi::max_slice(&self.slices, nr, BASE_NS),
        );
        let all = self.tasks.iter().map(|t| t.0);
        let all = all.chain((0..plain).map(|_| BASE_NS));
        let (min, max) = all.fold((u64::MAX, 0), |(a, b), ns| (a.min(ns), b.max(ns)));
        (said, (min, max))
    }
}

/// Some(slice) comes, or the n-th leaves.
type Step = (Option<u64>, usize);

fn steps(values: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(100_000..=MAX_SLICE_NS, values).prop_flat_map(|values| {
        let add = prop::sample::select(values).prop_map(Some);
        let step = (prop_oneof![5 => add, 4 => Just(None)], any::<usize>());
        prop::collection::vec(step, 1..300)
    })
}

#[test]
fn nobody_counted_leaves_the_base_slice() {
    let none = Slices::default();
    assert_eq!(ffi::min_slice(&none, 3, BASE_NS), BASE_NS);
    assert_eq!(ffi::max_slice(&none, 3, BASE_NS), BASE_NS);
}

#[test]
fn the_ninth_value_widens_the_entry_nearest_to_it() {
    let mut c = Counted::default();
    for i in 1..=8 {
        c.add(i * 1_000_000);
    }
    c.add(3_400_000);
    assert_eq!(c.tasks[8].1, c.tasks[2].1);
    c.add(6_600_000);
    assert_eq!(c.tasks[9].1, c.tasks[6].1);
    c.add(100_000);
    assert_eq!(ffi::min_slice(&c.slices, 11, BASE_NS), 100_000);
    c.add(90_000_000);
    assert_eq!(ffi::max_slice(&c.slices, 12, BASE_NS), 90_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn up_to_eight_values_have_their_exact_ends(
        steps in steps(12),
        plain in 0u32..3,
    ) {
        let mut c = Counted::default();
        for (add, n) in steps {
            match add {
                Some(ns) if c.distinct() < 8 || c.tasks.iter().any(|t| t.0 == ns) => c.add(ns),
                Some(_) => {}
                None => c.del(n),
            }
            if !c.tasks.is_empty() {
                let (said, truth) = c.ends(plain);
                prop_assert_eq!(said, truth);
            }
        }
    }

    #[test]
    fn more_values_are_bracketed_and_the_counts_return_to_zero(
        steps in steps(40),
        plain in 0u32..3,
    ) {
        let mut c = Counted::default();
        for (add, n) in steps {
            match add {
                Some(ns) => c.add(ns),
                None => c.del(n),
            }
            prop_assert_eq!(c.slices.nr_tasks as usize, c.tasks.len());
            if !c.tasks.is_empty() {
                let (said, truth) = c.ends(plain);
                prop_assert!(said.0 <= truth.0 && said.1 >= truth.1, "{said:?} {truth:?}");
                prop_assert!(said.0 >= 100_000 && said.1 <= MAX_SLICE_NS, "{said:?}");
            }
        }
        while !c.tasks.is_empty() {
            c.del(0);
        }
        prop_assert_eq!((c.slices.nr_tasks, c.slices.nr), (0, [0; 8]));
        c.add(5_000_000);
        prop_assert_eq!(c.ends(0), ((5_000_000, 5_000_000), (5_000_000, 5_000_000)));
    }

    #[test]
    fn a_round_of_a_crowd_is_bounded_and_a_small_crowd_is_left_alone(
        slice_ns in 100_000..=MAX_SLICE_NS,
        nr in prop_oneof![1u32..200, 1u32..1_000_000],
    ) {
        let cut = ffi::crowd_slice(slice_ns, nr);
        prop_assert_eq!(cut, slice_ns.min(ROUND_NS / u64::from(nr)));
        prop_assert!(cut > 0 && cut * u64::from(nr) <= ROUND_NS);
        prop_assert!(ffi::crowd_slice(slice_ns, nr + 1) <= cut);
        prop_assert!(ffi::crowd_slice(slice_ns + 1, nr) >= cut);
    }
}
