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
 * The lag of @se, which slept while it owed, with delay_dequeue. In fair.c it stays queued, so the others'
 * progress pays. Here it has left, and @avg_vruntime = V and @sum_weight = W are those of the others; with
 * it, the mean would be V' = V - (V - v) * w / (W + w), and
 *
 *	V' - v = (V - v) * W / (W + w)
 *
 * The debt is never more than it was (V of the others may have moved back), and turns into at most @credit:
 * 0 with DELAY_ZERO, else what it could have gained before a pick would have taken it out, one request
 * (fair.c update_entity_lag()). V - v is cut at 2^44 to keep the product below 2^61.
 */
static inline s64 eevdf_delayed_lag(const struct eevdf_se *se, u64 avg_vruntime, u64 sum_weight,
				    s64 credit)
{
	s64 lag = eevdf_clamp((s64)(avg_vruntime - se->vruntime), 1LL << 44);

	lag -= eevdf_div_trunc(lag * (s64)se->weight, sum_weight + se->weight);
	if (lag < se->vlag)
		lag = se->vlag;
	return lag < credit ? lag : credit;
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
 * fair.c reweight_eevdf(): a competing task gets another weight. Its lag, clamped to @limit, and what is
 * left of its request keep their worth in service, so V stays where it is but for rounding (below
 * (W + W') / W') and for what is clamped.
 */
static inline void eevdf_reweigh(struct eevdf_rq *rq, struct eevdf_se *se, u32 weight,
				 u64 avg_vruntime, s64 limit)
{
	s64 vlag = eevdf_lag(avg_vruntime, se->vruntime, limit);
	s64 left = eevdf_clamp((s64)(se->deadline - avg_vruntime), 2 * limit);

	eevdf_sub(rq, se);
	se->vruntime = avg_vruntime - (u64)eevdf_rescale(vlag, se->weight, weight);
	se->deadline = avg_vruntime + (u64)eevdf_rescale(left, se->weight, weight);
	se->weight = weight;
	se->rem = 0;
	eevdf_add(rq, se);
}

/*
 * Everybody in a crowd of @nr waits for everybody else's request. Requests are cut so that a round of
 * equals takes EEVDF_ROUND_NS at most: the watchdog of sched_ext ejects after 30 s. Not in fair.c, which
 * has no watchdog.
 */
#define EEVDF_ROUND_NS 8000000000ULL

static inline u64 eevdf_crowd_slice(u64 slice_ns, u32 nr)
{
	if (slice_ns * nr <= EEVDF_ROUND_NS)
		return slice_ns;
	return EEVDF_ROUND_NS / nr;
}

/*
 * fair.c ineligible_vruntime(): where @se, which competes, stops being eligible while it runs: past the
 * mean of the others. Nobody else: never; its deadline stands for that.
 */
static inline u64 eevdf_ineligible_at(const struct eevdf_rq *rq, const struct eevdf_se *se)
{
	u64 weight = rq->sum_weight - se->weight;
	s64 sum = rq->sum_w_vruntime - (s64)(se->weight * (se->vruntime - rq->zero_vruntime));

	if (!weight)
		return se->deadline;
	return rq->zero_vruntime + (u64)eevdf_div_floor(sum, weight) + 1;
}

static inline u64 eevdf_earlier(u64 a, u64 b)
{
	return eevdf_before(a, b) ? a : b;
}

/*
 * fair.c set_protect_slice(): the vruntime up to which a task that was just picked is protected from
 * others. To the end of its request, unless a shorter one waits (run_to_parity), or its own is longer
 * than the quantum (without run_to_parity). Then: to where it becomes ineligible (preempt_short), or for
 * the length of the shortest request, or of the quantum.
 */
static inline u64 eevdf_protect(const struct eevdf_se *se, u64 min_slice_ns, u64 ineligible_at,
				bool run_to_parity, bool preempt_short)
{
	u64 slice_ns = run_to_parity ? min_slice_ns : EEVDF_QUANTUM_NS;

	if (slice_ns >= se->slice_ns)
		return se->deadline;
	if (preempt_short)
		return eevdf_earlier(se->deadline, ineligible_at);
	return eevdf_earlier(se->deadline, se->vruntime + eevdf_vtime(slice_ns, se->weight));
}

/* fair.c update_protect_slice(): a wakeup that did not preempt leaves the running task less. */
static inline u64 eevdf_shrink(u64 vprot, u64 vruntime, u32 weight, u64 avg_vruntime,
			       u64 min_slice_ns)
{
	return eevdf_earlier(vprot, eevdf_earlier(vruntime, avg_vruntime) +
					    eevdf_vtime(min_slice_ns, weight));
}

/*
 * fair.c hrtick_start_fair(): how many ns a task may run until its request ends. (The end of its
 * protection is seen at ticks and wakeups.)
 */
static inline u64 eevdf_window_ns(u64 vruntime, u64 deadline, u32 weight)
{
	s64 left = (s64)(deadline - vruntime);

	return left > 0 ? eevdf_wall((u64)left, weight) : 1;
}

/* Of the running task, at the moment of a wakeup; its vruntime holds the service up to now. */
struct eevdf_curr {
	u64 vruntime;
	u64 deadline;
	u64 vprot; /* protected while vruntime is before it */
	u64 slice_ns;
	bool idle; /* SCHED_IDLE */
};

/* fair.c pick_eevdf() between the running task and one that waits, which wins a tie. */
static inline bool eevdf_beats(u64 vruntime, u64 deadline, const struct eevdf_curr *curr,
			       u64 avg_vruntime)
{
	if (!eevdf_eligible(vruntime, avg_vruntime))
		return false;
	if (!eevdf_eligible(curr->vruntime, avg_vruntime))
		return true;
	return !eevdf_before(curr->vruntime, curr->vprot) &&
	       !eevdf_before(curr->deadline, deadline);
}

/* What is to be known of the waking task besides its eevdf_se. */
struct eevdf_wakee {
	bool idle; /* SCHED_IDLE */
	bool normal; /* neither SCHED_IDLE nor SCHED_BATCH */
	bool forked; /* its first wakeup */
	bool buddy; /* NEXT_BUDDY made it the one to be picked next */
};

/* The switches that eevdf_wakeup() depends on. */
struct eevdf_rules {
	bool preempt_short;
	bool pick_buddy;
};

enum eevdf_wakeup {
	EEVDF_WAKEUP_WAITS, /* the running task goes on, its protection shrinks */
	EEVDF_WAKEUP_BEST, /* runs now unless an eligible task has an earlier deadline */
	EEVDF_WAKEUP_RUNS, /* runs now */
	EEVDF_WAKEUP_PICK, /* the running task's protection is void: pick anew */
};

/*
 * fair.c wakeup_preempt_fair() with pick_eevdf(): what a wakeup does to the running task.
 * @avg_vruntime holds both.
 */
static inline enum eevdf_wakeup eevdf_wakeup(const struct eevdf_se *se,
					     const struct eevdf_wakee *wakee,
					     const struct eevdf_curr *curr, u64 avg_vruntime,
					     const struct eevdf_rules *rules)
{
	bool eligible = eevdf_eligible(se->vruntime, avg_vruntime);

	if (curr->idle && !wakee->idle)
		return EEVDF_WAKEUP_PICK;
	if (!wakee->normal || curr->idle != wakee->idle)
		return EEVDF_WAKEUP_WAITS;
	if (rules->preempt_short && se->slice_ns < curr->slice_ns) {
		if (!eligible)
			return EEVDF_WAKEUP_WAITS;
		return rules->pick_buddy ? EEVDF_WAKEUP_RUNS : EEVDF_WAKEUP_PICK;
	}
	if (wakee->forked)
		return EEVDF_WAKEUP_WAITS;
	if (eligible && wakee->buddy && rules->pick_buddy)
		return EEVDF_WAKEUP_RUNS;
	return eevdf_beats(se->vruntime, se->deadline, curr, avg_vruntime) ? EEVDF_WAKEUP_BEST
									   : EEVDF_WAKEUP_WAITS;
}

/*
 * Balance of CPUs, see bpf/gvt.bpf.h. A mean of points in virtual time that come one by one and all move
 * forward: an eighth of the way to each.
 */
static inline u64 eevdf_follow(u64 mean, u64 point)
{
	return mean + (u64)((s64)(point - mean) / 8);
}

/* @point, or what is nearest to it within @limit of @mean. */
static inline u64 eevdf_near(u64 mean, u64 point, s64 limit)
{
	return mean + (u64)eevdf_clamp((s64)(point - mean), limit);
}

/*
 * May a task of @weight move from a CPU with @src runnable weight to one with @dst, which is ahead? A task
 * that makes up most of the load of its CPU would only take the imbalance along, unless the destination
 * has room for it. Any other may turn it around: the balance is then one over time.
 */
static inline bool eevdf_pull_helps(u64 dst, u64 src, u32 weight)
{
	return dst < src && (2 * (u64)weight <= src || dst + weight <= src);
}

#endif /* __EEVDFX_EEVDF_H */
