/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State: one runq per CPU, one task_ctx per task, counters per CPU. This and knobs.bpf.h are the only
 * headers that define maps or globals.
 *
 * Locking. A runq belongs to its CPU: runnable, enqueue, running, stopping, quiescent, yield and
 * dispatch all hold that CPU's rq lock. The exception is a task that moves: the first callback that
 * tells of it holds only the destination's rq lock, and must take the task out of the source's sums.
 * So everything that other CPUs change (eq, slices, nr, idle_gen) is under runq->lock as well, one runq lock at
 * a time, no kfunc inside. What only the owner changes (curr_*) needs the rq lock alone.
 * A task_ctx is under the rq lock of the CPU that its task is on.
 */
#ifndef __EEVDFX_CTX_BPF_H
#define __EEVDFX_CTX_BPF_H

/*
 * What runnable or stopping found out about the task that enqueue is called for next, still under the
 * same rq lock: a look-up of its context saved. Void once the task has moved.
 */
struct verdict {
	u64 task; /* address of its task_struct, 0: none */
	u64 nr_migrations;
	u64 vruntime;
	u64 deadline;
	enum eevdf_wakeup wakeup; /* against the running task */
	bool eligible;
	bool searched; /* select_cpu looked for an idle CPU on this wakeup */
	bool owes; /* it woke while it still owed (delay_dequeue) */
	bool sync; /* by a waker on this CPU that announced its sleep */
	bool exec_leaves; /* see exec.bpf.h */
};

struct runq {
	struct bpf_spin_lock lock;
	u32 nr; /* runnable tasks accounted here, the running one included */
	struct eevdf_rq eq;
	struct eevdf_slices slices;
	u64 avg_vruntime; /* V when it was last computed, for dumps */
	u32 idle_gen; /* how often nr fell to 0: debts to a CPU that had nobody left are void */

	/* The running task, for wakeups on this CPU. Owner only. */
	bool curr_idle; /* SCHED_IDLE */
	bool staged; /* the staging queue is not empty, see ttwu.bpf.h */
	bool preempting; /* a wakeup has won and the switch is on its way */
	bool curr_leaves; /* for another node when the timer fires, see exec.bpf.h */
	u32 curr_weight;
	u64 curr_since; /* when it was last charged; 0: none of our tasks runs */
	u64 curr_vruntime; /* as last charged */
	u64 curr_deadline;
	u64 curr_slice_ns;
	u64 curr_vprot; /* protected from others while its vruntime is before this */
	u64 curr_end; /* when its request ends, on the clock of curr_since */

	u64 hrtick_at; /* when the CPU's timer fires, 0: not armed. Also written by its callback. */

	/* No task in WAIT has a vruntime before wait_head; it is empty if !wait_any. Owner only. */
	bool wait_any;
	u64 wait_head;

	struct verdict verdict; /* Owner only. */

	/* Addresses of task_structs, 0: none. Owner only. */
	u64 next; /* fair.c cfs_rq->next: picked before earlier deadlines, once eligible */
	u64 next_deadline;
	u64 requeued; /* ran when its attributes changed: goes on with its protection */
	u64 direct; /* waits on the local DSQ, see preempt.bpf.h */
	u64 direct_vruntime;
	u64 direct_deadline;
	u32 direct_ticks; /* how long */

	/* gvt.bpf.h, balance.bpf.h, steal.bpf.h. Written by the owner only. */
	u64 gvt_off; /* V + gvt_off: comparable with other CPUs */
	u64 balance_at; /* when to look for one that is behind */
	u32 ahead; /* how often in a row one was */
	u32 balance_turn; /* which other node to look at */
	s32 pull_from; /* 1 + the CPU to pull a task from, 0: none */
	u64 pulled; /* address of a task that was pulled and has not run yet */
	u64 steal_at; /* when the first task is old enough to be stolen, 0: none seen */

	u32 scanned; /* by the loop that runs, see pick.bpf.h. Owner only. */
	u64 rescue_at; /* jiffies of the next look for a task that waits too long. Owner only. */
} __attribute__((aligned(128)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* nr_cpu_ids, set before load */
	__type(key, u32);
	__type(value, struct runq);
} runqs SEC(".maps");

struct gvt_mean {
	u64 gvt;
	u64 at; /* when it was updated */
};

/* Up to 64 CPUs of one LLC. */
struct chunk {
	u64 waiting; /* a bit per CPU that has tasks to give, see waiting.bpf.h */
	struct gvt_mean mean __attribute__((aligned(64))); /* apart: waiting is read more often */
} __attribute__((aligned(128)));

/* Up to 64 chunks of one node. */
struct block {
	u64 waiting; /* a bit per chunk */
} __attribute__((aligned(128)));

/* A bit per node. Shared by all, written when the first chunk of a node gets or the last one lost its bit. */
struct machine {
	u64 waiting;
	struct gvt_mean mean __attribute__((aligned(64)));
} __attribute__((aligned(128)));

struct chunk chunks[EEVDFX_MAX_CPUS];
struct block blocks[EEVDFX_MAX_BLOCKS];
struct machine machine;

struct hrtick {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* nr_cpu_ids, set before load */
	__type(key, u32);
	__type(value, struct hrtick);
} hrticks SEC(".maps");

struct task_ctx {
	struct eevdf_se se;
	u64 sum_exec_ns; /* p->se.sum_exec_runtime when last charged */
	u64 ready_at; /* waits since */
	u64 ran_at; /* last ran until */
	s32 waker_cpu; /* where select_cpu ran for this wakeup */
	s32 cpu; /* whose runq holds or last held it */
	s32 home_cpu; /* of its home node: where its wakeups begin to search */
	u32 slice_entry; /* 1 + its entry in runq.slices, 0: none */
	u32 idle_gen; /* of that runq when the task went to sleep owing */
	bool on_rq; /* accounted in runqs[cpu] */
	bool running;
	bool owes; /* sleeps with its vruntime kept (delay_dequeue) */
	bool owed; /* at its last join */
	bool rel_deadline; /* se.deadline is relative to se.vruntime: it did not sleep */
	bool forked; /* never been runnable */
	bool searched; /* select_cpu looked for an idle CPU on this wakeup */
	bool sync; /* WF_SYNC: the waker said that it is about to sleep */
	bool eligible; /* at its last join or charge: which queue to try first */
	bool exec_leaves; /* it executed a program that is to start on the new home node */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/* Whose turn it is: the next fork's node, see spread.bpf.h. Aligned: a line of its own. */
u64 spread_turn __attribute__((aligned(128)));

/* Rows of whole cache lines: no two CPUs write the same line. Read by the daemon through mmap. */
u64 stats[EEVDFX_MAX_CPUS][EEVDFX_STATS_PER_CPU] __attribute__((aligned(128)));

static __always_inline struct runq *runq_of(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&runqs, &key);
}

/* Service the running task has had since its last charge. */
static __always_inline u64 runq_uncharged_ns(const struct runq *rq, u64 now)
{
	u64 since = rq->curr_since;

	return since ? time_delta(now, since) : 0;
}

/* NULL when the context could not be allocated: the task is scheduled without accounting. */
static __always_inline struct task_ctx *task_ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, NULL, 0);
}

/* On the CPU that executes, not the one decided for; interrupts are off in all callers but select_cpu. */
static __always_inline void stat_add(enum stat_idx idx, u64 n)
{
	u32 cpu = bpf_get_smp_processor_id();

	stats[cpu & (EEVDFX_MAX_CPUS - 1)][idx] += n;
}

static __always_inline void stat_inc(enum stat_idx idx)
{
	stat_add(idx, 1);
}

/* A CPU's queues: READY by deadline, WAIT by vruntime, a FIFO. Ids of user DSQs are any 63-bit number. */
static __always_inline u64 dsq_ready(s32 cpu)
{
	return (u64)cpu << 1;
}

static __always_inline u64 dsq_wait(s32 cpu)
{
	return ((u64)cpu << 1) | 1;
}

static __always_inline u64 dsq_stage(s32 cpu)
{
	return 1ULL << 32 | (u64)cpu;
}

#endif /* __EEVDFX_CTX_BPF_H */
