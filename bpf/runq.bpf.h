/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One CPU's virtual time: join, leave, charge, migrate. What enters and leaves the two queues is in
 * pick.bpf.h.
 *
 * A task competes from ops.runnable to ops.quiescent, whatever queue it is in: the kernel calls the two
 * in pairs and under the task's rq lock. It calls neither when a task moves between CPUs, so every
 * callback that sees a task compares task_ctx.cpu with the task's CPU and moves the accounting along.
 *
 * Weak points. A wakeup on a remote CPU reads scx_bpf_now() of the waker's CPU: V may be off by the
 * clocks' difference until the next charge (clamped to >= 0). A task pulled by another CPU counts in the
 * source's V until it runs, some microseconds later.
 */
#ifndef __EEVDFX_RUNQ_BPF_H
#define __EEVDFX_RUNQ_BPF_H

#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define DEFAULT_NICE_PRIO 120

/* p->scx.weight is rounded to 1 .. 10000 and p->se.load goes stale under sched_ext: ask the priority. */
static __always_inline u32 task_weight(const struct task_struct *p)
{
	if (p->policy == SCHED_IDLE)
		return EEVDF_IDLE_WEIGHT;
	return eevdf_weight_of_nice(p->static_prio - DEFAULT_NICE_PRIO);
}

/* A task's own request length (sched_attr.sched_runtime), else the base slice. */
static __always_inline u64 task_slice_ns(const struct task_struct *p)
{
	if (p->se.custom_slice)
		return p->se.slice;
	return knobs.slice_ns;
}

static __always_inline s64 task_lag_limit(const struct task_ctx *tctx)
{
	u64 slice_ns = knobs.slice_ns;

	if (slice_ns < tctx->se.slice_ns)
		slice_ns = tctx->se.slice_ns;
	return eevdf_lag_limit(slice_ns, tick_ns, tctx->se.weight);
}

/* Service the running task has had since its last charge. */
static __always_inline u64 runq_uncharged_ns(const struct runq *rq, u64 now)
{
	u64 since = rq->curr_since;

	return since ? time_delta(now, since) : 0;
}

/* Take this moment's V as the new v0. Call with the lock held. */
static __always_inline u64 runq_update_avg(struct runq *rq, u64 ran_ns)
{
	u64 avg = eevdf_avg_vruntime(&rq->eq, ran_ns);

	eevdf_move_zero(&rq->eq, avg);
	rq->avg_vruntime = avg;
	return avg;
}

/* With the lock held. @avg: V without @tctx. */
static __always_inline void __runq_join(struct runq *rq, struct task_ctx *tctx, u64 avg, s64 vlag)
{
	struct eevdf_se *se = &tctx->se;

	se->vruntime = eevdf_place(avg, vlag, se->weight, rq->eq.sum_weight);
	if (tctx->rel_deadline) {
		se->deadline += se->vruntime;
		tctx->rel_deadline = false;
	} else {
		u64 vslice = eevdf_vtime(se->slice_ns, se->weight);

		se->deadline = se->vruntime + (tctx->forked ? vslice / 2 : vslice);
	}
	eevdf_add(&rq->eq, se);
	rq->nr++;
}

/* With the lock held. Leaves the lag in vlag; the deadline stays absolute. @avg: V with @tctx. */
static __always_inline void __runq_leave(struct runq *rq, struct task_ctx *tctx, u64 avg, s64 limit)
{
	struct eevdf_se *se = &tctx->se;

	se->vlag = eevdf_lag(avg, se->vruntime, limit);
	eevdf_sub(&rq->eq, se);
	if (!--rq->nr)
		rq->idle_gen++;
}

/*
 * Charge what the task clock says: no interrupts, no steal. Owner's rq lock held, p running there;
 * update_curr_scx() has brought sum_exec_runtime up to date in all callers.
 */
static __always_inline u64 task_take_exec_ns(const struct task_struct *p, struct task_ctx *tctx)
{
	u64 sum = p->se.sum_exec_runtime;
	u64 ns = time_delta(sum, tctx->sum_exec_ns);

	tctx->sum_exec_ns = sum;
	return ns;
}

/* Charge the running task, start its next request if this one is used up. Returns V. */
static __always_inline u64 runq_charge(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx)
{
	u64 slice_ns = task_slice_ns(p);
	u64 ns = task_take_exec_ns(p, tctx);
	u64 avg;

	bpf_spin_lock(&rq->lock);
	eevdf_charge(&rq->eq, &tctx->se, ns);
	avg = runq_update_avg(rq, 0);
	bpf_spin_unlock(&rq->lock);

	eevdf_renew(&tctx->se, slice_ns);
	tctx->eligible = eevdf_eligible(tctx->se.vruntime, avg);
	return avg;
}

/* V when nobody of ours runs on this CPU. */
static __always_inline u64 runq_refresh(struct runq *rq)
{
	u64 avg;

	bpf_spin_lock(&rq->lock);
	avg = runq_update_avg(rq, 0);
	bpf_spin_unlock(&rq->lock);
	return avg;
}

/* For the enqueue that follows. Owner only. */
static __always_inline void runq_set_verdict(struct runq *rq, const struct task_struct *p,
					     const struct task_ctx *tctx, bool preempts,
					     bool searched)
{
	struct verdict *v = &rq->verdict;

	v->task = (u64)p;
	v->nr_migrations = p->se.nr_migrations;
	v->window_ns = eevdf_window_ns(&tctx->se, knobs.run_to_parity);
	v->vruntime = tctx->se.vruntime;
	v->deadline = tctx->se.deadline;
	v->eligible = tctx->eligible;
	v->preempts = preempts;
	v->searched = searched;
}

/* What wakeups on this CPU need to know of the task that runs from now on. Owner only. */
static __always_inline void runq_set_curr(struct runq *rq, const struct task_struct *p,
					  const struct task_ctx *tctx, u64 window_ns, u64 now)
{
	const struct eevdf_se *se = &tctx->se;

	rq->curr_vruntime = se->vruntime;
	rq->curr_deadline = se->deadline;
	rq->curr_vprot = se->vruntime + eevdf_vtime(window_ns, se->weight);
	rq->curr_weight = se->weight;
	rq->curr_idle = p->policy == SCHED_IDLE;
	rq->curr_end = now + window_ns;
	rq->curr_since = now;
	/* Also when the winner vanished before it ran. */
	rq->preempting = false;
}

/* Before a join: weight and slice may have changed while the task was away. */
static __always_inline void task_refresh(const struct task_struct *p, struct task_ctx *tctx)
{
	struct eevdf_se *se = &tctx->se;
	u32 weight = task_weight(p);

	if (weight != se->weight) {
		se->vlag = eevdf_rescale(se->vlag, se->weight, weight);
		if (tctx->rel_deadline)
			se->deadline = (u64)eevdf_rescale((s64)se->deadline, se->weight, weight);
		se->weight = weight;
		se->rem = 0;
		/* An absolute vruntime means nothing at another weight; vlag holds the debt. */
		tctx->owes = false;
	}
	if (!tctx->rel_deadline)
		se->slice_ns = task_slice_ns(p);
}

/* What is left of the debt of @tctx, which sleeps with its vruntime kept on the CPU where V is @avg. */
static __always_inline s64 task_debt(const struct task_ctx *tctx, const struct runq *src, u64 avg)
{
	if (src->idle_gen != tctx->idle_gen)
		return 0;
	return eevdf_delayed_lag(tctx->se.vlag, avg, tctx->se.vruntime);
}

/* The same on another CPU than the one that @tctx joins: one lock at a time. */
static __always_inline s64 task_debt_elsewhere(const struct task_ctx *tctx, u64 now)
{
	struct runq *src = runq_of(tctx->cpu);
	u64 avg;

	if (!src)
		return 0;
	bpf_spin_lock(&src->lock);
	avg = eevdf_avg_vruntime(&src->eq, runq_uncharged_ns(src, now));
	bpf_spin_unlock(&src->lock);
	return task_debt(tctx, src, avg);
}

/*
 * ops.runnable: @p starts to compete on @cpu. Tells whether this wakeup wins against the
 * running task, since everything that takes is at hand here.
 */
static __always_inline bool runq_join(struct runq *rq, struct task_struct *p, struct task_ctx *tctx,
				      s32 cpu, bool may_preempt)
{
	u64 now = scx_bpf_now(), ran_ns, avg;
	bool idle = p->policy == SCHED_IDLE;
	bool normal = !idle && p->policy != SCHED_BATCH;
	bool place_lag = knobs.place_lag, owes_here, preempts = false;
	struct eevdf_curr curr;
	s64 vlag;

	task_refresh(p, tctx);
	owes_here = tctx->owes && tctx->cpu == cpu;
	vlag = tctx->se.vlag;
	if (tctx->owes && !owes_here)
		vlag = task_debt_elsewhere(tctx, now);
	tctx->owes = false;
	tctx->cpu = cpu;
	tctx->on_rq = true;
	ran_ns = runq_uncharged_ns(rq, now);

	bpf_spin_lock(&rq->lock);
	if (!rq->nr) {
		__runq_join(rq, tctx, rq->eq.zero_vruntime, 0);
		rq->avg_vruntime = tctx->se.vruntime;
		bpf_spin_unlock(&rq->lock);
		tctx->eligible = true;
		tctx->forked = false;
		return false;
	}
	avg = eevdf_avg_vruntime(&rq->eq, ran_ns);
	if (owes_here)
		vlag = task_debt(tctx, rq, avg);
	__runq_join(rq, tctx, avg, place_lag ? vlag : 0);
	avg = runq_update_avg(rq, ran_ns);
	bpf_spin_unlock(&rq->lock);

	tctx->eligible = eevdf_eligible(tctx->se.vruntime, avg);
	if (may_preempt && !tctx->forked && rq->curr_since && !rq->preempting) {
		curr.vruntime = rq->curr_vruntime + eevdf_vtime(ran_ns, rq->curr_weight);
		curr.deadline = rq->curr_deadline;
		curr.vprot = rq->curr_vprot;
		curr.idle = rq->curr_idle;
		preempts = eevdf_wakeup_preempts(&tctx->se, idle, normal, &curr, avg);
	}
	tctx->forked = false;
	return preempts;
}

/* ops.quiescent: @p stops competing. @sleeps: of its own will, not for an attribute change. */
static __always_inline void runq_leave(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx, bool sleeps)
{
	s64 limit = task_lag_limit(tctx);
	u64 ran_ns = 0, slice_ns = task_slice_ns(p);
	u64 ns = 0;

	if (tctx->running) {
		ns = task_take_exec_ns(p, tctx);
		tctx->running = false;
		rq->curr_since = 0;
	} else {
		ran_ns = runq_uncharged_ns(rq, scx_bpf_now());
	}

	bpf_spin_lock(&rq->lock);
	eevdf_charge(&rq->eq, &tctx->se, ns);
	__runq_leave(rq, tctx, runq_update_avg(rq, ran_ns), limit);
	tctx->idle_gen = rq->idle_gen;
	bpf_spin_unlock(&rq->lock);

	tctx->on_rq = false;
	tctx->owes = sleeps && knobs.delay_dequeue && tctx->se.vlag < 0;
	if (!sleeps) {
		eevdf_renew(&tctx->se, slice_ns);
		tctx->se.deadline -= tctx->se.vruntime;
		tctx->rel_deadline = true;
	}
}

/*
 * fair.c yield_task_fair(), 6.18 and later: an eligible task forfeits the rest of its request, one that
 * owes only ends its run.
 */
static __always_inline void runq_yield(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx)
{
	u64 slice_ns = task_slice_ns(p);

	runq_charge(rq, p, tctx);
	rq->curr_since = scx_bpf_now();
	if (!tctx->eligible)
		return;
	bpf_spin_lock(&rq->lock);
	eevdf_forfeit(&rq->eq, &tctx->se);
	bpf_spin_unlock(&rq->lock);
	eevdf_renew(&tctx->se, slice_ns);
	rq->curr_vruntime = tctx->se.vruntime;
	rq->curr_deadline = tctx->se.deadline;
	rq->curr_vprot = tctx->se.vruntime;
}

/*
 * @p is on @cpu but accounted elsewhere, or nowhere: lag and relative deadline go along, as
 * dequeue_entity() and place_entity() do it for a migrating task.
 */
static __always_inline void runq_migrate(struct runq *dst, struct task_struct *p,
					 struct task_ctx *tctx, s32 cpu)
{
	struct runq *src = runq_of(tctx->cpu);
	u64 now = scx_bpf_now();
	s64 limit = task_lag_limit(tctx);
	u64 ran_ns;

	if (tctx->on_rq && src) {
		ran_ns = runq_uncharged_ns(src, now);
		bpf_spin_lock(&src->lock);
		__runq_leave(src, tctx, runq_update_avg(src, ran_ns), limit);
		bpf_spin_unlock(&src->lock);
		tctx->se.deadline -= tctx->se.vruntime;
		tctx->rel_deadline = true;
		stat_inc(STAT_MIGRATE);
	} else {
		stat_inc(STAT_RACE);
		task_refresh(p, tctx);
	}
	tctx->owes = false;
	tctx->cpu = cpu;
	tctx->on_rq = true;

	ran_ns = runq_uncharged_ns(dst, now);
	bpf_spin_lock(&dst->lock);
	__runq_join(dst, tctx, eevdf_avg_vruntime(&dst->eq, ran_ns),
		    knobs.place_lag ? tctx->se.vlag : 0);
	runq_update_avg(dst, ran_ns);
	bpf_spin_unlock(&dst->lock);
	tctx->eligible = eevdf_eligible(tctx->se.vruntime, dst->avg_vruntime);
}

#endif /* __EEVDFX_RUNQ_BPF_H */
