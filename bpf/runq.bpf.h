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

/* The running task's, with the service since its last charge. */
static __always_inline u64 runq_curr_vruntime(const struct runq *rq, u64 ran_ns)
{
	return rq->curr_vruntime + eevdf_vtime(ran_ns, rq->curr_weight);
}

/* The shortest and the longest slice among the tasks that compete here. */
static __always_inline u64 runq_min_slice(const struct runq *rq)
{
	if (!rq->slices.nr_tasks)
		return knobs.slice_ns;
	return eevdf_min_slice(&rq->slices, rq->nr, knobs.slice_ns);
}

static __always_inline u64 runq_max_slice(const struct runq *rq)
{
	if (!rq->slices.nr_tasks)
		return knobs.slice_ns;
	return eevdf_max_slice(&rq->slices, rq->nr, knobs.slice_ns);
}

static __always_inline s64 runq_lag_limit(const struct runq *rq, const struct eevdf_se *se)
{
	return eevdf_lag_limit(runq_max_slice(rq), tick_ns, se->weight);
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
static __always_inline void __runq_join(struct runq *rq, struct task_ctx *tctx, u64 avg, s64 vlag,
					bool custom)
{
	struct eevdf_se *se = &tctx->se;

	se->vruntime = eevdf_place(avg, vlag, se->weight, rq->eq.sum_weight);
	if (tctx->rel_deadline) {
		se->deadline += se->vruntime;
		tctx->rel_deadline = false;
	} else {
		u64 vslice = eevdf_vtime(se->slice_ns, se->weight);

		if (tctx->forked && knobs.place_deadline_initial)
			vslice /= 2;
		se->deadline = se->vruntime + vslice;
	}
	eevdf_add(&rq->eq, se);
	rq->nr++;
	if (custom)
		tctx->slice_entry = 1 + eevdf_slices_add(&rq->slices, se->slice_ns);
}

/* With the lock held. Leaves the lag in vlag; the deadline stays absolute. @avg: V with @tctx. */
static __always_inline void __runq_leave(struct runq *rq, struct task_ctx *tctx, u64 avg)
{
	struct eevdf_se *se = &tctx->se;

	se->vlag = eevdf_lag(avg, se->vruntime, runq_lag_limit(rq, se));
	eevdf_sub(&rq->eq, se);
	if (tctx->slice_entry)
		eevdf_slices_del(&rq->slices, tctx->slice_entry - 1);
	tctx->slice_entry = 0;
	if (!--rq->nr)
		rq->idle_gen++;
}

/* Only cpu.idle changes a weight without ops.quiescent and ops.runnable around it. */
static __noinline void runq_reweigh(struct runq *rq, struct task_ctx *tctx, u32 weight)
{
	bpf_spin_lock(&rq->lock);
	eevdf_reweigh(&rq->eq, &tctx->se, weight, rq->avg_vruntime, runq_lag_limit(rq, &tctx->se));
	bpf_spin_unlock(&rq->lock);
}

/* Charge the running task, start its next request if this one is used up. Returns V. */
static __always_inline u64 runq_charge(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx)
{
	u64 ns = task_take_exec_ns(p, tctx);
	u32 weight;
	u64 avg;

	bpf_spin_lock(&rq->lock);
	eevdf_charge(&rq->eq, &tctx->se, ns);
	avg = runq_update_avg(rq, 0);
	bpf_spin_unlock(&rq->lock);

	if (eevdf_renew(&tctx->se, task_slice_ns(p, rq))) {
		weight = task_weight(p);
		if (weight != tctx->se.weight)
			runq_reweigh(rq, tctx, weight);
	}
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
					     const struct task_ctx *tctx, enum eevdf_wakeup wakeup,
					     bool searched)
{
	struct verdict *v = &rq->verdict;

	v->task = (u64)p;
	v->nr_migrations = p->se.nr_migrations;
	v->vruntime = tctx->se.vruntime;
	v->deadline = tctx->se.deadline;
	v->eligible = tctx->eligible;
	v->wakeup = wakeup;
	v->searched = searched;
	v->sync = false;
	v->owes = tctx->owed;
	v->exec_leaves = tctx->exec_leaves;
}

/* What wakeups on this CPU need to know of the task that runs from now on. Owner only. */
static __always_inline void runq_set_curr(struct runq *rq, const struct task_struct *p,
					  const struct task_ctx *tctx, u64 vprot, u64 now)
{
	const struct eevdf_se *se = &tctx->se;

	rq->curr_vruntime = se->vruntime;
	rq->curr_deadline = se->deadline;
	rq->curr_slice_ns = se->slice_ns;
	rq->curr_vprot = vprot;
	rq->curr_weight = se->weight;
	rq->curr_idle = p->policy == SCHED_IDLE;
	rq->curr_end = now + eevdf_window_ns(se->vruntime, se->deadline, se->weight);
	rq->curr_since = now;
	/* Also when the winner vanished before it ran. */
	rq->preempting = false;
}

/*
 * The vruntime up to which @p, about to run, is protected. As in fair.c only a pick sets it anew
 * (set_next_task_fair()); a task that was requeued while it ran keeps what it had.
 */
static __always_inline u64 runq_protect(struct runq *rq, const struct task_struct *p,
					const struct task_ctx *tctx)
{
	u64 min_slice_ns = runq_min_slice(rq), ineligible_at = 0;
	bool requeued = rq->requeued == (u64)p;

	rq->requeued = 0;
	if (requeued)
		return rq->curr_vprot;

	if (min_slice_ns >= tctx->se.slice_ns && knobs.run_to_parity)
		return tctx->se.deadline;
	if (knobs.preempt_short) {
		bpf_spin_lock(&rq->lock);
		ineligible_at = eevdf_ineligible_at(&rq->eq, &tctx->se);
		bpf_spin_unlock(&rq->lock);
	}
	return eevdf_protect(&tctx->se, min_slice_ns, ineligible_at, knobs.run_to_parity,
			     knobs.preempt_short);
}

/* The same on another CPU than the one that @tctx joins: one lock at a time. */
static __always_inline s64 task_debt_elsewhere(const struct task_ctx *tctx, u64 now)
{
	struct runq *src = runq_of(tctx->cpu);
	u64 ran_ns;
	s64 debt;

	if (!src)
		return 0;
	ran_ns = runq_uncharged_ns(src, now);
	bpf_spin_lock(&src->lock);
	debt = task_debt(tctx, src, eevdf_avg_vruntime(&src->eq, ran_ns));
	bpf_spin_unlock(&src->lock);
	return debt;
}

/*
 * fair.c NEXT_BUDDY: @p, just woken, becomes the one to be picked next, unless an older buddy has the
 * earlier deadline.
 */
static __always_inline bool runq_set_buddy(struct runq *rq, const struct task_struct *p,
					   const struct eevdf_se *se,
					   const struct eevdf_wakee *wakee)
{
	if (!knobs.next_buddy || !wakee->normal || wakee->forked || rq->curr_idle)
		return false;
	if (knobs.preempt_short && se->slice_ns < rq->curr_slice_ns)
		return false;
	if (rq->next && eevdf_before(rq->next_deadline, se->deadline))
		return false;
	rq->next = (u64)p;
	rq->next_deadline = se->deadline;
	return true;
}

/*
 * What the arrival of @tctx does to the running task, whose service since its last charge is @ran_ns.
 * A buddy that the waker made room for (WF_SYNC) does not interrupt it: fair.c would let it only after
 * 0.5 ms since the last clock update, which it has just made.
 */
static __always_inline enum eevdf_wakeup runq_wakeup(struct runq *rq, const struct task_struct *p,
						     struct task_ctx *tctx, s32 cpu, u64 ran_ns,
						     u64 avg)
{
	struct eevdf_wakee wakee = {
		.idle = p->policy == SCHED_IDLE,
		.normal = p->policy != SCHED_IDLE && p->policy != SCHED_BATCH,
		.forked = tctx->forked,
	};
	struct eevdf_curr curr = {
		.vruntime = runq_curr_vruntime(rq, ran_ns),
		.deadline = rq->curr_deadline,
		.vprot = rq->curr_vprot,
		.slice_ns = rq->curr_slice_ns,
		.idle = rq->curr_idle,
	};
	struct eevdf_rules rules = {
		.preempt_short = knobs.preempt_short,
		.pick_buddy = knobs.pick_buddy,
	};
	enum eevdf_wakeup wakeup = EEVDF_WAKEUP_WAITS;

	wakee.buddy = runq_set_buddy(rq, p, &tctx->se, &wakee);
	/*
	 * A waker that announces its sleep on this very CPU is not interrupted: it would only come back
	 * to say so. The fair class does interrupt it.
	 */
	if (!tctx->sync || (!wakee.buddy && cpu != bpf_get_smp_processor_id()))
		wakeup = eevdf_wakeup(&tctx->se, &wakee, &curr, avg, &rules);
	/* EEVDF_WAKEUP_BEST may still lose, to one that waits. */
	if (wakeup <= EEVDF_WAKEUP_BEST && knobs.run_to_parity)
		rq->curr_vprot = eevdf_shrink(curr.vprot, curr.vruntime, rq->curr_weight, avg,
					      runq_min_slice(rq));
	return wakeup;
}

/*
 * @p starts to compete on @cpu: from ops.runnable, or moved here. Tells what that does to the running
 * task, since everything that takes is at hand here. @arrives: it was not on this CPU before. Else only
 * its attributes changed, and as in fair.c (prio_changed_fair()) a new nice level alone has an effect.
 */
static __always_inline enum eevdf_wakeup runq_join(struct runq *rq, struct task_struct *p,
						   struct task_ctx *tctx, s32 cpu, bool arrives,
						   u64 now)
{
	enum eevdf_wakeup wakeup = EEVDF_WAKEUP_WAITS;
	bool place_lag = knobs.place_lag, custom = p->se.custom_slice, owes, owes_here;
	u64 ran_ns, avg;
	s64 vlag;

	if (task_refresh(p, tctx, rq))
		arrives = true;
	owes = tctx->owes;
	owes_here = owes && tctx->cpu == cpu;
	vlag = tctx->se.vlag;
	if (owes && !owes_here)
		vlag = task_debt_elsewhere(tctx, now);
	tctx->owes = false;
	tctx->owed = false;
	tctx->exec_leaves = false;
	tctx->cpu = cpu;
	tctx->on_rq = true;
	tctx->ready_at = now;
	ran_ns = runq_uncharged_ns(rq, now);

	bpf_spin_lock(&rq->lock);
	if (!rq->nr) {
		gvt_join(rq, cpu, rq->eq.zero_vruntime, now);
		__runq_join(rq, tctx, rq->eq.zero_vruntime, 0, custom);
		rq->avg_vruntime = tctx->se.vruntime;
		bpf_spin_unlock(&rq->lock);
		tctx->eligible = true;
		tctx->forked = false;
		return EEVDF_WAKEUP_WAITS;
	}
	avg = eevdf_avg_vruntime(&rq->eq, ran_ns);
	if (owes_here)
		vlag = task_debt(tctx, rq, avg);
	if (owes && vlag < 0) {
		/* Still queued in fair.c (sched_delayed): it is not placed anew, its request goes on. */
		tctx->owed = true;
		tctx->se.deadline -= tctx->se.vruntime;
		tctx->rel_deadline = true;
	} else if (!place_lag) {
		vlag = 0;
	}
	__runq_join(rq, tctx, avg, vlag, custom);
	avg = runq_update_avg(rq, ran_ns);
	bpf_spin_unlock(&rq->lock);

	tctx->eligible = eevdf_eligible(tctx->se.vruntime, avg);
	if (arrives && rq->curr_since && !rq->preempting && knobs.wakeup_preemption)
		wakeup = runq_wakeup(rq, p, tctx, cpu, ran_ns, avg);
	tctx->forked = false;
	return wakeup;
}

/*
 * @p is not where it was put. Not the owner when it has moved away: then this may also hit the mark that
 * the owner has just set for another task, which will run unchecked once.
 */
static __always_inline void runq_forget_direct(struct runq *rq, const struct task_struct *p)
{
	if (rq->direct == (u64)p)
		rq->direct = 0;
}

/* ops.quiescent: @p stops competing. @sleeps: of its own will, not for an attribute change. */
static __always_inline void runq_leave(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx, bool sleeps)
{
	u64 ran_ns = 0, ns = 0;

	if (tctx->running) {
		ns = task_take_exec_ns(p, tctx);
		tctx->running = false;
		tctx->ran_at = rq->curr_since + ns;
		rq->curr_since = 0;
		if (!sleeps)
			rq->requeued = (u64)p;
	} else {
		ran_ns = runq_uncharged_ns(rq, scx_bpf_now());
		runq_forget_direct(rq, p);
	}

	bpf_spin_lock(&rq->lock);
	eevdf_charge(&rq->eq, &tctx->se, ns);
	__runq_leave(rq, tctx, runq_update_avg(rq, ran_ns));
	tctx->idle_gen = rq->idle_gen;
	bpf_spin_unlock(&rq->lock);

	tctx->on_rq = false;
	tctx->owes = sleeps && knobs.delay_dequeue && tctx->se.vlag < 0;
	if (!sleeps) {
		eevdf_renew(&tctx->se, task_slice_ns(p, rq));
		task_keep_deadline(tctx);
	}
}

/*
 * fair.c yield_task_fair(), 6.18 and later: an eligible task forfeits the rest of its request, one that
 * owes only ends its run.
 */
static __always_inline void runq_yield(struct runq *rq, struct task_struct *p,
				       struct task_ctx *tctx)
{
	if (rq->nr == 1)
		return;
	runq_charge(rq, p, tctx);
	rq->curr_since = scx_bpf_now();
	if (tctx->eligible) {
		bpf_spin_lock(&rq->lock);
		eevdf_forfeit(&rq->eq, &tctx->se);
		bpf_spin_unlock(&rq->lock);
		eevdf_renew(&tctx->se, task_slice_ns(p, rq));
	}
	rq->curr_vruntime = tctx->se.vruntime;
	rq->curr_deadline = tctx->se.deadline;
	rq->curr_vprot = tctx->se.vruntime;
}

/*
 * @p is on @cpu but accounted elsewhere, or nowhere: lag and relative deadline go along, as
 * dequeue_entity() and place_entity() do it for a migrating task. One that was pulled for the balance's
 * sake has been served less than those here, and keeps its place beside them.
 */
static __noinline enum eevdf_wakeup runq_migrate(struct runq *dst, struct task_struct *p,
						 struct task_ctx *tctx, s32 cpu)
{
	struct runq *src = runq_of(tctx->cpu);
	u64 now = scx_bpf_now();
	u64 ran_ns;

	if (tctx->on_rq && src) {
		ran_ns = runq_uncharged_ns(src, now);
		bpf_spin_lock(&src->lock);
		__runq_leave(src, tctx, runq_update_avg(src, ran_ns));
		bpf_spin_unlock(&src->lock);
		task_keep_deadline(tctx);
		runq_forget_direct(src, p);
		if (dst->pulled == (u64)p)
			tctx->se.vlag =
				eevdf_clamp(tctx->se.vlag + (s64)(gvt_of(dst) - gvt_of(src)),
					    runq_lag_limit(dst, &tctx->se));
		stat_inc(STAT_MIGRATE);
	} else {
		stat_inc(STAT_RACE);
	}
	tctx->owes = false;
	return runq_join(dst, p, tctx, cpu, true, now);
}

#endif /* __EEVDFX_RUNQ_BPF_H */
