/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Global virtual time: what a CPU's V is worth beside another's.
 *
 * V is the service per weight that a CPU has given. Each CPU counts from a zero of its own; gvt = V +
 * gvt_off makes them comparable: of two busy CPUs the one whose gvt is behind has the more weight to
 * serve. If the gvt of all CPUs stay together, every task gets its share of the machine, by weight: one
 * rule in place of load averages.
 *
 * Idleness earns nothing: a CPU that gets a task after it had none does not start behind the mean of its
 * chunk, or of the machine when the whole chunk was idle. And nothing is owed for ever: a CPU whose
 * pinned or light tasks drive it away from the others is held at GVT_BOUNDS * balance_ns from the mean.
 *
 * The means follow at ticks, once per balance interval and CPU, the machine's once per interval. They are
 * written without a lock: an update that is lost is a mean that follows a little later.
 */
#ifndef __EEVDFX_GVT_BPF_H
#define __EEVDFX_GVT_BPF_H

#define GVT_BOUNDS 8

/* A mean that nobody has updated for so many intervals belongs to idle CPUs. */
#define GVT_FRESH 4

static __always_inline bool gvt_is_fresh(const struct gvt_mean *mean, u64 now)
{
	return eevdf_before(now, mean->at + GVT_FRESH * knobs.balance_interval_ns);
}

static __always_inline void gvt_follow(struct gvt_mean *mean, u64 gvt, u64 now)
{
	mean->gvt = gvt_is_fresh(mean, now) ? eevdf_follow(mean->gvt, gvt) : gvt;
	mean->at = now;
}

static __always_inline u64 gvt_of(const struct runq *rq)
{
	return rq->avg_vruntime + rq->gvt_off;
}

/* The first task of @cpu comes, V is @avg. Owner only. */
static __always_inline void gvt_join(struct runq *rq, s32 cpu, u64 avg, u64 now)
{
	const struct gvt_mean *mean = &chunk_of(topo_of(cpu)->chunk)->mean;

	if (!gvt_is_fresh(mean, now))
		mean = &machine.mean;
	if (gvt_is_fresh(mean, now) && eevdf_before(avg + rq->gvt_off, mean->gvt))
		rq->gvt_off = mean->gvt - avg;
}

/* Once per balance interval, on a busy CPU. Returns its gvt. Owner only. */
static __always_inline u64 gvt_tick(struct runq *rq, s32 cpu, u64 now)
{
	struct gvt_mean *mean = &chunk_of(topo_of(cpu)->chunk)->mean;
	u64 ran_ns = runq_uncharged_ns(rq, now), avg, gvt;

	bpf_spin_lock(&rq->lock);
	avg = eevdf_avg_vruntime(&rq->eq, ran_ns);
	bpf_spin_unlock(&rq->lock);
	gvt = avg + rq->gvt_off;
	if (gvt_is_fresh(&machine.mean, now))
		gvt = eevdf_near(machine.mean.gvt, gvt, GVT_BOUNDS * knobs.balance_ns);
	rq->gvt_off = gvt - avg;
	gvt_follow(mean, gvt, now);
	if (!eevdf_before(now, machine.mean.at + knobs.balance_interval_ns / 8))
		gvt_follow(&machine.mean, gvt, now);
	return gvt;
}

#endif /* __EEVDFX_GVT_BPF_H */
