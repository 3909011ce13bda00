/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ends a request on time. The core looks at a slice only at the tick: with HZ=250 a request of 2.8 ms
 * lasts up to 6.8 ms, and whoever waits pays for it.
 *
 * How it works. One bpf_timer per CPU, armed when the running task gets company, or starts with company,
 * and never cancelled: most requests end by sleeping, and stopping a timer costs what starting it did. It
 * fires at the latest once a request, and then looks again: nobody runs or nobody waits: done; the
 * request that runs by now ends later: armed for that; else the CPU is made to pick anew.
 *
 * The timer belongs to the CPU whose request it watches but fires on the one that armed it, often a
 * waker's; the kick crosses over. A kick may hit a task that was just switched in: the pick then keeps
 * it, since nothing but the pick decides.
 *
 * A task that runs alone is not stopped at the end of each request, as in fair.c. When it gets company
 * after its first request is over it is no longer protected, and has one quantum left. (fair.c leaves it
 * until the next tick.)
 *
 * The core's own slice says nothing of requests: it is CORE_SLICE_NS for everybody, and ops.tick ends a
 * request, or a protection that is used up, where there is no timer.
 *
 * Limits. The callback is a softirq and can be delayed by others; the tick remains as the backstop.
 */
#ifndef __EEVDFX_HRTICK_BPF_H
#define __EEVDFX_HRTICK_BPF_H

/* A timer that should have fired this long before the current window began was never started. */
#define HRTICK_LOST_NS 2000000ULL

/* A timer costs more than what is left of such a request. fair.c's hrtick_start() has the same bound. */
#define HRTICK_MIN_NS 10000ULL

/* How long the core keeps a task without asking us; each time it does costs a pick that changes nothing. */
#define CORE_SLICE_NS 20000000ULL

/* A timer that fires before @at is under way, as seen at @now. It looks again when it fires. */
static __always_inline bool hrtick_comes(const struct runq *rq, u64 at, u64 now)
{
	u64 armed = rq->hrtick_at;

	return armed && !eevdf_before(at, armed) && eevdf_before(now, armed + HRTICK_LOST_NS);
}

static __always_inline void hrtick_start(struct runq *rq, s32 cpu, u64 at, u64 now)
{
	struct hrtick *t;
	u32 key = cpu;

	t = bpf_map_lookup_elem(&hrticks, &key);
	if (!t)
		return;
	if (eevdf_before(at, now + HRTICK_MIN_NS))
		at = now + HRTICK_MIN_NS;
	rq->hrtick_at = bpf_timer_start(&t->timer, at - now, 0) ? 0 : at;
}

/*
 * Owner's rq lock held, or from the callback; the two may race for one timer: both arm it for the end
 * of a request that they saw, and the callback looks again.
 */
static __always_inline void hrtick_arm(struct runq *rq, s32 cpu)
{
	u64 now;

	if (!knobs.hrtick || !rq->curr_since || hrtick_comes(rq, rq->curr_end, rq->curr_since))
		return;
	now = scx_bpf_now();
	if (!eevdf_before(now, rq->curr_end))
		rq->curr_end = now + EEVDF_QUANTUM_NS;
	hrtick_start(rq, cpu, rq->curr_end, now);
	stat_inc(STAT_HRTICK_ARM);
}

/* The same timer for a CPU that idles until @at. */
static __always_inline void hrtick_arm_at(struct runq *rq, s32 cpu, u64 at)
{
	u64 now = scx_bpf_now();

	if (!hrtick_comes(rq, at, now))
		hrtick_start(rq, cpu, at, now);
}

/*
 * Would the pick take the task that waits on the local DSQ, which the core runs without asking? From the
 * owner, or without its rq lock from the timer: a turn may then end early or at the next tick.
 */
static __always_inline bool direct_wins(struct runq *rq)
{
	u64 ran_ns = runq_uncharged_ns(rq, scx_bpf_now()), avg;
	struct eevdf_curr curr = {
		.vruntime = runq_curr_vruntime(rq, ran_ns),
		.deadline = rq->curr_deadline,
		.vprot = rq->curr_vprot,
	};

	if (rq->nr != 2)
		return true;
	bpf_spin_lock(&rq->lock);
	avg = eevdf_avg_vruntime(&rq->eq, ran_ns);
	bpf_spin_unlock(&rq->lock);
	if (!eevdf_before(curr.vruntime, curr.deadline))
		curr.deadline = curr.vruntime + eevdf_vtime(rq->curr_slice_ns, rq->curr_weight);
	return eevdf_beats(rq->direct_vruntime, rq->direct_deadline, &curr, avg);
}

static int hrtick_fire(void *map, u32 *cpu, struct hrtick *t)
{
	struct runq *rq = runq_of(*cpu);

	if (!rq)
		return 0;
	rq->hrtick_at = 0;
	if (rq->curr_leaves) {
		rq->curr_leaves = false;
		scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
		return 0;
	}
	if (!rq->nr && rq->steal_at) {
		scx_bpf_kick_cpu(*cpu, SCX_KICK_IDLE);
		return 0;
	}
	if (rq->nr < 2 || !rq->curr_since)
		return 0;
	if (eevdf_before(scx_bpf_now(), rq->curr_end)) {
		hrtick_arm(rq, *cpu);
		return 0;
	}
	if (rq->direct && !direct_wins(rq))
		return 0;
	stat_inc(STAT_HRTICK_KICK);
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* From ops.init only: a callback may use what the program that set it may use. */
static __always_inline int hrtick_init(s32 cpu)
{
	struct hrtick *t;
	u32 key = cpu;
	int ret;

	t = bpf_map_lookup_elem(&hrticks, &key);
	if (!t)
		return -ENOENT;
	ret = bpf_timer_init(&t->timer, &hrticks, CLOCK_MONOTONIC);
	return ret ? ret : bpf_timer_set_callback(&t->timer, hrtick_fire);
}

#endif /* __EEVDFX_HRTICK_BPF_H */
