/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the daemon sets: the rules (may change while we run), and the facts about the machine (fixed at
 * load). Defaults live in src/knobs.rs; the values here only keep an object loadable by itself.
 */
#ifndef __EEVDFX_KNOBS_BPF_H
#define __EEVDFX_KNOBS_BPF_H

/* Volatile: read anew on every decision. A reader may see an old value once, never a torn one. */
volatile struct knobs knobs = {
	.slice_ns = 2800000,
	.place_lag = true,
	.run_to_parity = true,
	.wakeup_preemption = true,
	.delay_dequeue = true,
	.preempt_short = true,
	.place_rel_deadline = true,
	.place_deadline_initial = true,
	.delay_zero = true,
	.next_buddy = false,
	.pick_buddy = true,
	.hrtick = true,
	.numa_spill = NUMA_SPILL_IDLE,
	.wake_sync = true,
	.wake_affine = true,
	.steal_delay_remote_ns = 500000,
	.migration_cost_ns = 500000,
	.balance_ns = 10000000,
	.balance_interval_ns = 8000000,
	.fork_balance = SPREAD_LEAST_LOADED,
	.ttwu_queue = TTWU_QUEUE_KERNEL,
	.exec_balance = SPREAD_OFF,
};

const volatile u64 tick_ns = 4000000; /* TICK_NSEC */
const volatile u32 nr_cpu_ids = 1;
const volatile u32 nr_nodes = 1;
const volatile bool idle_per_node; /* SCX_OPS_BUILTIN_IDLE_PER_NODE, see idle.bpf.h */
const volatile u16 cpu_order[EEVDFX_MAX_CPUS];
const volatile struct cpu_topo cpu_topo[EEVDFX_MAX_CPUS];
const volatile struct chunk_topo chunk_topo[EEVDFX_MAX_CPUS];
const volatile struct node_topo node_topo[EEVDFX_MAX_NODES];

#endif /* __EEVDFX_KNOBS_BPF_H */
