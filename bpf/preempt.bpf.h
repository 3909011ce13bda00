/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wakeups against the running task, and where a task is queued. runq_join() decides by fair.c's rules
 * (eevdf_wakeup()); here the decision meets the other waiting tasks.
 *
 * The winner goes to the local DSQ with SCX_ENQ_PREEMPT: that resched happens under the rq lock already
 * held, where a kick would take an interrupt and the lock again. While one winner is on its way no second
 * one is let in: two would run last in, first out.
 *
 * Limits. The winner was compared with READY's head; a task in WAIT that became eligible since the last
 * pick and has an earlier deadline runs after it.
 */
#ifndef __EEVDFX_PREEMPT_BPF_H
#define __EEVDFX_PREEMPT_BPF_H

/*
 * pick_eevdf() would take the earliest deadline: is that the newcomer's, or one that waits already? Its
 * head may have lost eligibility: then it is out of the question, and its successor is not looked at.
 */
static __always_inline bool beats_ready(const struct runq *rq, s32 cpu)
{
	struct task_struct *head;
	struct task_ctx *tctx;

	if (rq->nr <= 2)
		return true;
	head = __COMPAT_scx_bpf_dsq_peek(dsq_ready(cpu));
	if (!head || eevdf_before(rq->verdict.deadline, head->scx.dsq_vtime))
		return true;
	tctx = task_ctx_of(head);
	return tctx && !eevdf_eligible(tctx->se.vruntime, rq->avg_vruntime);
}

/*
 * The running task's protection being void (EEVDF_WAKEUP_PICK), an earlier deadline is enough whether it
 * is still eligible or not; a later one is left to the pick.
 */
static __always_inline bool beats_curr(const struct runq *rq)
{
	const struct verdict *v = &rq->verdict;

	return v->wakeup == EEVDF_WAKEUP_BEST || (v->wakeup == EEVDF_WAKEUP_PICK && v->eligible &&
						  eevdf_before(v->deadline, rq->curr_deadline));
}

/*
 * May @p wait on the local DSQ for the running task to stop, and save a dispatch? When these two are all
 * there are. If the running task sleeps, @p is the only one; if its turn ends otherwise it is the timer or
 * the tick that ends it, and they ask direct_wins() first. If somebody joins meanwhile @p may no longer be
 * the pick: check_direct() looks when it runs.
 *
 * Only a task that cannot run elsewhere, or whose waker has announced its sleep: another one must stay where
 * an idle CPU can take it. A waker that does not keep its word keeps it to the end of its request.
 */
static __always_inline bool may_wait_direct(const struct runq *rq, const struct task_struct *p)
{
	if (rq->nr != 2 || !rq->curr_since || rq->preempting || rq->next ||
	    rq->verdict.wakeup == EEVDF_WAKEUP_PICK)
		return false;
	return rq->verdict.sync || is_bound(p);
}

/* @p runs. If it came without a pick and somebody joined meanwhile, let the pick decide. */
static __always_inline void check_direct(struct runq *rq, const struct task_struct *p,
					 const struct task_ctx *tctx, s32 cpu)
{
	struct task_struct *head;

	if (rq->direct != (u64)p)
		return;
	rq->direct = 0;
	if (rq->nr > 1) {
		head = __COMPAT_scx_bpf_dsq_peek(dsq_ready(cpu));
		if (head && eevdf_before(head->scx.dsq_vtime, tctx->se.deadline)) {
			rq->curr_vprot = tctx->se.vruntime;
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		}
	}
}

/*
 * Straight to the local DSQ only when nobody waits for this CPU: the core runs a local DSQ empty before
 * it asks us again, so anything more would let this task pass those that wait, pinned or not.
 */
static __always_inline void queue_task(struct runq *rq, struct task_struct *p, s32 cpu,
				       u64 enq_flags)
{
	const struct verdict *v = &rq->verdict;
	enum eevdf_wakeup wakeup = v->wakeup;

	runq_forget_direct(rq, p);
	rq->requeued = 0;
	if (rq->nr == 1 && !rq->pulled) {
		stat_inc(STAT_ENQ_DIRECT);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, CORE_SLICE_NS, enq_flags);
		return;
	}
	if (wakeup == EEVDF_WAKEUP_RUNS || (beats_curr(rq) && beats_ready(rq, cpu))) {
		stat_inc(STAT_ENQ_PREEMPT);
		rq->preempting = true;
		rq->curr_vprot = rq->curr_vruntime;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, CORE_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (may_wait_direct(rq, p)) {
		stat_inc(STAT_ENQ_DIRECT);
		rq->direct = (u64)p;
		rq->direct_vruntime = v->vruntime;
		rq->direct_deadline = v->deadline;
		rq->direct_ticks = 0;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, CORE_SLICE_NS, enq_flags);
		hrtick_arm(rq, cpu);
		return;
	}
	if (!is_bound(p))
		waiting_set(cpu);
	if (should_stage(v, cpu, enq_flags)) {
		stage(rq, p, cpu, enq_flags);
	} else if (v->eligible) {
		stat_inc(STAT_ENQ_READY);
		scx_bpf_dsq_insert_vtime(p, dsq_ready(cpu), CORE_SLICE_NS, v->deadline, enq_flags);
	} else {
		stat_inc(STAT_ENQ_WAIT);
		wait_note(rq, v->vruntime);
		scx_bpf_dsq_insert_vtime(p, dsq_wait(cpu), CORE_SLICE_NS, v->vruntime, enq_flags);
	}
	if (wakeup == EEVDF_WAKEUP_PICK) {
		rq->curr_vprot = rq->curr_vruntime;
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else {
		hrtick_arm(rq, cpu);
	}
	if (!v->searched)
		kick_idle_for(p);
}

/*
 * ops.tick of the running task: ends its turn with its request, and at any tick when it is not protected
 * (fair.c update_curr()). With a task on the local DSQ that is not a pick: then only if it would win, or
 * waits for as long as rescue() allows.
 */
static __always_inline void tick(struct runq *rq, struct task_struct *p)
{
	struct task_ctx *tctx;
	u64 now, vruntime;

	if (!rq->curr_since)
		return;
	now = scx_bpf_now();
	balance_tick(rq, p, now);
	if (rq->nr < 2)
		return;
	vruntime = runq_curr_vruntime(rq, runq_uncharged_ns(rq, now));
	if (rq->direct)
		rq->direct_ticks++;
	if (eevdf_before(now, rq->curr_end) && eevdf_before(vruntime, rq->curr_vprot))
		return;
	if (rq->direct && rq->direct_ticks < ms_to_jiffies(RESCUE_WAIT_SECS * 1000ULL)) {
		tctx = task_ctx_of(p);
		if (tctx && tctx->running) {
			runq_charge(rq, p, tctx);
			runq_set_curr(rq, p, tctx, rq->curr_vprot, now);
			if (!direct_wins(rq)) {
				scx_bpf_task_set_slice(p, CORE_SLICE_NS);
				return;
			}
		}
	}
	scx_bpf_task_set_slice(p, 0);
}

#endif /* __EEVDFX_PREEMPT_BPF_H */
