/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What BPF and the daemon share: limits, knobs, topology tables and counters. The skeleton generator
 * reads these types from BTF, so the daemon has no second copy of them.
 */
#ifndef __EEVDFX_INTF_H
#define __EEVDFX_INTF_H

/* All bounds are powers of two: an index is masked instead of tested on hot paths. */
enum eevdfx_limits {
	EEVDFX_MAX_CPUS = 1024,
	EEVDFX_MAX_NODES = 64,
	EEVDFX_MAX_BLOCKS = 128,
	EEVDFX_STATS_PER_CPU = 64,
};

/* When a wakeup may leave the task's home node. In the order of knobs.rs. */
enum numa_spill {
	NUMA_SPILL_NEVER,
	NUMA_SPILL_IDLE_CORE, /* for a core that is idle as a whole */
	NUMA_SPILL_IDLE,
};

/* How new tasks and programs are spread over nodes. */
enum spread {
	SPREAD_OFF,
	SPREAD_LEAST_LOADED,
	SPREAD_ROUND_ROBIN,
};

/* Who queues a remote wakeup. */
enum ttwu_queue {
	TTWU_QUEUE_OFF, /* the waker, under the target's rq lock */
	TTWU_QUEUE_KERNEL, /* the target by IPI (SCX_OPS_ALLOW_QUEUED_WAKEUP) */
	TTWU_QUEUE_DELAYED, /* staged for the CPU it slept on, if it owes */
	TTWU_QUEUE_ALWAYS, /* staged for its target, if that is busy */
};

/*
 * The switchable rules. Read on every scheduling decision, written only by the daemon; cache lines
 * of their own, so that a change does not drag a counter along.
 */
struct knobs {
	u64 slice_ns; /* a request of a task that asked for no slice of its own, 100 us .. 100 ms */
	bool place_lag; /* a waking task gets back the lag it left with; off: placed at V */
	bool run_to_parity; /* a picked task keeps the CPU to the end of its request */
	bool wakeup_preemption; /* off: a wakeup never interrupts the running task */
	bool delay_dequeue; /* a sleeper's debt is paid by the others' progress; off: kept as it was */
	bool preempt_short; /* a waking task with a shorter slice takes over once eligible */
	bool place_rel_deadline; /* a moved or changed task keeps the rest of its request; off: a new one */
	bool place_deadline_initial; /* a forked task's first request is half a slice; off: a whole one */
	bool delay_zero; /* delay_dequeue pays debts down to 0; off: beyond it, up to one request */
	bool next_buddy; /* the task that was woken last, if eligible, is picked next */
	bool pick_buddy; /* off: the pick ignores next_buddy, yield_to and preempt_short's hand-over */
	bool hrtick; /* a request ends on time; off: at the next tick */

	/* where a task runs */
	bool wake_sync; /* a wakeup whose waker is about to sleep may take the waker's CPU */
	bool wake_affine; /* a wakeup may go near its waker; off: near the previous CPU */
	u8 numa_spill; /* enum numa_spill */
	u8 fork_balance; /* enum spread */
	u8 ttwu_queue; /* enum ttwu_queue */
	u64 steal_delay_llc_ns; /* a task waits so long before an idle CPU of its LLC takes it, */
	u64 steal_delay_node_ns; /* of its node, */
	u64 steal_delay_remote_ns; /* of another node at distance 20 */
	u64 migration_cost_ns; /* a task that ran is cache-hot for so long */
	u64 balance_ns; /* busy CPUs may differ by so much service per weight; 0: no balance */
	u64 balance_interval_ns; /* how often a busy CPU looks */
	u8 exec_balance; /* enum spread; fixed at load */
	u8 pad[55];
};

_Static_assert(sizeof(struct knobs) == 128, "two cache lines");

/*
 * Which CPUs belong together. cpu_order[] lists all CPUs sorted by node, LLC, core and id, so that each
 * of these is a range of positions in it. All ranges are [first, end).
 *
 * A chunk is at most 64 CPUs of one LLC, a block at most 64 chunks of one node: a bit for each member
 * fits a u64. A core is in one chunk. Chunks, blocks and nodes are numbered from 0 in the same order,
 * nodes that have no CPU left out.
 *
 * CPUs without a topology (offline or absent) stand behind all others, each in a chunk of its own behind
 * the nodes' chunks, which belongs to no node's range.
 */
struct cpu_topo {
	u16 chunk;
	u16 bit; /* in the chunk: position less the chunk's first */
	u16 llc_first; /* chunks of its LLC */
	u16 llc_end;
	u16 node; /* index in node_topo[]; 0 without a topology */
	u16 node_id; /* the kernel's; 0 without a topology */
};

struct chunk_topo {
	u16 first; /* positions */
	u16 end;
};

struct node_topo {
	u16 chunk_first;
	u16 chunk_end;
	u16 block_first; /* block b has the chunks from chunk_first + 64 * (b - block_first) on */
	u16 block_end;
	u16 node_id;
	u16 nr_order;
	u8 order[EEVDFX_MAX_NODES]; /* the other nodes, nearest first; equals go round from the next one */
	u8 dist[EEVDFX_MAX_NODES]; /* to each node; 10 is itself */
};

/*
 * Counters, kept per CPU. A group names what its members add up to.
 */
enum stat_idx {
	/* every enqueue: DIRECT + PREEMPT + READY + WAIT + STAGE + NOCTX */
	STAT_ENQ_DIRECT, /* nobody else runnable on the CPU: straight to its local DSQ */
	STAT_ENQ_PREEMPT, /* a wakeup that interrupts the running task */
	STAT_ENQ_READY, /* queued by deadline */
	STAT_ENQ_WAIT, /* queued by vruntime, not eligible yet */
	STAT_ENQ_STAGE, /* a remote wakeup, to be sorted in by its CPU */
	STAT_ENQ_NOCTX, /* no task context to be had: local DSQ, default slice */

	/* every dispatch that found work: KEEP + READY + FALLBACK + STEAL_* + PULL */
	STAT_PICK_KEEP, /* the previous task goes on */
	STAT_PICK_READY, /* the eligible task with the earliest deadline */
	STAT_PICK_FALLBACK, /* none was eligible: the one nearest to it */
	STAT_STEAL_LLC, /* own queues empty: a task of another CPU of the LLC, */
	STAT_STEAL_NODE, /* of the node, */
	STAT_STEAL_REMOTE, /* of another node */
	STAT_PULL, /* a task of a busy CPU that is behind in service per weight */

	/* upkeep of the two queues */
	STAT_PROMOTE, /* WAIT -> READY */
	STAT_DEMOTE, /* READY -> WAIT */
	STAT_RESCUE, /* waited longer than the rescue bound, moved to the front */

	/* every wakeup that searched: PREV + SYNC + LLC + NODE + REMOTE + NONE */
	STAT_IDLE_PREV, /* the previous CPU */
	STAT_IDLE_SYNC, /* the waker's, which says that it is about to sleep */
	STAT_IDLE_LLC, /* another one of the LLC at home, */
	STAT_IDLE_NODE, /* of the home node, */
	STAT_IDLE_REMOTE, /* of another node */
	STAT_IDLE_NONE, /* none idles: the previous CPU or the waker's */

	/* the same wakeups: HOME + AWAY */
	STAT_WAKE_AFFINE, /* of IDLE_NONE: to the waker's CPU, which has less to do */

	STAT_WAKE_HOME, /* to a CPU of the home node */
	STAT_WAKE_AWAY,

	STAT_FORK_SPREAD, /* a forked task whose home is not its parent's node */
	STAT_EXEC_SPREAD, /* a program that was moved to another node when it was executed */

	STAT_IDLE_KICK, /* an idle CPU was told that a task waits elsewhere */

	STAT_TTWU_QUEUED, /* wakeups that the kernel handed to their CPU */
	STAT_STAGE_DRAIN, /* staged ones that their CPU sorted in, */
	STAT_STAGE_STEAL, /* and those that an idle CPU took before; the rest of STAGE slept or moved again */

	STAT_HRTICK_ARM, /* a timer for the end of a request */
	STAT_HRTICK_KICK, /* the request had ended and somebody waited */

	STAT_MIGRATE, /* a task's lag followed it to another CPU */
	STAT_RACE, /* a task was not accounted where it was expected; repaired */

	EEVDFX_NR_STATS,
};

_Static_assert((int)EEVDFX_NR_STATS <= (int)EEVDFX_STATS_PER_CPU,
	       "a CPU's row is padded to whole cache lines");

#endif /* __EEVDFX_INTF_H */
