// SPDX-License-Identifier: GPL-2.0-only
//! What a wakeup does to the running task: by cases, as a table, and against fair.c's rules on a small
//! set of tasks.

use crate::ffi::{self, Curr, Rq, Rules, Se, Wakee, Wakeup};
use crate::inputs::clock;
use crate::reference::{self, Kind, Party, before};
use proptest::prelude::*;

const NORMAL: Wakee = Wakee {
    idle: false,
    normal: true,
    forked: false,
    buddy: false,
};

/// V = 1000 in every case; the running task has the deadline 3000.
fn preempts(v: u64, deadline: u64, curr_v: u64, vprot: u64) -> bool {
    let se = Se {
        vruntime: v,
        deadline,
        weight: 1024,
        ..Se::default()
    };
    let curr = Curr {
        vruntime: curr_v,
        deadline: 3000,
        vprot,
        ..Curr::default()
    };
    ffi::wakeup(&se, &NORMAL, &curr, 1000, &Rules::default()) == Wakeup::Best
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
    assert!(!preempts(900, 3001, 950, 940), "a later deadline");
    assert!(
        preempts(900, 3000, 950, 940),
        "the running task loses a tie"
    );
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
    let wakeup = |wakee: &Wakee, idle| {
        let curr = Curr {
            vruntime: 1001,
            deadline: 3000,
            idle,
            ..Curr::default()
        };
        ffi::wakeup(&se, wakee, &curr, 1000, &Rules::default())
    };
    let batch = Wakee::default();
    let idle = Wakee {
        idle: true,
        ..batch
    };
    assert_eq!(wakeup(&NORMAL, false), Wakeup::Best);
    assert_eq!(wakeup(&batch, false), Wakeup::Waits, "BATCH never");
    assert_eq!(wakeup(&batch, true), Wakeup::Pick, "SCHED_IDLE yields");
    assert_eq!(wakeup(&idle, false), Wakeup::Waits, "SCHED_IDLE never");
    assert_eq!(wakeup(&idle, true), Wakeup::Waits, "among SCHED_IDLE");
}

/// The rules in their order: the first line that holds decides.
fn decide(se: &Se, wakee: &Wakee, curr: &Curr, avg: i64, rules: &Rules) -> Wakeup {
    let eligible = se.vruntime as i64 <= avg;
    let curr_eligible = curr.vruntime as i64 <= avg;
    let short = rules.preempt_short && se.slice_ns < curr.slice_ns;
    let table = [
        (curr.idle && !wakee.idle, Wakeup::Pick),
        (wakee.idle || !wakee.normal, Wakeup::Waits),
        (short && !eligible, Wakeup::Waits),
        (short && rules.pick_buddy, Wakeup::Runs),
        (short, Wakeup::Pick),
        (wakee.forked || !eligible, Wakeup::Waits),
        (wakee.buddy && rules.pick_buddy, Wakeup::Runs),
        (!curr_eligible, Wakeup::Best),
        (curr.vruntime < curr.vprot, Wakeup::Waits),
        (se.deadline <= curr.deadline, Wakeup::Best),
    ];
    let line = table.iter().find(|line| line.0);
    line.map_or(Wakeup::Waits, |line| line.1)
}

#[test]
fn every_case_is_decided_as_the_table_says() {
    let flag = |bits: u32, n: u32| bits >> n & 1 == 1;
    for bits in 0..1u32 << 9 {
        for place in 0..81u64 {
            let at = |n: u32| 999 + place / 3u64.pow(n) % 3;
            let se = Se {
                vruntime: at(0),
                deadline: 1000 + at(1),
                slice_ns: at(2),
                weight: 1024,
                ..Se::default()
            };
            let curr = Curr {
                vruntime: at(3),
                deadline: 2000,
                vprot: at(3) + u64::from(flag(bits, 0)),
                slice_ns: 1000,
                idle: flag(bits, 1),
            };
            let wakee = Wakee {
                idle: flag(bits, 2),
                normal: flag(bits, 3) && !flag(bits, 2),
                forked: flag(bits, 4),
                buddy: flag(bits, 5),
            };
            let rules = Rules {
                preempt_short: flag(bits, 6),
                pick_buddy: flag(bits, 7),
            };
            let base = if flag(bits, 8) { u64::MAX - 1000 } else { 0 };
            let (mut se2, mut curr2) = (se, curr);
            for time in [&mut se2.vruntime, &mut se2.deadline] {
                *time = time.wrapping_add(base);
            }
            for time in [&mut curr2.vruntime, &mut curr2.deadline, &mut curr2.vprot] {
                *time = time.wrapping_add(base);
            }
            let said = ffi::wakeup(&se2, &wakee, &curr2, base.wrapping_add(1000), &rules);
            let expect = decide(&se, &wakee, &curr, 1000, &rules);
            assert_eq!(said, expect, "{se:?} {wakee:?} {curr:?} {rules:?}");
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => Just(Kind::Normal), 1 => Just(Kind::Batch), 1 => Just(Kind::Idle)]
}

/// (weight, vruntime, request left, slice) on a scale on which ties are common.
fn tasks() -> impl Strategy<Value = Vec<(u32, i64, i64, u64)>> {
    let weight = prop::sample::select(vec![1024u32, 1024, 335, 3121]);
    let task = (weight, -5i64..6, 0i64..8, 1u64..4);
    prop::collection::vec(task, 2..7)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// Task 0 runs, task 1 wakes up, the others wait.
    #[test]
    fn a_wakeup_ends_as_in_the_fair_class(
        zero in clock(),
        tasks in tasks(),
        prot in -2i64..4,
        kinds in (kind(), kind()),
        forked in any::<bool>(),
        bits in 0u32..8,
    ) {
        let at = |offset: i64| zero.wrapping_add(offset as u64);
        let mut rq = Rq { zero_vruntime: zero, ..Rq::default() };
        let ses: Vec<Se> = tasks
            .iter()
            .map(|&(weight, v, left, slice_ns)| {
                Se { vruntime: at(v), deadline: at(v + left), slice_ns, weight, ..Se::default() }
            })
            .collect();
        ses.iter().for_each(|se| ffi::add(&mut rq, se));
        let avg = ffi::avg_vruntime(&rq, 0);
        let rules = reference::Rules {
            preempt_short: bits & 1 > 0,
            pick_buddy: bits & 2 > 0,
            next_buddy: bits & 4 > 0,
        };
        let wakee = Wakee {
            idle: kinds.1 == Kind::Idle,
            normal: kinds.1 == Kind::Normal,
            forked,
            buddy: rules.next_buddy && !forked,
        };
        let curr = Curr {
            vruntime: ses[0].vruntime,
            deadline: ses[0].deadline,
            vprot: at(tasks[0].1 + prot),
            slice_ns: ses[0].slice_ns,
            idle: kinds.0 == Kind::Idle,
        };
        let switches = Rules { preempt_short: rules.preempt_short, pick_buddy: rules.pick_buddy };
        let mut party = Party { tasks: &ses, curr: Some(0), vprot: curr.vprot, next: None, newcomer: Some(1) };
        let said = match ffi::wakeup(&ses[1], &wakee, &curr, avg, &switches) {
            Wakeup::Waits => None,
            Wakeup::Runs => Some(1),
            Wakeup::Best => {
                let first = |&i: &usize| !before(ses[1].deadline, ses[i].deadline);
                let beaten = (2..ses.len()).filter(|&i| party.eligible(i)).any(|i| first(&i));
                (!beaten).then_some(1)
            }
            Wakeup::Pick => {
                party.vprot = curr.vruntime;
                let pick = party.pick(false, true);
                party.vprot = curr.vprot;
                Some(pick)
            }
        };
        prop_assert_eq!(said, party.wakeup(1, kinds, forked, rules));
    }
}
