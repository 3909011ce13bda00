/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPU a waking task is sent to, basic form: the kernel's own search for an idle CPU near the
 * previous one (its core, LLC, node, anywhere). None idle: the less loaded of the previous CPU and the
 * waker's.
 *
 * Limits. Load is the weight that is runnable now, without history. The built-in search knows nodes but
 * not their distances.
 */
#ifndef __EEVDFX_IDLE_BPF_H
#define __EEVDFX_IDLE_BPF_H

/*
 * A tie goes to the waker: it may be about to sleep, since it has just handed its work on, while the
 * previous CPU runs on. The next wakeup by the same waker finds its CPU fuller, so a crowd spreads.
 * Both sums are read without their locks: a wrong choice costs a wait that balance repairs.
 */
static __always_inline s32 select_busy(struct task_struct *p, s32 prev_cpu, s32 this_cpu)
{
	struct runq *prev_rq, *this_rq;

	if (this_cpu == prev_cpu || !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return prev_cpu;
	prev_rq = runq_of(prev_cpu);
	this_rq = runq_of(this_cpu);
	if (!prev_rq || !this_rq || this_rq->eq.sum_weight > prev_rq->eq.sum_weight)
		return prev_cpu;
	return this_cpu;
}

/* On a busy machine this answers for a tenth of what the search costs to find nothing. */
static __always_inline bool any_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool ret = !bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return ret;
}

static __always_inline s32 select_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	s32 this_cpu = bpf_get_smp_processor_id();
	bool is_idle = false;
	s32 cpu = prev_cpu;

	if (any_idle())
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	stat_inc(is_idle ? STAT_IDLE_FOUND : STAT_IDLE_NONE);
	if (!is_idle)
		cpu = select_busy(p, cpu, this_cpu);
	if (tctx) {
		tctx->searched = true;
		tctx->sync = wake_flags & SCX_WAKE_SYNC;
	}
	return cpu;
}

#endif /* __EEVDFX_IDLE_BPF_H */
