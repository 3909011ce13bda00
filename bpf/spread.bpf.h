/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On which node a forked task starts (fork_balance), or an executed program (exec_balance, exec.bpf.h). The
 * node becomes its home.
 *
 *	round_robin	every node in turn
 *	least_loaded	the node with the most idle CPUs, if it has over SPREAD_MARGIN more than the own
 *			node or that has none; none idles anywhere: the one with the fewest tasks a CPU
 *
 * least_loaded is what sched_balance_find_dst_group() does; its margin is NUMA_IMBALANCE_MIN. So a shell's
 * short-lived children stay near it while its node has room, and a crowd of forks is dealt evenly. The
 * kernel counts that margin only up to an eighth of a node's CPUs in use.
 *
 * Limits. Affinity is not looked at when CPUs are counted. A loaded node is judged by SPREAD_SCAN of its CPUs.
 */
#ifndef __EEVDFX_SPREAD_BPF_H
#define __EEVDFX_SPREAD_BPF_H

#define SPREAD_MARGIN 2

/* Each is a line that its CPU writes: reading all of a big machine's takes tens of microseconds. */
#define SPREAD_SCAN 16

static __always_inline u32 nr_idle(u32 node)
{
	const struct cpumask *idle;
	u32 nr;

	idle = scx_bpf_get_idle_cpumask_node(node_at(node)->node_id);
	nr = bpf_cpumask_weight(idle);
	scx_bpf_put_idle_cpumask(idle);
	return nr;
}

static __always_inline u32 nr_samples(u32 node)
{
	u32 size = node_end(node) - node_first(node);

	return size < SPREAD_SCAN ? size : SPREAD_SCAN;
}

/* CPU @i of the @nr that stand for @node, evenly over it. */
static __always_inline s32 sample_cpu(u32 node, u32 i, u32 nr)
{
	u32 first = node_first(node), size = node_end(node) - first;

	return cpu_at(first + i * size / nr);
}

/*
 * Runnable tasks a CPU, times 1024. Read without locks: a fork that lands elsewhere does no harm. Global
 * for the verifier's sake, see pick.bpf.h.
 */
__noinline u32 node_load(u32 node)
{
	u32 nr_cpus = nr_samples(node), nr = 0, i;

	bpf_for(i, 0, nr_cpus) {
		struct runq *rq = runq_of(sample_cpu(node, i, nr_cpus));

		if (rq)
			nr += rq->nr;
	}
	return nr_cpus ? (nr << 10) / nr_cpus : 0;
}

static __noinline u32 least_loaded_node(struct task_struct *p, u32 own)
{
	const volatile struct node_topo *n = node_at(own);
	u32 best = own, most = nr_idle(own), least, i;

	if (most)
		most += SPREAD_MARGIN;
	bpf_for(i, 0, n->nr_order) {
		u32 node = other_node(n, i);
		u32 nr = nr_idle(node);

		if (nr > most && allowed_in(p, node) >= 0) {
			most = nr;
			best = node;
		}
	}
	if (most)
		return best;
	least = node_load(own);
	bpf_for(i, 0, n->nr_order) {
		u32 node = other_node(n, i);
		u32 load = node_load(node);

		if (load < least && allowed_in(p, node) >= 0) {
			least = load;
			best = node;
		}
	}
	return best;
}

/* The counter is one line for the machine, written once a fork or exec. */
static __noinline u32 next_node(struct task_struct *p, u32 own)
{
	u64 turn = __sync_fetch_and_add(&spread_turn, 1);
	u32 i;

	bpf_for(i, 0, nr_nodes) {
		u32 node = (turn + i) % nr_nodes;

		if (allowed_in(p, node) >= 0)
			return node;
	}
	return own;
}

static __always_inline u32 spread_node(struct task_struct *p, u32 own, u32 how)
{
	return how == SPREAD_ROUND_ROBIN ? next_node(p, own) : least_loaded_node(p, own);
}

/* Of @node the allowed CPU with the fewest tasks, among those looked at. */
static __noinline s32 least_busy_cpu(struct task_struct *p, u32 node)
{
	s32 best = allowed_in(p, node);
	u32 nr_cpus = nr_samples(node), least = ~0U, i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = sample_cpu(node, i, nr_cpus);
		struct runq *rq = runq_of(cpu);

		if (rq && rq->nr < least && bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			least = rq->nr;
			best = cpu;
		}
	}
	return best;
}

/* select_cpu for a task that was just forked; @prev_cpu is its parent's. */
static __always_inline s32 select_fork(struct task_struct *p, struct task_ctx *tctx, s32 prev_cpu)
{
	enum stat_idx stat = STAT_IDLE_NODE;
	u32 own, node;
	s32 cpu;

	own = topo_of(task_home(p, tctx, prev_cpu))->node;
	node = spread_node(p, own, knobs.fork_balance);
	if (node == own) {
		cpu = search(p, prev_cpu, tctx->home_cpu, 0, &stat);
	} else {
		stat_inc(STAT_FORK_SPREAD);
		cpu = allowed_in(p, node);
		if (cpu < 0)
			return prev_cpu;
		tctx->home_cpu = cpu;
		cpu = pick_idle_near(p, cpu, 0);
		if (cpu < 0)
			stat = STAT_IDLE_NONE;
	}
	if (stat == STAT_IDLE_NONE) {
		cpu = least_busy_cpu(p, node);
		if (cpu < 0)
			return prev_cpu;
	}
	return found(tctx, cpu, stat);
}

#endif /* __EEVDFX_SPREAD_BPF_H */
