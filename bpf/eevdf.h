/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of EEVDF: virtual time, lag, eligibility, deadlines. Pure C without maps, kfuncs or
 * globals; BPF includes it, and the host tests compile it and compare it with an exact oracle.
 *
 * Symbols, as in Stoica and Abdel-Wahab's paper and in fair.c:
 *
 *	w_i	weight, 1024 for nice 0
 *	v_i	vruntime: service received, in ns * 1024 / w_i
 *	V	avg_vruntime: the weighted mean of all v_i that compete, the running task's included
 *	lag_i	V - v_i: what a task is owed (> 0) or owes (< 0), as virtual time
 *	d_i	deadline: v_i at the start of the request + slice * 1024 / w_i
 *
 * All virtual times wrap; only differences mean anything, so they are compared by the sign of the
 * difference (eevdf_before()).
 *
 * A CPU keeps V as a sum relative to v0 = zero_vruntime, so that nothing grows with uptime:
 *
 *	S = sum_w_vruntime = \Sum w_i * (v_i - v0)
 *	W = sum_weight     = \Sum w_i
 *	V = v0 + S / W
 *
 * Charging task i with t ns adds t * 1024 / w_i to v_i and hence t * 1024 to S: its weight cancels, so
 * V of this moment is known without knowing who runs: V = v0 + (S + 1024 * t) / W.
 *
 * Bounds. w <= 88761 < 2^17; requests <= 100 ms, ticks <= 10 ms, so a lag is clamped to
 * 110 ms * 1024 / w and w * |lag| < 2^37. S = W * (V - v0), and every join and pick moves v0 to V, so S
 * stays below W times what V moved since, plus one task's w * |v_i - v0| < 2^54. BPF has neither
 * 128-bit products nor a signed division before -mcpu=v4; nothing here needs them.
 */
#ifndef __EEVDFX_EEVDF_H
#define __EEVDFX_EEVDF_H

#define EEVDF_NICE_0_WEIGHT 1024
#define EEVDF_IDLE_WEIGHT 3 /* WEIGHT_IDLEPRIO */
#define EEVDF_NR_NICE 40

/* The quantum that bounds a run when run_to_parity is off: fair.c's normalized_sysctl_sched_base_slice. */
#define EEVDF_QUANTUM_NS 700000ULL

/* Longest stretch charged at once, 18 min; 1024 times it stays below 2^51. */
#define EEVDF_MAX_DELTA_NS (1ULL << 40)

/* One CPU's sums over its runnable tasks, the running one included at the vruntime last charged. */
struct eevdf_rq {
	s64 sum_w_vruntime; /* S */
	u64 sum_weight; /* W */
	u64 zero_vruntime; /* v0 */
};

struct eevdf_se {
	u64 vruntime;
	u64 deadline;
	s64 vlag; /* while not runnable: the lag it left with */
	u64 slice_ns; /* length of the current request */
	u32 weight;
	u32 rem; /* < weight: service * 1024 not yet in vruntime, so that rounding never adds up */
};

/*
 * sched_prio_to_weight[]: every nice level is 1.25 times the next. The kernel's rounded values, since
 * shares are promised by them.
 */
static const u32 eevdf_nice_weight[EEVDF_NR_NICE] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548,  7620,  6100,  4904,  3906,  3121,  2501,	 1991,	1586,  1277,
	1024,  820,   655,   526,   423,   335,	  272,	 215,	172,   137,
	110,   87,    70,    56,    45,	   36,	  29,	 23,	18,    15,
};

/* @nice outside -20 .. 19 takes the nearest end. */
static inline u32 eevdf_weight_of_nice(s32 nice)
{
	s32 i = nice + 20;

	if (i < 0)
		i = 0;
	if (i >= EEVDF_NR_NICE)
		i = EEVDF_NR_NICE - 1;
	return eevdf_nice_weight[i];
}

/* a < b on a clock that wraps; the two are less than 2^63 apart. */
static inline bool eevdf_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* floor(num / den), den > 0, num > S64_MIN. Rounds V down, so that a task exactly at V is eligible. */
static inline s64 eevdf_div_floor(s64 num, u64 den)
{
	if (num >= 0)
		return (s64)((u64)num / den);
	return -(s64)(((u64)-num + den - 1) / den);
}

/* Round toward zero, as the kernel's divisions of a lag do: never invents credit nor debt. */
static inline s64 eevdf_div_trunc(s64 num, u64 den)
{
	if (num >= 0)
		return (s64)((u64)num / den);
	return -(s64)((u64)-num / den);
}

static inline s64 eevdf_clamp(s64 x, s64 limit)
{
	if (x > limit)
		return limit;
	if (x < -limit)
		return -limit;
	return x;
}

/* fair.c calc_delta_fair(): real time as this weight's virtual time, rounded down, at least 1. */
static inline u64 eevdf_vtime(u64 ns, u32 weight)
{
	u64 v = ns * EEVDF_NICE_0_WEIGHT / weight;

	return v ? v : 1;
}

/*
 * The inverse, rounded up: after that many ns vruntime has gained at least @vtime. At least 1, since a
 * slice of 0 would ask the core for its own default. @vtime < 2^46.
 */
static inline u64 eevdf_wall(u64 vtime, u32 weight)
{
	u64 ns = (vtime * weight + EEVDF_NICE_0_WEIGHT - 1) / EEVDF_NICE_0_WEIGHT;

	return ns ? ns : 1;
}

/*
 * V, with @ran_ns of service that the running task received and S does not hold yet. The mean of
 * nobody is v0. Left bias: V is rounded down, and some v_i <= V always exists, since the smallest
 * integer is not above the floor of a mean.
 */
static inline u64 eevdf_avg_vruntime(const struct eevdf_rq *rq, u64 ran_ns)
{
	s64 sum = rq->sum_w_vruntime;

	if (!rq->sum_weight)
		return rq->zero_vruntime;
	if (ran_ns > EEVDF_MAX_DELTA_NS)
		ran_ns = EEVDF_MAX_DELTA_NS;
	sum += (s64)(ran_ns * EEVDF_NICE_0_WEIGHT);
	return rq->zero_vruntime + (u64)eevdf_div_floor(sum, rq->sum_weight);
}

/*
 * fair.c entity_eligible() decides S >= (v - v0) * W. v is an integer, so v - v0 <= floor(S / W) is the
 * same statement, and V is at hand wherever this is asked.
 */
static inline bool eevdf_eligible(u64 vruntime, u64 avg_vruntime)
{
	return !eevdf_before(avg_vruntime, vruntime);
}

/* fair.c update_zero_vruntime(): express S relative to V instead of v0; V itself does not change. */
static inline void eevdf_move_zero(struct eevdf_rq *rq, u64 avg_vruntime)
{
	u64 delta = avg_vruntime - rq->zero_vruntime;

	rq->sum_w_vruntime -= (s64)(rq->sum_weight * delta);
	rq->zero_vruntime = avg_vruntime;
}

static inline void eevdf_add(struct eevdf_rq *rq, const struct eevdf_se *se)
{
	rq->sum_w_vruntime += (s64)(se->weight * (se->vruntime - rq->zero_vruntime));
	rq->sum_weight += se->weight;
}

/* Exact, so that S is 0 again when the last task has left. */
static inline void eevdf_sub(struct eevdf_rq *rq, const struct eevdf_se *se)
{
	rq->sum_w_vruntime -= (s64)(se->weight * (se->vruntime - rq->zero_vruntime));
	rq->sum_weight -= se->weight;
}

/*
 * fair.c update_curr(): give a competing task @ns of service. The division's remainder is carried, so
 * vruntime is floor(total service * 1024 / weight) and not a sum of roundings: at nice -20 a rounding
 * is worth 87 ns of service.
 */
static inline void eevdf_charge(struct eevdf_rq *rq, struct eevdf_se *se, u64 ns)
{
	u64 scaled, dv;

	if (ns > EEVDF_MAX_DELTA_NS)
		ns = EEVDF_MAX_DELTA_NS;
	if (se->weight == EEVDF_NICE_0_WEIGHT) {
		dv = ns;
	} else {
		scaled = ns * EEVDF_NICE_0_WEIGHT + se->rem;
		dv = scaled / se->weight;
		se->rem = (u32)(scaled - dv * se->weight);
	}
	se->vruntime += dv;
	rq->sum_w_vruntime += (s64)(dv * se->weight);
}

/*
 * fair.c entity_lag(), 7.0 and later: |lag| <= max_slice + tick, as virtual time. The paper bounds it by
 * one request; the tick is how late a request can end.
 */
static inline s64 eevdf_lag_limit(u64 max_slice_ns, u64 tick_ns, u32 weight)
{
	return (s64)eevdf_vtime(max_slice_ns + tick_ns, weight);
}

static inline s64 eevdf_lag(u64 avg_vruntime, u64 vruntime, s64 limit)
{
	return eevdf_clamp((s64)(avg_vruntime - vruntime), limit);
}

/*
 * The lag of a task that slept while it owed, with delay_dequeue: it kept its place, so the others'
 * progress pays (V - v rises), but the debt never turns into credit (fair.c, DELAY_ZERO) and is never
 * more than it was (V of the others may have moved back).
 */
static inline s64 eevdf_delayed_lag(s64 vlag, u64 avg_vruntime, u64 vruntime)
{
	s64 lag = (s64)(avg_vruntime - vruntime);

	if (lag < vlag)
		lag = vlag;
	return lag < 0 ? lag : 0;
}

/*
 * fair.c place_entity(): the vruntime at which a task joins so that its lag *after* joining is @vlag.
 * Adding weight w at V - l moves V to V - l * w / (W + w), so
 *
 *	vlag = V' - v = l * W / (W + w)   =>   l = vlag * (W + w) / W = vlag + vlag * w / W
 *
 * @sum_weight is W without the newcomer. Nobody there: V is wherever the newcomer is.
 */
static inline u64 eevdf_place(u64 avg_vruntime, s64 vlag, u32 weight, u64 sum_weight)
{
	s64 lag = vlag;

	if (!sum_weight)
		return avg_vruntime;
	lag += eevdf_div_trunc(vlag * (s64)weight, sum_weight);
	return avg_vruntime - (u64)lag;
}

/* fair.c reweight_entity(): the same service owed or left, at another weight. |x| * from < 2^62. */
static inline s64 eevdf_rescale(s64 x, u32 from, u32 to)
{
	return eevdf_div_trunc(x * (s64)from, to);
}

/* fair.c update_deadline(): a request that is used up is followed by the next one. */
static inline bool eevdf_renew(struct eevdf_se *se, u64 slice_ns)
{
	if (eevdf_before(se->vruntime, se->deadline))
		return false;
	se->slice_ns = slice_ns;
	se->deadline = se->vruntime + eevdf_vtime(slice_ns, se->weight);
	return true;
}

/* fair.c yield_task_fair(): as if the request had been used to its end. */
static inline void eevdf_forfeit(struct eevdf_rq *rq, struct eevdf_se *se)
{
	if (!eevdf_before(se->vruntime, se->deadline))
		return;
	rq->sum_w_vruntime += (s64)(se->weight * (se->deadline - se->vruntime));
	se->vruntime = se->deadline;
}

/*
 * fair.c set_protect_slice(), basic form: how many ns a task may run once picked. To the end of its
 * request with run_to_parity, else at most one quantum.
 */
static inline u64 eevdf_window_ns(const struct eevdf_se *se, bool run_to_parity)
{
	s64 left = (s64)(se->deadline - se->vruntime);
	u64 ns = left > 0 ? eevdf_wall((u64)left, se->weight) : 1;

	if (!run_to_parity && ns > EEVDF_QUANTUM_NS)
		ns = EEVDF_QUANTUM_NS;
	return ns;
}

/* Of the running task, at the moment of a wakeup; its vruntime holds the service up to now. */
struct eevdf_curr {
	u64 vruntime;
	u64 deadline;
	u64 vprot; /* vruntime up to which run_to_parity or the quantum protects it */
	bool idle; /* SCHED_IDLE */
};

/*
 * fair.c wakeup_preempt_fair() and pick_eevdf(), basic form: may the waking @se take the CPU?
 * @avg_vruntime holds both. @normal: the waking task is neither SCHED_BATCH nor SCHED_IDLE.
 */
static inline bool eevdf_wakeup_preempts(const struct eevdf_se *se, bool idle, bool normal,
					 const struct eevdf_curr *curr, u64 avg_vruntime)
{
	if (curr->idle && !idle)
		return true;
	if (!normal || curr->idle != idle)
		return false;
	if (!eevdf_eligible(se->vruntime, avg_vruntime))
		return false;
	if (!eevdf_eligible(curr->vruntime, avg_vruntime))
		return true;
	if (eevdf_before(curr->vruntime, curr->vprot))
		return false;
	return eevdf_before(se->deadline, curr->deadline);
}

#endif /* __EEVDFX_EEVDF_H */
