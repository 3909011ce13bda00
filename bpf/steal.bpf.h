/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work conservation: a CPU about to idle takes a queued task, of its LLC first, then of its node, then of
 * the other nodes by distance. A task that is queued although a CPU idles wakes that CPU.
 *
 * Each ring has its delay: a task is taken only after it has waited so long, farther away longer, and from
 * another LLC only if it has not run for migration_cost. Within an LLC the cache is shared and an idle CPU
 * is the greater loss. A thief that found only tasks too young to be taken comes back when the first of
 * them is old enough.
 *
 * Limits. With a delay STEAL_SCAN_MAX tasks of each queue are looked at. Without one the core finds the
 * first that may run here.
 */
#ifndef __EEVDFX_STEAL_BPF_H
#define __EEVDFX_STEAL_BPF_H

#define STEAL_SCAN_MAX 32

/* Its affinity, and whether it is inside migrate_disable(). Waiting tasks change neither by themselves. */
static __always_inline bool may_run_on(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !is_migration_disabled(p);
}

/*
 * A global function for the verifier's sake, see pick.bpf.h. The task cannot become one that may not run
 * here between the look and the move: a change of affinity queues it anew, and the move sees that.
 */
__noinline bool steal_old(s32 cpu, u64 dsq_id, u64 delay_ns, u64 cost_ns, u64 now)
{
	struct runq *rq = runq_of(cpu);
	struct task_struct *p;

	if (!rq)
		return false;
	rq->scanned = 0;
	bpf_for_each(scx_dsq, p, dsq_id, 0) {
		struct task_ctx *tctx;
		u64 at, cold_at;

		if (++rq->scanned > STEAL_SCAN_MAX)
			break;
		if (!may_run_on(p, cpu))
			continue;
		tctx = task_ctx_of(p);
		if (!tctx)
			continue;
		at = tctx->ready_at + delay_ns;
		cold_at = tctx->ran_at + cost_ns;
		if (eevdf_before(at, cold_at))
			at = cold_at;
		if (!eevdf_before(now, at)) {
			if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
				return true;
		} else if (!rq->steal_at || eevdf_before(at, rq->steal_at)) {
			rq->steal_at = at;
		}
	}
	return false;
}

/* From the CPUs of one chunk, those behind the own one first. @far: of another LLC. */
__noinline bool steal_chunk(s32 cpu, u32 chunk, u64 delay_ns, bool far)
{
	const volatile struct cpu_topo *t = topo_of(cpu);
	u32 first = chunk_at(chunk)->first;
	u32 from = t->bit + 1, i;
	u64 bits = rotate(chunk_of(chunk)->waiting, from), now = scx_bpf_now();
	u64 cost_ns = far ? knobs.migration_cost_ns : 0;
	struct runq *rq = runq_of(cpu);

	if (!rq)
		return false;
	bpf_for(i, 0, 64) {
		u64 later = rq->steal_at;
		u32 bit;
		s32 victim;

		if (!bits)
			break;
		bit = (take_bit(&bits) + from) & 63;
		victim = cpu_at(first + bit);
		if (victim == cpu)
			continue;
		if (!has_waiting(victim)) {
			waiting_clear(chunk, 1ULL << bit, victim, true);
			continue;
		}
		if (far || delay_ns) {
			if (steal_old(cpu, dsq_ready(victim), delay_ns, cost_ns, now) ||
			    steal_old(cpu, dsq_wait(victim), delay_ns, cost_ns, now))
				return true;
		} else if (scx_bpf_dsq_move_to_local(dsq_ready(victim), 0) ||
			   scx_bpf_dsq_move_to_local(dsq_wait(victim), 0)) {
			return true;
		}
		if (knobs.ttwu_queue >= TTWU_QUEUE_DELAYED &&
		    steal_old(cpu, dsq_stage(victim), delay_ns, cost_ns, now)) {
			stat_inc(STAT_STAGE_STEAL);
			return true;
		}
		/* What waits there may not run here: nor, most likely, elsewhere. */
		if (rq->steal_at == later)
			waiting_clear(chunk, 1ULL << bit, victim, false);
	}
	return false;
}

/* From the CPUs of one node that are not in the own LLC. */
__noinline bool steal_node(s32 cpu, u32 node, u64 delay_ns)
{
	const volatile struct node_topo *n = node_at(node);
	const volatile struct cpu_topo *t = topo_of(cpu);
	u32 block, i;

	bpf_for(block, n->block_first, n->block_end) {
		u64 bits = block_of(block)->waiting;
		u32 first = n->chunk_first + 64 * (block - n->block_first);

		bpf_for(i, 0, 64) {
			u32 bit, chunk;

			if (!bits)
				break;
			bit = take_bit(&bits);
			chunk = first + bit;
			if (in_llc(t, chunk))
				continue;
			if (!chunk_of(chunk)->waiting)
				waiting_clear_chunk(block, 1ULL << bit, chunk);
			else if (steal_chunk(cpu, chunk, delay_ns, true))
				return true;
		}
	}
	return false;
}

__noinline bool steal_remote(s32 cpu)
{
	const volatile struct node_topo *n = node_of(cpu);
	u32 i;

	bpf_for(i, 0, n->nr_order) {
		u32 node = other_node(n, i);

		if (!(machine.waiting & 1ULL << node))
			continue;
		if (!node_has_waiting(node_at(node)))
			waiting_clear_node(node, node_at(node));
		else if (steal_node(cpu, node, by_distance(n, node, knobs.steal_delay_remote_ns)))
			return true;
	}
	return false;
}

__noinline bool steal_llc(s32 cpu)
{
	const volatile struct cpu_topo *t = topo_of(cpu);
	u32 chunk;

	bpf_for(chunk, t->llc_first, t->llc_end) {
		if (chunk_of(chunk)->waiting &&
		    steal_chunk(cpu, chunk, knobs.steal_delay_llc_ns, false))
			return true;
	}
	return false;
}

/* Mostly there is nothing: what follows only finds that out, without loops. */
static __always_inline bool steal(struct runq *rq, s32 cpu)
{
	const volatile struct cpu_topo *t = topo_of(cpu);
	const volatile struct node_topo *n = node_at(t->node);
	u64 own = 1ULL << (t->bit & 63);

	rq->steal_at = 0;
	if (((chunk_of(t->chunk)->waiting & ~own) || t->llc_end - t->llc_first > 1) &&
	    steal_llc(cpu)) {
		stat_inc(STAT_STEAL_LLC);
		return true;
	}
	if (n->chunk_end - n->chunk_first > t->llc_end - t->llc_first &&
	    steal_node(cpu, t->node, knobs.steal_delay_node_ns)) {
		stat_inc(STAT_STEAL_NODE);
		return true;
	}
	if ((machine.waiting & ~(1ULL << (t->node & 63))) && steal_remote(cpu)) {
		stat_inc(STAT_STEAL_REMOTE);
		return true;
	}
	if (rq->steal_at)
		hrtick_arm_at(rq, cpu, rq->steal_at);
	return false;
}

/* @p was queued without a search for an idle CPU: let one that idles come and take it. */
static __always_inline void kick_idle_for(struct task_struct *p)
{
	s32 home, cpu;

	if (is_bound(p))
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

#endif /* __EEVDFX_STEAL_BPF_H */
