/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The slices in use on one CPU that are not the base slice, for their minimum and maximum: fair.c keeps
 * them in its tree (min_slice, max_slice). Exact for up to EEVDF_NR_SLICES different values at a time;
 * one more widens the entry nearest to it, which then stands for a range.
 *
 * Pure C as eevdf.h, and tested on the host as it is.
 */
#ifndef __EEVDFX_SLICES_H
#define __EEVDFX_SLICES_H

#define EEVDF_NR_SLICES 8 /* a power of two: indexes are masked */

struct eevdf_slices {
	u32 nr_tasks; /* in all entries */
	u32 nr[EEVDF_NR_SLICES]; /* 0: a free entry */
	u64 min_ns[EEVDF_NR_SLICES];
	u64 max_ns[EEVDF_NR_SLICES];
};

/* Counts a task whose slice is @ns. Returns its entry, for eevdf_slices_del(). */
static inline u32 eevdf_slices_add(struct eevdf_slices *s, u64 ns)
{
	u32 i, best = 0;
	u64 away, least = ~0ULL;

	for (i = 0; i < EEVDF_NR_SLICES; i++) {
		if (!s->nr[i])
			away = 1; /* better than widening, worse than the same value */
		else if (ns < s->min_ns[i])
			away = 1 + s->min_ns[i] - ns;
		else if (ns > s->max_ns[i])
			away = 1 + ns - s->max_ns[i];
		else
			away = 0;
		if (away < least) {
			least = away;
			best = i;
		}
	}
	if (!s->nr[best] || ns < s->min_ns[best])
		s->min_ns[best] = ns;
	if (!s->nr[best] || ns > s->max_ns[best])
		s->max_ns[best] = ns;
	s->nr[best]++;
	s->nr_tasks++;
	return best;
}

static inline void eevdf_slices_del(struct eevdf_slices *s, u32 entry)
{
	s->nr[entry & (EEVDF_NR_SLICES - 1)]--;
	s->nr_tasks--;
}

/*
 * fair.c cfs_rq_min_slice(): the shortest slice of @nr runnable tasks, where those that are not in @s
 * have @base_ns.
 */
static inline u64 eevdf_min_slice(const struct eevdf_slices *s, u32 nr, u64 base_ns)
{
	u64 min = nr > s->nr_tasks ? base_ns : ~0ULL;
	u32 i;

	for (i = 0; i < EEVDF_NR_SLICES; i++)
		if (s->nr[i] && s->min_ns[i] < min)
			min = s->min_ns[i];
	return min;
}

/* fair.c cfs_rq_max_slice() */
static inline u64 eevdf_max_slice(const struct eevdf_slices *s, u32 nr, u64 base_ns)
{
	u64 max = nr > s->nr_tasks ? base_ns : 0;
	u32 i;

	for (i = 0; i < EEVDF_NR_SLICES; i++)
		if (s->nr[i] && s->max_ns[i] > max)
			max = s->max_ns[i];
	return max;
}

#endif /* __EEVDFX_SLICES_H */
