/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deferred wakeups: a wakeup from another CPU is put into a FIFO of its target, which sorts it into its
 * queues at its next dispatch. The waker saves the ordered insertion, under a lock that is not its own.
 *
 *	off	every wakeup is queued at once, by the waker
 *	kernel	the core may hand a wakeup to its target by interrupt (SCX_OPS_ALLOW_QUEUED_WAKEUP); what it
 *		hands over is queued at once there
 *	delayed	a task that still owes (delay_dequeue) goes back to the CPU it slept on, and is staged
 *	always	every wakeup from another CPU that does not run at once is staged
 *
 * A staged task is placed, counts in V and may interrupt the running task like any other. It waits no longer
 * for being staged: the end of the running request is timed for it, too, and that dispatch drains first.
 * Thieves take staged tasks.
 *
 * Limits. Until then later wakeups are not compared with it, and the balance does not see it.
 */
#ifndef __EEVDFX_TTWU_BPF_H
#define __EEVDFX_TTWU_BPF_H

/* The rest is drained at the next dispatch. */
#define DRAIN_MAX 64

/* @p goes to the CPU where it still owes, whose V pays the debt: fair.c would find it queued there. */
static __always_inline bool still_owes(const struct task_ctx *tctx, s32 prev_cpu)
{
	const struct runq *rq;

	if (!tctx->owes || tctx->cpu != prev_cpu)
		return false;
	rq = runq_of(prev_cpu);
	return rq && rq->idle_gen == tctx->idle_gen &&
	       eevdf_before(rq->avg_vruntime, tctx->se.vruntime);
}

static __always_inline bool should_stage(const struct verdict *v, s32 cpu, u64 enq_flags)
{
	if (knobs.ttwu_queue < TTWU_QUEUE_DELAYED || !(enq_flags & SCX_ENQ_WAKEUP) ||
	    cpu == bpf_get_smp_processor_id())
		return false;
	return knobs.ttwu_queue == TTWU_QUEUE_ALWAYS || v->owes;
}

static __always_inline void stage(struct runq *rq, struct task_struct *p, s32 cpu, u64 enq_flags)
{
	stat_inc(STAT_ENQ_STAGE);
	rq->staged = true;
	scx_bpf_dsq_insert(p, dsq_stage(cpu), CORE_SLICE_NS, enq_flags);
}

/* Global for the verifier's sake, see pick.bpf.h. */
__noinline int stage_drain(s32 cpu)
{
	struct runq *rq = runq_of(cpu);
	struct task_struct *p;
	u32 nr = 0;

	if (!rq)
		return 0;
	rq->staged = false;
	bpf_for_each(scx_dsq, p, dsq_stage(cpu), 0) {
		struct task_ctx *tctx = task_ctx_of(p);

		if (nr == DRAIN_MAX) {
			rq->staged = true;
			break;
		}
		if (!tctx)
			continue;
		if (tctx->eligible) {
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tctx->se.deadline);
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_ready(cpu), 0);
		} else {
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tctx->se.vruntime);
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_wait(cpu), 0);
			wait_note(rq, tctx->se.vruntime);
		}
		nr++;
	}
	stat_add(STAT_STAGE_DRAIN, nr);
	return nr;
}

#endif /* __EEVDFX_TTWU_BPF_H */
