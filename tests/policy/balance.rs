// SPDX-License-Identifier: GPL-2.0-only
//! Global virtual time and what may be pulled.

use crate::ffi;
use proptest::prelude::*;

proptest! {
    /// Between the two, and closer to the point, however virtual time wraps.
    #[test]
    fn a_mean_follows_without_overshooting(mean: u64, ahead in -(1i64 << 40)..1 << 40) {
        let moved = ffi::follow(mean, mean.wrapping_add_signed(ahead)).wrapping_sub(mean) as i64;
        prop_assert_eq!(moved, ahead / 8);
    }

    #[test]
    fn a_point_is_held_near_the_mean(mean: u64, ahead in -(1i64 << 40)..1 << 40, limit in 0i64..1 << 36) {
        let held = ffi::near(mean, mean.wrapping_add_signed(ahead), limit).wrapping_sub(mean) as i64;
        prop_assert_eq!(held, ahead.clamp(-limit, limit));
    }

    /// Never to a CPU with as much to do; nor the bulk of a load to where it would only weigh as much again.
    #[test]
    fn a_pull_goes_downhill(dst in 0u64..1 << 30, src in 0u64..1 << 30, weight in 3u32..88_762) {
        let helps = ffi::pull_helps(dst, src, weight);
        prop_assert!(!helps || dst < src);
        let w = u64::from(weight);
        if dst < src && w <= src / 2 {
            prop_assert!(helps);
        }
        if helps && w > src.div_ceil(2) {
            prop_assert!(dst + w <= src);
        }
    }
}

#[test]
fn a_heavy_task_does_not_make_the_others_churn() {
    // Nice -10 beside nice 0, the neighbour has a hog: the light one may go, the heavy one stays.
    assert!(ffi::pull_helps(1024, 9548 + 1024, 1024));
    assert!(!ffi::pull_helps(1024 + 1024, 9548 + 1024, 9548));
    // To a CPU with next to nothing it may go.
    assert!(ffi::pull_helps(15, 9548 + 1024, 9548));
}

/// Hogs on CPUs that follow the rule: the one that is ahead by the bound pulls from the one farthest behind. In the long run
/// all get the same.
#[test]
fn hogs_that_do_not_divide_evenly_get_equal_service() {
    const CPUS: usize = 8;
    const STEP_US: u64 = 1000;
    const BOUND_US: i64 = 10_000;
    for hogs in [9, 12, 17] {
        let mut at: Vec<usize> = (0..hogs).map(|hog| hog % CPUS).collect();
        let mut service_us = vec![0u64; hogs];
        let mut gvt_us = [0i64; CPUS];
        for _ in 0..20_000 {
            for (cpu, gvt_us) in gvt_us.iter_mut().enumerate() {
                let here: Vec<usize> = (0..hogs).filter(|hog| at[*hog] == cpu).collect();
                *gvt_us += (STEP_US / here.len() as u64) as i64;
                for hog in &here {
                    service_us[*hog] += STEP_US / here.len() as u64;
                }
            }
            let load = |at: &[usize], cpu| 1024 * at.iter().filter(|c| **c == cpu).count() as u64;
            for cpu in 0..CPUS {
                let behind = (0..CPUS).filter(|other| load(&at, *other) > 1024);
                let Some(behind) = behind.min_by_key(|other| gvt_us[*other]) else {
                    continue;
                };
                if gvt_us[cpu] - gvt_us[behind] <= BOUND_US
                    || !ffi::pull_helps(load(&at, cpu), load(&at, behind), 1024)
                {
                    continue;
                }
                // Of those there, the one that was served most: it would run last.
                let hog = (0..hogs)
                    .filter(|hog| at[*hog] == behind)
                    .max_by_key(|hog| service_us[*hog])
                    .expect("it has some");
                at[hog] = cpu;
            }
        }
        let (least, most) = (
            service_us.iter().min().expect("hogs"),
            service_us.iter().max().expect("hogs"),
        );
        let ratio = *most as f64 / *least as f64;
        assert!(
            ratio < 1.05,
            "{hogs} hogs: {ratio} after {} ms",
            20_000 * STEP_US / 1000
        );
    }
}
