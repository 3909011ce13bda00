/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Busy CPUs against each other: equal service per weight in the long run. A CPU whose global virtual time
 * (gvt.bpf.h) is ahead of another's by more than balance_ns, twice in a row, pulls one of the tasks that
 * wait there at its next dispatch. The bound is twice as wide for another LLC of the node, and grows with
 * distance beyond it. A pulled task keeps its place in global virtual time, as lag (runq_migrate()): it was
 * served less than those it joins.
 *
 * Slow on purpose. Service that is uneven for some milliseconds evens out by itself where tasks sleep; each
 * pull costs a cache. A pull may turn the imbalance around, and a later one back: the balance is one over
 * time. But the bulk of a CPU's load stays where it is (eevdf_pull_helps()).
 *
 * Cost. Nothing but a mean, unless tasks wait; then the CPUs of the LLC that have some, one mean for each
 * chunk of the node, and for each of one other node, in turn, nearest first.
 */
#ifndef __EEVDFX_BALANCE_BPF_H
#define __EEVDFX_BALANCE_BPF_H

#define BALANCE_AHEAD 2
#define PULL_SCAN_MAX 32

/* The CPU with waiting tasks that is farthest behind, -1: none is behind @bound. */
__noinline int behind_in_chunk(s32 cpu, u32 chunk, u64 bound)
{
	u32 first = chunk_at(chunk)->first, i;
	u64 bits = chunk_of(chunk)->waiting;
	s32 behind = -1;

	bpf_for(i, 0, 64) {
		struct runq *rq;
		s32 victim;

		if (!bits)
			break;
		victim = cpu_at(first + take_bit(&bits));
		rq = runq_of(victim);
		if (!rq || victim == cpu || !eevdf_before(gvt_of(rq), bound) ||
		    !has_waiting(victim))
			continue;
		bound = gvt_of(rq);
		behind = victim;
	}
	return behind;
}

/* The same in the chunk of @node, but for the own LLC, whose mean is farthest behind. */
__noinline int behind_in_node(s32 cpu, u32 node, u64 bound)
{
	const volatile struct node_topo *n = node_at(node);
	const volatile struct cpu_topo *t = topo_of(cpu);
	u32 block, chunk, i, behind = EEVDFX_MAX_CPUS;
	u64 least = bound;

	bpf_for(block, n->block_first, n->block_end) {
		u64 bits = block_of(block)->waiting;
		u32 first = n->chunk_first + 64 * (block - n->block_first);

		bpf_for(i, 0, 64) {
			if (!bits)
				break;
			chunk = first + take_bit(&bits);
			if (in_llc(t, chunk) || !eevdf_before(chunk_of(chunk)->mean.gvt, least))
				continue;
			least = chunk_of(chunk)->mean.gvt;
			behind = chunk;
		}
	}
	if (behind == EEVDFX_MAX_CPUS)
		return -1;
	return behind_in_chunk(cpu, behind, bound);
}

__noinline int behind(s32 cpu, u64 gvt)
{
	const volatile struct cpu_topo *t = topo_of(cpu);
	const volatile struct node_topo *n = node_at(t->node);
	struct runq *rq = runq_of(cpu);
	s32 victim = -1;
	u32 node, turn;

	if (!rq)
		return -1;
	bpf_for(turn, t->llc_first, t->llc_end) {
		victim = behind_in_chunk(cpu, turn, gvt - knobs.balance_ns);
		if (victim >= 0)
			return victim;
	}
	victim = behind_in_node(cpu, t->node, gvt - 2 * knobs.balance_ns);
	if (victim >= 0 || !n->nr_order)
		return victim;
	node = other_node(n, rq->balance_turn++ % n->nr_order);
	return behind_in_node(cpu, node, gvt - by_distance(n, node, 2 * knobs.balance_ns));
}

/* ops.tick of @p, alone on its CPU or not. */
__noinline int balance_look(s32 cpu, u64 now)
{
	struct runq *rq = runq_of(cpu);
	s32 victim;
	u64 gvt;

	if (!rq || !knobs.balance_ns || !rq->nr)
		return 0;
	rq->balance_at = now + knobs.balance_interval_ns;
	gvt = gvt_tick(rq, cpu, now);
	victim = behind(cpu, gvt);
	if (victim < 0) {
		rq->ahead = 0;
		return 0;
	}
	if (++rq->ahead < BALANCE_AHEAD)
		return 0;
	rq->ahead = 0;
	rq->pull_from = victim + 1;
	return 1;
}

static __always_inline void balance_tick(struct runq *rq, struct task_struct *p, u64 now)
{
	if (eevdf_before(now, rq->balance_at))
		return;
	/* Alone it would not come to a dispatch for long. */
	if (balance_look(scx_bpf_task_cpu(p), now) && rq->nr == 1)
		scx_bpf_task_set_slice(p, 0);
}

/* From the end of a queue: those that would run last. */
static __always_inline bool pull_queue(struct runq *rq, s32 cpu, const struct runq *src, u64 dsq_id,
				       u64 now)
{
	struct task_struct *p;

	rq->scanned = 0;
	bpf_for_each(scx_dsq, p, dsq_id, SCX_DSQ_ITER_REV) {
		struct task_ctx *tctx;

		if (++rq->scanned > PULL_SCAN_MAX)
			break;
		tctx = task_ctx_of(p);
		if (!tctx || !may_run_on(p, cpu) ||
		    eevdf_before(now, tctx->ran_at + knobs.migration_cost_ns) ||
		    !eevdf_pull_helps(rq->eq.sum_weight, src->eq.sum_weight, tctx->se.weight))
			continue;
		rq->pulled = (u64)p;
		if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return true;
		rq->pulled = 0;
	}
	return false;
}

/* In dispatch. It fails if what waits there may not, need not or should not move: another time. */
__noinline bool balance_pull(s32 cpu)
{
	struct runq *rq = runq_of(cpu), *src;
	u64 now = scx_bpf_now();
	s32 victim;

	if (!rq || !rq->pull_from)
		return false;
	victim = rq->pull_from - 1;
	rq->pull_from = 0;
	src = runq_of(victim);
	if (!src || !has_waiting(victim))
		return false;
	if (!pull_queue(rq, cpu, src, dsq_wait(victim), now) &&
	    !pull_queue(rq, cpu, src, dsq_ready(victim), now))
		return false;
	stat_inc(STAT_PULL);
	return true;
}

#endif /* __EEVDFX_BALANCE_BPF_H */
