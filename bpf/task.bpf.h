/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the kernel says of a task and what follows for its eevdf_se: weight, slice, service, and the debt
 * that it sleeps with.
 */
#ifndef __EEVDFX_TASK_BPF_H
#define __EEVDFX_TASK_BPF_H

#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define DEFAULT_NICE_PRIO 120

/*
 * A task in a cgroup whose cpu.idle is set, its own or one above it, down to CGROUP_DEPTH_MAX levels.
 * Read where the kernel keeps it, since only 6.19 and later tell of a change.
 */
#define CGROUP_DEPTH_MAX 8

static __always_inline bool task_group_idle(const struct task_struct *p)
{
	struct task_group *tg = NULL;
	u32 i;

	if (!bpf_core_field_exists(p->sched_task_group) || !bpf_core_field_exists(tg->idle))
		return false;
	tg = p->sched_task_group;
	for (i = 0; i < CGROUP_DEPTH_MAX && tg; i++) {
		if (tg->idle)
			return true;
		tg = tg->parent;
	}
	return false;
}

/* It can run on one CPU alone. */
static __always_inline bool is_bound(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || is_migration_disabled(p);
}

/*
 * p->scx.weight is rounded to 1 .. 10000 and p->se.load goes stale under sched_ext: ask the priority.
 * A cgroup's cpu.idle is the weight of SCHED_IDLE for each of its tasks; in fair.c they share it.
 */
static __always_inline u32 task_weight(const struct task_struct *p)
{
	if (p->policy == SCHED_IDLE || task_group_idle(p))
		return EEVDF_IDLE_WEIGHT;
	return eevdf_weight_of_nice(p->static_prio - DEFAULT_NICE_PRIO);
}

/* A task's own request length (sched_attr.sched_runtime), else the base slice; less in a crowd. */
static __always_inline u64 task_slice_ns(const struct task_struct *p, const struct runq *rq)
{
	u64 slice_ns = knobs.slice_ns;

	if (p->se.custom_slice)
		slice_ns = p->se.slice;
	return eevdf_crowd_slice(slice_ns, rq->nr);
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

/* It did not sleep: what is left of its request goes along (PLACE_REL_DEADLINE). */
static __always_inline void task_keep_deadline(struct task_ctx *tctx)
{
	if (!knobs.place_rel_deadline)
		return;
	tctx->se.deadline -= tctx->se.vruntime;
	tctx->rel_deadline = true;
}

/* Before a join: weight and slice may have changed while the task was away. True if the weight has. */
static __always_inline bool task_refresh(const struct task_struct *p, struct task_ctx *tctx,
					 const struct runq *rq)
{
	struct eevdf_se *se = &tctx->se;
	u32 weight = task_weight(p);
	bool changed = weight != se->weight;

	if (changed) {
		se->vlag = eevdf_rescale(se->vlag, se->weight, weight);
		if (tctx->rel_deadline)
			se->deadline = (u64)eevdf_rescale((s64)se->deadline, se->weight, weight);
		se->weight = weight;
		se->rem = 0;
		/* An absolute vruntime means nothing at another weight; vlag holds the debt. */
		tctx->owes = false;
	}
	se->slice_ns = task_slice_ns(p, rq);
	return changed;
}

/*
 * What is left of the debt of @tctx, which sleeps with its vruntime kept on the CPU of @src, where V is
 * @avg. With that lock held.
 */
static __always_inline s64 task_debt(const struct task_ctx *tctx, const struct runq *src, u64 avg)
{
	s64 credit = 0;

	if (src->idle_gen != tctx->idle_gen)
		return 0;
	if (!knobs.delay_zero)
		credit = (s64)eevdf_vtime(tctx->se.slice_ns, tctx->se.weight);
	return eevdf_delayed_lag(&tctx->se, avg, src->eq.sum_weight, credit);
}

#endif /* __EEVDFX_TASK_BPF_H */
