/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work conservation, basic form. A CPU about to idle takes a queued task of the nearest CPU that has
 * one: own LLC, own node, then the others in cpu_order[]. A task that is queued although a CPU idles
 * wakes that CPU.
 *
 * Limits. Looks at every CPU when nobody has work to give; knows no distances between nodes; busy CPUs
 * are not balanced against each other.
 */
#ifndef __EEVDFX_BALANCE_BPF_H
#define __EEVDFX_BALANCE_BPF_H

/* Lockless: a wrong answer costs one look into empty queues, or a task found by the next one. */
static __always_inline bool has_waiting(s32 cpu)
{
	struct runq *rq = runq_of(cpu);

	return rq && rq->nr > (rq->curr_since ? 1 : 0);
}

/* move_to_local skips the tasks that may not run here. */
static __always_inline bool steal_from(s32 cpu)
{
	return has_waiting(cpu) && (scx_bpf_dsq_move_to_local(dsq_ready(cpu), 0) ||
				    scx_bpf_dsq_move_to_local(dsq_wait(cpu), 0));
}

/* Positions [first, end) of cpu_order[] without [skip_first, skip_end), which had its turn. */
static __always_inline bool steal_in(s32 cpu, u32 first, u32 end, u32 skip_first, u32 skip_end)
{
	u32 pos;

	bpf_for(pos, first, end) {
		s32 victim;

		if (pos >= skip_first && pos < skip_end)
			continue;
		victim = cpu_order[pos & (EEVDFX_MAX_CPUS - 1)];
		if (victim != cpu && steal_from(victim))
			return true;
	}
	return false;
}

/* Positions at which the chunks [chunk, end) begin and end. */
static __always_inline u32 first_pos(u32 chunk)
{
	return chunk_topo[chunk & (EEVDFX_MAX_CPUS - 1)].first;
}

static __always_inline u32 end_pos(u32 end)
{
	return chunk_topo[(end - 1) & (EEVDFX_MAX_CPUS - 1)].end;
}

/* Global for the verifier's sake, see pick.bpf.h. */
__noinline bool steal(s32 cpu)
{
	const volatile struct cpu_topo *t = &cpu_topo[cpu & (EEVDFX_MAX_CPUS - 1)];
	const volatile struct node_topo *n = &node_topo[t->node & (EEVDFX_MAX_NODES - 1)];
	u32 llc_first = first_pos(t->llc_first), llc_end = end_pos(t->llc_end);
	u32 node_first = first_pos(n->chunk_first), node_end = end_pos(n->chunk_end);

	if (steal_in(cpu, llc_first, llc_end, 0, 0) ||
	    steal_in(cpu, node_first, node_end, llc_first, llc_end) ||
	    steal_in(cpu, 0, nr_cpu_ids, node_first, node_end)) {
		stat_inc(STAT_PICK_STEAL);
		return true;
	}
	return false;
}

/* @p was queued without a search for an idle CPU: let one that idles come and take it. */
static __always_inline void kick_idle_for(struct task_struct *p)
{
	s32 home, cpu;

	if (p->nr_cpus_allowed == 1 || is_migration_disabled(p))
		return;
	home = scx_bpf_task_cpu(p);
	cpu = pick_idle_near(p, home, 0);
	if (cpu < 0 && idle_per_node)
		cpu = pick_idle_spill(p, home);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		stat_inc(STAT_IDLE_KICK);
	}
}

#endif /* __EEVDFX_BALANCE_BPF_H */
