/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On which node an executed program starts (exec_balance), as spread.bpf.h chooses it. A program begins
 * without memory, so leaving a node costs least then.
 *
 * fair.c does it in sched_exec(). Of a sched_ext scheduler the core asks nothing then, so a tracepoint
 * tells of it: it chooses the node, which becomes home, and has this CPU pick anew when it is through, by
 * the CPU's timer: until then the task cannot be moved. That pick does not keep the task, not even one that
 * is alone (SCX_OPS_ENQ_LAST), and enqueue sends it to a CPU of the node, where it goes on at once, as it
 * would have here: its turn was not over.
 *
 * Both are there only if exec_balance is on at load. With one node there is nothing to choose.
 *
 * Limits. One that a realtime task interrupts just then moves when it is next put aside.
 */
#ifndef __EEVDFX_EXEC_BPF_H
#define __EEVDFX_EXEC_BPF_H

/* @p runs, so nobody else writes its context: its CPU's lock is not needed. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(eevdfx_exec, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 cpu = bpf_get_smp_processor_id(), home;
	u32 own = topo_of(cpu)->node, node;
	struct runq *rq = runq_of(cpu);
	u64 now;

	if (!tctx || !rq || !tctx->running || is_bound(p))
		return 0;
	tctx->home_cpu = cpu;
	node = spread_node(p, own, knobs.exec_balance);
	if (node == own)
		return 0;
	home = allowed_in(p, node);
	if (home < 0)
		return 0;
	tctx->home_cpu = home;
	tctx->exec_leaves = true;
	rq->curr_leaves = true;
	now = scx_bpf_now();
	hrtick_start(rq, cpu, now, now);
	return 0;
}

/* In enqueue. False: it may not go there any more, and stays. */
static __noinline bool exec_move(struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 home, cpu;

	if (!tctx)
		return false;
	tctx->exec_leaves = false;
	if (is_migration_disabled(p))
		return false;
	home = tctx->home_cpu;
	cpu = pick_idle_near(p, home, 0);
	if (cpu < 0)
		cpu = least_busy_cpu(p, topo_of(home)->node);
	if (cpu < 0)
		return false;
	stat_inc(STAT_EXEC_SPREAD);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, CORE_SLICE_NS, enq_flags | SCX_ENQ_PREEMPT);
	return true;
}

#endif /* __EEVDFX_EXEC_BPF_H */
