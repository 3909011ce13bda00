/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_eevdfx: the fair class's EEVDF as a sched_ext scheduler. Every CPU has a virtual time of its own
 * (runq.bpf.h) and picks exactly (pick.bpf.h). A wakeup goes to an idle CPU near the task's memory
 * (idle.bpf.h), an idle CPU takes work from the nearest busy one (steal.bpf.h), and busy CPUs give equal
 * service per weight in the long run (balance.bpf.h). This file only wires the callbacks, in the order of
 * a task's life.
 *
 * Good for what the fair class is good for, with rules that can be switched. Weak where CPUs differ in
 * capacity, or work is bound by cgroups: neither is looked at.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>

#include "intf.h"
#include "eevdf.h"
#include "slices.h"
#include "knobs.bpf.h"
#include "ctx.bpf.h"
#include "task.bpf.h"
#include "topo.bpf.h"
#include "waiting.bpf.h"
#include "gvt.bpf.h"
#include "runq.bpf.h"
#include "hrtick.bpf.h"
#include "idle.bpf.h"
#include "spread.bpf.h"
#include "steal.bpf.h"
#include "balance.bpf.h"
#include "pick.bpf.h"
#include "ttwu.bpf.h"
#include "preempt.bpf.h"
#include "exec.bpf.h"
#include "dump.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/*
 * Without memory for a context the fork still succeeds; the task then runs first come, first served
 * and is not accounted.
 */
s32 BPF_STRUCT_OPS_SLEEPABLE(eevdfx_init_task, struct task_struct *p,
			     struct scx_init_task_args *args)
{
	struct task_ctx *tctx;

	tctx = bpf_task_storage_get(&task_ctxs, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (tctx)
		tctx->forked = args->fork;
	return 0;
}

/* The task enters this class: from fork, from another class, or because we were just attached. */
void BPF_STRUCT_OPS(eevdfx_enable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx)
		return;
	tctx->se.weight = task_weight(p);
	tctx->se.vlag = 0;
	tctx->se.rem = 0;
	tctx->owes = false;
	tctx->rel_deadline = false;
	tctx->home_cpu = scx_bpf_task_cpu(p);
}

s32 BPF_STRUCT_OPS(eevdfx_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);

	if (!tctx)
		return prev_cpu;
	tctx->waker_cpu = bpf_get_smp_processor_id();
	if (knobs.ttwu_queue == TTWU_QUEUE_DELAYED && still_owes(tctx, prev_cpu))
		return prev_cpu;
	if ((wake_flags & SCX_WAKE_FORK) && idle_per_node && knobs.fork_balance != SPREAD_OFF)
		return select_fork(p, tctx, prev_cpu);
	return select_idle(p, tctx, prev_cpu, wake_flags);
}

void BPF_STRUCT_OPS(eevdfx_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct runq *rq = runq_of(cpu);
	enum eevdf_wakeup wakeup;
	bool handed_over;

	if (!tctx || !rq || tctx->on_rq)
		return;
	wakeup = runq_join(rq, p, tctx, cpu, (enq_flags & SCX_ENQ_WAKEUP) || tctx->forked,
			   scx_bpf_now());
	/* What the search saw may be long ago then. */
	handed_over = tctx->searched && tctx->waker_cpu != bpf_get_smp_processor_id();
	runq_set_verdict(rq, p, tctx, wakeup, tctx->searched && !handed_over);
	rq->verdict.sync = tctx->sync && !handed_over && tctx->waker_cpu == cpu;
	if (handed_over)
		stat_inc(STAT_TTWU_QUEUED);
	tctx->searched = false;
	tctx->sync = false;
}

void BPF_STRUCT_OPS(eevdfx_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct runq *rq = runq_of(cpu);
	struct task_ctx *tctx;

	/* It was not kept, and nobody else came: what is left here is not looked at by itself. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(cpu, 0);
	if (!rq || rq->verdict.task != (u64)p || rq->verdict.nr_migrations != p->se.nr_migrations) {
		enum eevdf_wakeup wakeup = EEVDF_WAKEUP_WAITS;

		tctx = task_ctx_of(p);
		if (!tctx || !rq) {
			stat_inc(STAT_ENQ_NOCTX);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SCX_SLICE_DFL, enq_flags);
			return;
		}
		if (tctx->cpu != cpu || !tctx->on_rq)
			wakeup = runq_migrate(rq, p, tctx, cpu);
		runq_set_verdict(rq, p, tctx, wakeup, false);
	}
	rq->verdict.task = 0;
	if (rq->verdict.exec_leaves && exec_move(p, enq_flags))
		return;
	queue_task(rq, p, cpu, enq_flags);
}

void BPF_STRUCT_OPS(eevdfx_dispatch, s32 cpu, struct task_struct *prev)
{
	struct runq *rq = runq_of(cpu);
	struct task_ctx *tctx;

	if (!rq)
		return;
	if (rq->staged)
		stage_drain(cpu);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		tctx = task_ctx_of(prev);
		if (tctx && tctx->running) {
			if (!tctx->exec_leaves) {
				pick_with_prev(rq, cpu, prev, tctx);
				return;
			}
			runq_charge(rq, prev, tctx);
		}
	}
	if (!pick_without_prev(rq, cpu))
		steal(rq, cpu);
}

void BPF_STRUCT_OPS(eevdfx_running, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = scx_bpf_task_cpu(p);
	struct runq *rq = runq_of(cpu);

	if (!tctx || !rq)
		return;
	if (tctx->cpu != cpu || !tctx->on_rq)
		runq_migrate(rq, p, tctx, cpu);
	tctx->running = true;
	tctx->sum_exec_ns = p->se.sum_exec_runtime;
	if (rq->next == (u64)p)
		rq->next = 0;
	rq->pulled = 0;
	start_window(rq, p, tctx, cpu, runq_protect(rq, p, tctx));
	check_direct(rq, p, tctx, cpu);
}

void BPF_STRUCT_OPS(eevdfx_tick, struct task_struct *p)
{
	struct runq *rq = runq_of(scx_bpf_task_cpu(p));

	if (rq)
		tick(rq, p);
}

/* A task that goes to sleep is charged in quiescent, which follows in the same call. */
void BPF_STRUCT_OPS(eevdfx_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx;
	struct runq *rq;

	if (!runnable)
		return;
	tctx = task_ctx_of(p);
	if (!tctx || !tctx->running)
		return;
	rq = runq_of(tctx->cpu);
	if (!rq)
		return;
	runq_charge(rq, p, tctx);
	runq_set_verdict(rq, p, tctx, EEVDF_WAKEUP_WAITS, false);
	rescue_note(rq, p);
	tctx->running = false;
	tctx->ready_at = tctx->ran_at = scx_bpf_now();
	rq->curr_since = 0;
}

void BPF_STRUCT_OPS(eevdfx_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	struct runq *rq;

	if (!tctx || !tctx->on_rq)
		return;
	rq = runq_of(tctx->cpu);
	if (rq)
		runq_leave(rq, p, tctx, deq_flags & SCX_DEQ_SLEEP);
}

/*
 * yield_to (KVM's directed yield) makes @to the next to be picked on its CPU, as fair.c does; the core
 * holds both rq locks.
 */
bool BPF_STRUCT_OPS(eevdfx_yield, struct task_struct *from, struct task_struct *to)
{
	struct task_ctx *tctx = task_ctx_of(from);
	struct runq *rq;

	if (to) {
		struct task_ctx *to_ctx = task_ctx_of(to);

		rq = to_ctx && to_ctx->on_rq ? runq_of(to_ctx->cpu) : NULL;
		if (!rq)
			return false;
		if (to->policy != SCHED_IDLE) {
			rq->next = (u64)to;
			rq->next_deadline = to_ctx->se.deadline;
		}
	}
	if (tctx && tctx->running) {
		rq = runq_of(tctx->cpu);
		if (rq)
			runq_yield(rq, from, tctx);
	}
	scx_bpf_task_set_slice(from, 0);
	return true;
}

void BPF_STRUCT_OPS(eevdfx_dump_cpu, struct scx_dump_ctx *dctx, s32 cpu, bool idle)
{
	if (!idle)
		dump_runq(cpu);
}

void BPF_STRUCT_OPS(eevdfx_dump_task, struct scx_dump_ctx *dctx, struct task_struct *p)
{
	dump_task_ctx(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(eevdfx_init)
{
	u32 cpu;
	s32 ret;

	bpf_for(cpu, 0, nr_cpu_ids) {
		s32 node = topo_of(cpu)->node_id;

		ret = scx_bpf_create_dsq(dsq_ready(cpu), node);
		if (!ret)
			ret = scx_bpf_create_dsq(dsq_wait(cpu), node);
		if (!ret)
			ret = scx_bpf_create_dsq(dsq_stage(cpu), node);
		if (!ret)
			ret = hrtick_init(cpu);
		if (ret) {
			scx_bpf_error("cannot set up CPU %u on node %d: %d", cpu, node, ret);
			return ret;
		}
	}
	return 0;
}

void BPF_STRUCT_OPS(eevdfx_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(eevdfx_ops,
	       .init_task = (void *)eevdfx_init_task,
	       .enable = (void *)eevdfx_enable,
	       .select_cpu = (void *)eevdfx_select_cpu,
	       .runnable = (void *)eevdfx_runnable,
	       .enqueue = (void *)eevdfx_enqueue,
	       .dispatch = (void *)eevdfx_dispatch,
	       .running = (void *)eevdfx_running,
	       .tick = (void *)eevdfx_tick,
	       .stopping = (void *)eevdfx_stopping,
	       .quiescent = (void *)eevdfx_quiescent,
	       .yield = (void *)eevdfx_yield,
	       .dump_cpu = (void *)eevdfx_dump_cpu,
	       .dump_task = (void *)eevdfx_dump_task,
	       .init = (void *)eevdfx_init,
	       .exit = (void *)eevdfx_exit,
	       .timeout_ms = 30000,
	       .name = "eevdfx");
