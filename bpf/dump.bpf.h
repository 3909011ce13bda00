/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel's exit dump shows of us: per CPU V and its queues, per task its place in them. */
#ifndef __EEVDFX_DUMP_BPF_H
#define __EEVDFX_DUMP_BPF_H

static __always_inline void dump_runq(s32 cpu)
{
	struct runq *rq = runq_of(cpu);

	if (!rq)
		return;
	scx_bpf_dump("eevdfx: nr=%u W=%llu S=%lld V=%llu ready=%d wait=%d", rq->nr,
		     rq->eq.sum_weight, rq->eq.sum_w_vruntime, rq->avg_vruntime,
		     scx_bpf_dsq_nr_queued(dsq_ready(cpu)), scx_bpf_dsq_nr_queued(dsq_wait(cpu)));
}

/* lag: V - vruntime of a task that competes, else the lag it left with. */
static __always_inline void dump_task_ctx(struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);
	struct runq *rq;
	s64 lag;

	if (!tctx)
		return;
	rq = runq_of(tctx->cpu);
	lag = tctx->on_rq && rq ? (s64)(rq->avg_vruntime - tctx->se.vruntime) : tctx->se.vlag;
	scx_bpf_dump("eevdfx: cpu=%d %s lag=%lld deadline=%+lld slice_ns=%llu weight=%u%s",
		     tctx->cpu, tctx->on_rq ? (lag >= 0 ? "E" : "N") : "-", lag,
		     (s64)(tctx->se.deadline - tctx->se.vruntime), tctx->se.slice_ns,
		     tctx->se.weight, tctx->owes ? " owes" : "");
}

#endif /* __EEVDFX_DUMP_BPF_H */
