/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's copy of bpf/eevdf.h and bpf/slices.h, with a linkable name for each function that the tests
 * call. Built by build.rs with -fsanitize=undefined: signed overflow and bad shifts trap.
 */
#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#include "eevdf.h"
#include "slices.h"

/* clang-format off */
#define EXPORT(ret, name, params, args) \
	ret host_##name params \
	{ \
		return eevdf_##name args; \
	}

EXPORT(u32, weight_of_nice, (s32 nice), (nice))
EXPORT(s64, div_floor, (s64 num, u64 den), (num, den))
EXPORT(s64, div_trunc, (s64 num, u64 den), (num, den))
EXPORT(u64, vtime, (u64 ns, u32 weight), (ns, weight))
EXPORT(u64, avg_vruntime, (const struct eevdf_rq *rq, u64 ran_ns), (rq, ran_ns))
EXPORT(bool, eligible, (u64 vruntime, u64 avg), (vruntime, avg))
EXPORT(void, move_zero, (struct eevdf_rq *rq, u64 avg), (rq, avg))
EXPORT(void, add, (struct eevdf_rq *rq, const struct eevdf_se *se), (rq, se))
EXPORT(void, sub, (struct eevdf_rq *rq, const struct eevdf_se *se), (rq, se))
EXPORT(void, charge, (struct eevdf_rq *rq, struct eevdf_se *se, u64 ns), (rq, se, ns))
EXPORT(s64, lag_limit, (u64 slice, u64 tick, u32 weight), (slice, tick, weight))
EXPORT(s64, lag, (u64 avg, u64 vruntime, s64 limit), (avg, vruntime, limit))
EXPORT(s64, delayed_lag, (const struct eevdf_se *se, u64 avg, u64 sum_weight, s64 credit),
       (se, avg, sum_weight, credit))
EXPORT(u64, place, (u64 avg, s64 vlag, u32 weight, u64 sum_weight), (avg, vlag, weight, sum_weight))
EXPORT(s64, rescale, (s64 x, u32 from, u32 to), (x, from, to))
EXPORT(bool, renew, (struct eevdf_se *se, u64 slice_ns), (se, slice_ns))
EXPORT(void, forfeit, (struct eevdf_rq *rq, struct eevdf_se *se), (rq, se))
EXPORT(void, reweigh,
       (struct eevdf_rq *rq, struct eevdf_se *se, u32 weight, u64 avg, s64 limit),
       (rq, se, weight, avg, limit))
EXPORT(u32, slices_add, (struct eevdf_slices *s, u64 ns), (s, ns))
EXPORT(void, slices_del, (struct eevdf_slices *s, u32 entry), (s, entry))
EXPORT(u64, min_slice, (const struct eevdf_slices *s, u32 nr, u64 base_ns), (s, nr, base_ns))
EXPORT(u64, max_slice, (const struct eevdf_slices *s, u32 nr, u64 base_ns), (s, nr, base_ns))
EXPORT(u64, crowd_slice, (u64 slice_ns, u32 nr), (slice_ns, nr))
EXPORT(u64, ineligible_at, (const struct eevdf_rq *rq, const struct eevdf_se *se), (rq, se))
EXPORT(u64, protect,
       (const struct eevdf_se *se, u64 min_slice_ns, u64 ineligible_at, bool run_to_parity,
	bool preempt_short),
       (se, min_slice_ns, ineligible_at, run_to_parity, preempt_short))
EXPORT(u64, shrink, (u64 vprot, u64 vruntime, u32 weight, u64 avg, u64 min_slice_ns),
       (vprot, vruntime, weight, avg, min_slice_ns))
EXPORT(u64, window_ns, (u64 vruntime, u64 deadline, u32 weight), (vruntime, deadline, weight))
EXPORT(u64, follow, (u64 mean, u64 point), (mean, point))
EXPORT(u64, near, (u64 mean, u64 point, s64 limit), (mean, point, limit))
EXPORT(bool, pull_helps, (u64 dst, u64 src, u32 weight), (dst, src, weight))
EXPORT(enum eevdf_wakeup, wakeup,
       (const struct eevdf_se *se, const struct eevdf_wakee *wakee, const struct eevdf_curr *curr,
	u64 avg, const struct eevdf_rules *rules),
       (se, wakee, curr, avg, rules))
