/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wakeups against the running task, basic form, and where a task is queued. ops.runnable decides by
 * fair.c's rules (eevdf_wakeup_preempts()); here the decision meets the other waiting tasks.
 *
 * The winner goes to the local DSQ with SCX_ENQ_PREEMPT: that resched happens under the rq lock already
 * held, where a kick would take an interrupt and the lock again. While one winner is on its way no second
 * one is let in: two would run last in, first out.
 */
#ifndef __EEVDFX_PREEMPT_BPF_H
#define __EEVDFX_PREEMPT_BPF_H

/*
 * A waker that announces its sleep (WF_SYNC) on this very CPU is not interrupted: it would only come
 * back to say so. The fair class does interrupt it.
 */
static __always_inline bool may_preempt(const struct task_ctx *tctx, u64 enq_flags)
{
	return knobs.wakeup_preemption && (enq_flags & SCX_ENQ_WAKEUP) && !tctx->sync;
}

/* pick_eevdf() would take the earliest deadline: is that the newcomer's, or one that waits already? */
static __always_inline bool beats_ready(const struct runq *rq, s32 cpu)
{
	struct task_struct *head;

	if (rq->nr <= 2)
		return true;
	head = __COMPAT_scx_bpf_dsq_peek(dsq_ready(cpu));
	return !head || eevdf_before(rq->verdict.deadline, head->scx.dsq_vtime);
}

/*
 * Straight to the local DSQ only when nobody else competes for this CPU: the core runs a local DSQ empty
 * before it asks us again, so anything more would let this task pass those that wait, pinned or not.
 */
static __always_inline void queue_task(struct runq *rq, struct task_struct *p, s32 cpu,
				       u64 enq_flags)
{
	const struct verdict *v = &rq->verdict;
	u64 slice_ns = core_slice_ns(rq, v->window_ns);

	if (rq->nr == 1) {
		stat_inc(STAT_ENQ_DIRECT);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	if (v->preempts && beats_ready(rq, cpu)) {
		stat_inc(STAT_ENQ_PREEMPT);
		rq->preempting = true;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (v->eligible) {
		stat_inc(STAT_ENQ_READY);
		scx_bpf_dsq_insert_vtime(p, dsq_ready(cpu), slice_ns, v->deadline, enq_flags);
	} else {
		stat_inc(STAT_ENQ_WAIT);
		wait_note(rq, v->vruntime);
		scx_bpf_dsq_insert_vtime(p, dsq_wait(cpu), slice_ns, v->vruntime, enq_flags);
	}
	hrtick_arm(rq, cpu);
	if (!v->searched)
		kick_idle_for(p);
}

#endif /* __EEVDFX_PREEMPT_BPF_H */
