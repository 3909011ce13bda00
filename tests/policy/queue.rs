// SPDX-License-Identifier: GPL-2.0-only
//! The two queues of bpf/pick.bpf.h: after any history their pick, and what a wakeup does, are what an
//! exhaustive search by the rules of pick_eevdf() finds.

use crate::inputs::clock;
use crate::model::{Knobs, Machine, Place};
use crate::steps::{Step, step};
use proptest::prelude::*;

/// Whose deadline the rules let run on `cpu`.
fn best(m: &Machine, cpu: usize) -> Option<u64> {
    m.with_party(cpu, |party, _| {
        (!party.tasks.is_empty()).then(|| party.tasks[party.pick(false, true)].deadline)
    })
}

fn running(m: &Machine, cpu: usize) -> Option<u64> {
    m.cpus[cpu].curr.map(|id| m.tasks[id].se.deadline)
}

/// `id`, asleep, wakes up on `cpu`; compares who runs then. With a tie in deadlines two are right.
fn compare_wakeup(m: &mut Machine, cpu: usize, id: usize) {
    m.charge(cpu);
    let Some(curr) = m.cpus[cpu].curr else {
        m.wake(cpu, id);
        return;
    };
    let kinds = (m.tasks[curr].kind, m.tasks[id].kind);
    let knobs = m.knobs;
    let vprot = m.cpus[cpu].vprot;
    m.wake(cpu, id);
    let said = m.cpus[cpu].curr;
    let rules = crate::reference::Rules {
        preempt_short: knobs.preempt_short,
        pick_buddy: knobs.pick_buddy,
        next_buddy: false,
    };
    let expect = m.with_party(cpu, |mut party, ids| {
        let at = |id| ids.iter().position(|&i| i == id);
        party.curr = at(curr);
        party.vprot = vprot;
        let wakee = at(id).expect("it competes");
        let runs = party.wakeup(wakee, kinds, false, rules);
        runs.map_or(curr, |i| ids[i])
    });
    let deadline = |id: usize| m.tasks[id].se.deadline;
    assert_eq!(said.map(deadline), Some(deadline(expect)));
    assert_eq!(said == Some(curr), expect == curr);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_pick_is_the_one_that_an_exhaustive_search_finds(
        start in clock(),
        bits in any::<u8>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut m = Machine::new(2, Knobs::from_bits(bits), start);
        for step in steps {
            m.apply(&step);
            for cpu in 0..m.cpus.len() {
                m.charge(cpu);
                let best = best(&m, cpu);
                m.pick(cpu);
                prop_assert_eq!(running(&m, cpu), best);
            }
        }
    }

    #[test]
    fn a_wakeup_lets_those_run_that_the_rules_let_run(
        start in clock(),
        bits in any::<u8>(),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut m = Machine::new(2, Knobs::from_bits(bits), start);
        for step in steps {
            match step {
                Step::Wake(n, cpu) if !m.tasks.is_empty() => {
                    let id = n % m.tasks.len();
                    if m.tasks[id].place == Place::Away {
                        let cpu = cpu.map_or(m.tasks[id].cpu, |c| c % 2);
                        compare_wakeup(&mut m, cpu, id);
                    }
                }
                step => m.apply(&step),
            }
        }
    }
}
