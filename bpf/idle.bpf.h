/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPU a waking task is sent to. Every task has a home node: where it was forked or spread to
 * (spread.bpf.h). The search, each outcome counted:
 *
 *	the waker's CPU	  if the waker says that it is about to sleep (wake_sync), nobody else is there,
 *			  and the previous CPU is not an idle one that shares its cache; of another node
 *			  only if none idles at home and numa_spill allows it
 *	the home node	  the kernel's search: the previous CPU if its core is idle as a whole, an idle
 *			  core of its LLC, of the node; then the same with idle CPUs
 *	other nodes	  nearest first, as far as numa_spill allows
 *	none idles	  the less loaded of the previous CPU and the waker's (wake_affine)
 *
 * A task that runs away from home starts at the CPU of its home where it was last woken, so it returns
 * as soon as one idles there.
 *
 * With several nodes the kernel keeps a mask of idle CPUs for each (SCX_OPS_BUILTIN_IDLE_PER_NODE), so
 * that CPUs of different nodes write different lines. Its functions for these masks and those for a single
 * mask exclude each other: idle_per_node says which to call, a constant to the verifier.
 *
 * Limits. Load is the weight that is runnable now, without history. A waker that announces its sleep and
 * runs on keeps its wakee waiting up to the end of its request. When no CPU idles each node's mask is
 * looked at.
 */
#ifndef __EEVDFX_IDLE_BPF_H
#define __EEVDFX_IDLE_BPF_H

/* For placement there is one node where the kernel keeps one mask. */
static __always_inline bool same_node(s32 a, s32 b)
{
	return !idle_per_node || topo_of(a)->node == topo_of(b)->node;
}

/* Of @cpu's node. On a busy machine this answers for a tenth of what a search costs to find nothing. */
static __always_inline bool any_idle(s32 cpu)
{
	const struct cpumask *idle;
	bool ret;

	if (idle_per_node)
		idle = scx_bpf_get_idle_cpumask_node(topo_of(cpu)->node_id);
	else
		idle = scx_bpf_get_idle_cpumask();
	ret = !bpf_cpumask_empty(idle);
	scx_bpf_put_idle_cpumask(idle);
	return ret;
}

/* Claim an idle CPU of @cpu's node. */
static __always_inline s32 pick_idle_near(struct task_struct *p, s32 cpu, u64 flags)
{
	if (idle_per_node)
		return scx_bpf_pick_idle_cpu_node(p->cpus_ptr, topo_of(cpu)->node_id,
						  flags | SCX_PICK_IDLE_IN_NODE);
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, flags);
}

/*
 * The nodes other than @home's, nearest first; of equally near ones every node begins with another, so
 * that a crowd does not flee to the same one. Without SMT every idle CPU is an idle core.
 */
static __noinline s32 pick_idle_spill(struct task_struct *p, s32 home)
{
	const volatile struct node_topo *n = node_of(home);
	u64 flags = SCX_PICK_IDLE_IN_NODE;
	u32 i;

	if (knobs.numa_spill == NUMA_SPILL_NEVER)
		return -EBUSY;
	if (knobs.numa_spill == NUMA_SPILL_IDLE_CORE)
		flags |= SCX_PICK_IDLE_CORE;
	bpf_for(i, 0, n->nr_order) {
		u32 node_id = node_at(other_node(n, i))->node_id;
		s32 cpu = scx_bpf_pick_idle_cpu_node(p->cpus_ptr, node_id, flags);

		if (cpu >= 0)
			return cpu;
	}
	return -EBUSY;
}

/* The first CPU of @node that @p may use, -1 if there is none. */
static __noinline s32 allowed_in(struct task_struct *p, u32 node)
{
	u32 pos;

	bpf_for(pos, node_first(node), node_end(node)) {
		s32 cpu = cpu_at(pos);

		if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	}
	return -1;
}

/* Affinity excludes @cpu: another one of its node, else where @p is, else anywhere it may be. */
static __noinline s32 allowed_near(struct task_struct *p, s32 cpu, s32 prev_cpu)
{
	cpu = allowed_in(p, topo_of(cpu)->node);
	if (cpu >= 0)
		return cpu;
	if (bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr))
		return prev_cpu;
	return bpf_cpumask_first(p->cpus_ptr);
}

/*
 * Where the search of @p begins: an allowed CPU of its home. Its node is home from now on; it is another
 * than before only if affinity excludes all of the old one.
 */
static __always_inline s32 task_home(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu)
{
	s32 cpu = prev_cpu;

	if (!same_node(cpu, tctx->home_cpu))
		cpu = tctx->home_cpu;
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		cpu = allowed_near(p, cpu, prev_cpu);
	tctx->home_cpu = cpu;
	return cpu;
}

/*
 * Is the waker's CPU about to be free? Or idle, when an interrupt wakes. An exiting waker does not say
 * when it sleeps.
 */
static __always_inline bool waker_leaves(struct task_struct *p, s32 this_cpu)
{
	struct runq *rq = runq_of(this_cpu);

	if (!rq || !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return false;
	if (rq->curr_since)
		return rq->nr == 1 && !(bpf_get_current_task_btf()->flags & PF_EXITING);
	return scx_bpf_test_and_clear_cpu_idle(this_cpu);
}

/* Neither idle nor accounted for: a task is on its way there, or another class runs. */
static __always_inline u64 busy_weight(const struct runq *rq)
{
	return rq->eq.sum_weight ?: EEVDF_NICE_0_WEIGHT;
}

/*
 * A tie goes to the waker: it may be about to sleep, since it has just handed its work on, while the
 * previous CPU runs on. The next wakeup by the same waker finds its CPU fuller, so a crowd spreads.
 * Both sums are read without their locks: a wrong choice costs a wait that balance repairs.
 *
 * A task that is away from home stays there only if numa_spill lets it leave for any idle CPU: it was one.
 */
static __always_inline s32 select_busy(struct task_struct *p, s32 prev_cpu, s32 home, s32 this_cpu)
{
	struct runq *prev_rq, *this_rq;

	if (prev_cpu != home &&
	    (knobs.numa_spill != NUMA_SPILL_IDLE || !bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr)))
		prev_cpu = home;
	if (!knobs.wake_affine || this_cpu == prev_cpu ||
	    !bpf_cpumask_test_cpu(this_cpu, p->cpus_ptr))
		return prev_cpu;
	if (knobs.numa_spill != NUMA_SPILL_IDLE && !same_node(this_cpu, home))
		return prev_cpu;
	prev_rq = runq_of(prev_cpu);
	this_rq = runq_of(this_cpu);
	if (!prev_rq || !this_rq || busy_weight(this_rq) > busy_weight(prev_rq))
		return prev_cpu;
	stat_inc(STAT_WAKE_AFFINE);
	return this_cpu;
}

/* Tells in @stat what came of it. @home: where to begin, an allowed CPU of the home node. */
static __always_inline s32 search(struct task_struct *p, s32 prev_cpu, s32 home, u64 wake_flags,
				  enum stat_idx *stat)
{
	bool sync = (wake_flags & SCX_WAKE_SYNC) && knobs.wake_sync;
	s32 this_cpu = bpf_get_smp_processor_id();
	s32 cpu;

	if (sync) {
		if (same_llc(home, this_cpu) && scx_bpf_test_and_clear_cpu_idle(home)) {
			*stat = home == prev_cpu ? STAT_IDLE_PREV : STAT_IDLE_LLC;
			return home;
		}
		if (same_node(home, this_cpu) && waker_leaves(p, this_cpu)) {
			*stat = STAT_IDLE_SYNC;
			return this_cpu;
		}
	}
	if (any_idle(home)) {
		cpu = scx_bpf_select_cpu_and(p, home, 0, p->cpus_ptr,
					     idle_per_node ? SCX_PICK_IDLE_IN_NODE : 0);
		if (cpu >= 0) {
			if (cpu == prev_cpu)
				*stat = STAT_IDLE_PREV;
			else
				*stat = same_llc(cpu, home) ? STAT_IDLE_LLC : STAT_IDLE_NODE;
			return cpu;
		}
	}
	if (idle_per_node) {
		if (sync && knobs.numa_spill == NUMA_SPILL_IDLE && waker_leaves(p, this_cpu)) {
			*stat = STAT_IDLE_SYNC;
			return this_cpu;
		}
		*stat = STAT_IDLE_REMOTE;
		/* Away already: rather there than on the move again. */
		if (prev_cpu != home && knobs.numa_spill == NUMA_SPILL_IDLE &&
		    bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
		    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
			return prev_cpu;
		cpu = pick_idle_spill(p, home);
		if (cpu >= 0)
			return cpu;
	}
	*stat = STAT_IDLE_NONE;
	return select_busy(p, prev_cpu, home, this_cpu);
}

/* The search for @tctx's task, just woken, ended with @cpu. */
static __always_inline s32 found(struct task_ctx *tctx, s32 cpu, enum stat_idx stat)
{
	tctx->searched = true;
	stat_inc(stat);
	stat_inc(same_node(cpu, tctx->home_cpu) ? STAT_WAKE_HOME : STAT_WAKE_AWAY);
	return cpu;
}

static __always_inline s32 select_idle(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu,
				       u64 wake_flags)
{
	enum stat_idx stat;
	s32 home, cpu;

	home = task_home(p, tctx, prev_cpu);
	tctx->sync = wake_flags & SCX_WAKE_SYNC;
	cpu = search(p, prev_cpu, home, wake_flags, &stat);
	return found(tctx, cpu, stat);
}

#endif /* __EEVDFX_IDLE_BPF_H */
