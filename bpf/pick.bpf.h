/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which task runs next: fair.c pick_eevdf() on two of the kernel's own DSQs.
 *
 * Problem. The pick is the earliest deadline among the eligible. The kernel finds it in a tree ordered
 * by deadline and augmented with the least vruntime; a DSQ has one key and no augmentation.
 *
 * How it works. READY, by deadline, holds tasks that were eligible when last looked at; WAIT, by
 * vruntime, the others. The pick is exact if READY holds every eligible task and its head is eligible:
 *
 *	V moved forward	 some of WAIT became eligible; they are its head: promote while v <= V
 *	V moved backward some of READY no longer are: demote while the *head* is not, leave the rest
 *
 * So an insertion may choose either queue. A task is promoted about once per wait, and a demotion needs a
 * join with credit or a leave in debt, a few per thousand picks.
 *
 * Limits. Both loops are capped, since they run with interrupts off. What is left over is one dispatch
 * late: a task that should have been promoted, or, behind many heads in debt, an eligible one (then the
 * previous task goes on, or the one nearest to V runs).
 */
#ifndef __EEVDFX_PICK_BPF_H
#define __EEVDFX_PICK_BPF_H

#define PROMOTE_MAX 32
#define DEMOTE_MAX 8

/*
 * Nobody in the fair class waits longer than its share decides, and a share can be tiny: a SCHED_IDLE
 * hog beside 50 others runs 4 ms in 68 s. The watchdog ejects everyone after 30 s. So a task that has
 * waited for RESCUE_WAIT_SECS runs a request out of turn (charged as any other), one per RESCUE_GAP
 * and CPU. Those are found at the far ends of the queues, RESCUE_SCAN_MAX tasks deep.
 *
 * A task that was preempted inside an RCU read-side section is everybody's trouble sooner: the grace
 * period waits for it, and 6.18 and later eject at a stall of 21 s. (khugepaged, nice 19, copies 2 MiB
 * in one section.) It gets its request after RESCUE_READER_MS.
 */
#define RESCUE_WAIT_SECS 10
#define RESCUE_READER_MS 200
#define RESCUE_GAP_MS 20
#define RESCUE_IDLE_GAP_MS 1000
#define RESCUE_SCAN_MAX 256

static __always_inline u64 ms_to_jiffies(u64 ms)
{
	return ms * 1000000 / tick_ns;
}

/* Every insertion into WAIT passes here, so that a look into it can be saved. */
static __always_inline void wait_note(struct runq *rq, u64 vruntime)
{
	if (!rq->wait_any || eevdf_before(vruntime, rq->wait_head))
		rq->wait_head = vruntime;
	rq->wait_any = true;
}

/*
 * The loops below are global functions that take numbers: the verifier walks through each once, not anew
 * in every state that a caller may be in. Long scans count in rq->scanned, which it does not know the value
 * of, else it would walk through every round. (Without both dispatch cost it 413,000 instructions.)
 */
__noinline int promote_eligible(s32 cpu, u64 avg)
{
	struct runq *rq = runq_of(cpu);
	struct task_struct *p;
	bool any = false;
	u32 nr = 0;

	if (!rq)
		return 0;
	bpf_for_each(scx_dsq, p, dsq_wait(cpu), 0) {
		struct task_ctx *tctx;

		any = true;
		rq->wait_head = p->scx.dsq_vtime;
		if (!eevdf_eligible(p->scx.dsq_vtime, avg) || nr == PROMOTE_MAX)
			break;
		any = false;
		tctx = task_ctx_of(p);
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tctx ? tctx->se.deadline : avg);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_ready(cpu), 0);
		nr++;
	}
	rq->wait_any = any;
	if (nr)
		stat_add(STAT_PROMOTE, nr);
	return nr;
}

static __always_inline void promote(struct runq *rq, s32 cpu, u64 avg)
{
	if (rq->wait_any && !eevdf_before(avg, rq->wait_head))
		promote_eligible(cpu, avg);
}

/* The heads of READY that are no longer eligible, back to WAIT. */
__noinline int demote(s32 cpu, u64 avg)
{
	struct runq *rq = runq_of(cpu);
	struct task_struct *p;
	u32 nr = 0;

	if (!rq)
		return 0;
	bpf_for_each(scx_dsq, p, dsq_ready(cpu), 0) {
		struct task_ctx *tctx = task_ctx_of(p);

		if (!tctx || eevdf_eligible(tctx->se.vruntime, avg) || nr == DEMOTE_MAX)
			break;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tctx->se.vruntime);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, dsq_wait(cpu), 0);
		wait_note(rq, tctx->se.vruntime);
		nr++;
	}
	stat_add(STAT_DEMOTE, nr);
	return nr;
}

enum pick {
	PICK_NONE,
	PICK_PREV,
	PICK_OTHER,
};

/*
 * @prev: eligible and still runnable, or NULL. A tie in deadlines is lost for it, as in fair.c. Another CPU may
 * pull the head between the look and the move: then its successor runs, unchecked, once.
 */
static __always_inline enum pick pick_ready(struct runq *rq, s32 cpu, u64 avg,
					    const struct task_ctx *prev)
{
	struct task_struct *head = __COMPAT_scx_bpf_dsq_peek(dsq_ready(cpu));
	struct task_ctx *tctx = head ? task_ctx_of(head) : NULL;

	if (tctx && !eevdf_eligible(tctx->se.vruntime, avg)) {
		demote(cpu, avg);
		head = __COMPAT_scx_bpf_dsq_peek(dsq_ready(cpu));
		tctx = head ? task_ctx_of(head) : NULL;
		if (tctx && !eevdf_eligible(tctx->se.vruntime, avg))
			return PICK_NONE;
	}
	if (!head)
		return PICK_NONE;
	if (prev && eevdf_before(prev->se.deadline, head->scx.dsq_vtime))
		return PICK_PREV;
	return scx_bpf_dsq_move_to_local(dsq_ready(cpu), 0) ? PICK_OTHER : PICK_NONE;
}

/* Without CONFIG_PREEMPT_RCU nobody is preempted there. */
static __always_inline bool is_rcu_reader(const struct task_struct *p)
{
	return bpf_core_field_exists(p->rcu_read_lock_nesting) && p->rcu_read_lock_nesting > 0;
}

/* @p was preempted. */
static __always_inline void rescue_note(struct runq *rq, const struct task_struct *p)
{
	u64 at;

	if (!is_rcu_reader(p))
		return;
	at = bpf_jiffies64() + ms_to_jiffies(RESCUE_READER_MS);
	if (eevdf_before(at, rq->rescue_at))
		rq->rescue_at = at;
}

/* Returns when to look next, in ms: RESCUE_GAP_MS if somebody was found. */
static __always_inline u64 rescue_from(struct runq *rq, u64 dsq_id, u64 now_jiffies)
{
	u64 gap_ms = RESCUE_IDLE_GAP_MS;
	struct task_struct *p;

	rq->scanned = 0;
	bpf_for_each(scx_dsq, p, dsq_id, SCX_DSQ_ITER_REV) {
		u64 limit_ms = RESCUE_WAIT_SECS * 1000ULL;

		if (is_rcu_reader(p))
			gap_ms = limit_ms = RESCUE_READER_MS;
		/* runnable_at is what the watchdog looks at. */
		if (now_jiffies - p->scx.runnable_at > ms_to_jiffies(limit_ms) &&
		    scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0))
			return RESCUE_GAP_MS;
		if (++rq->scanned >= RESCUE_SCAN_MAX)
			break;
	}
	return gap_ms;
}

__noinline bool rescue_now(s32 cpu)
{
	u64 now = bpf_jiffies64(), gap_ms, ready_gap_ms;
	struct runq *rq = runq_of(cpu);

	if (!rq)
		return false;
	gap_ms = rescue_from(rq, dsq_wait(cpu), now);
	if (gap_ms != RESCUE_GAP_MS) {
		ready_gap_ms = rescue_from(rq, dsq_ready(cpu), now);
		if (ready_gap_ms < gap_ms)
			gap_ms = ready_gap_ms;
	}
	rq->rescue_at = now + ms_to_jiffies(gap_ms);
	if (gap_ms != RESCUE_GAP_MS)
		return false;
	stat_inc(STAT_RESCUE);
	return true;
}

static __always_inline bool rescue(struct runq *rq, s32 cpu)
{
	return !eevdf_before(bpf_jiffies64(), rq->rescue_at) && rescue_now(cpu);
}

/*
 * fair.c PICK_BUDDY: rq->next before anyone else, if it is eligible. Promoted tasks are in READY, which is
 * not made for finding one: BUDDY_SCAN_MAX tasks deep. Not found at all: it has left, or waits in WAIT.
 */
#define BUDDY_SCAN_MAX 256

__noinline bool pick_next(s32 cpu, u64 avg)
{
	struct runq *rq = runq_of(cpu);
	struct task_struct *p;

	if (!rq)
		return false;
	rq->scanned = 0;
	bpf_for_each(scx_dsq, p, dsq_ready(cpu), 0) {
		struct task_ctx *tctx;

		if ((u64)p != rq->next) {
			if (++rq->scanned >= BUDDY_SCAN_MAX)
				break;
			continue;
		}
		tctx = task_ctx_of(p);
		if (!tctx || !eevdf_eligible(tctx->se.vruntime, avg))
			return false;
		rq->next = 0;
		return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
	}
	if (!rq->wait_any)
		rq->next = 0;
	return false;
}

static __always_inline bool pick_buddy(const struct runq *rq, s32 cpu, u64 avg)
{
	return rq->next && knobs.pick_buddy && pick_next(cpu, avg);
}

/* @p has the CPU from now on, protected up to @vprot. */
static __always_inline void start_window(struct runq *rq, struct task_struct *p,
					 struct task_ctx *tctx, s32 cpu, u64 vprot)
{
	runq_set_curr(rq, p, tctx, vprot, scx_bpf_now());
	if (rq->nr > 1)
		hrtick_arm(rq, cpu);
}

/*
 * @p runs on: put_prev/set_next and their callbacks do not happen then. As in fair.c that is no new
 * protection: set_protect_slice() is for a task that comes.
 */
static __always_inline void keep(struct runq *rq, struct task_struct *p, struct task_ctx *tctx,
				 s32 cpu)
{
	scx_bpf_task_set_slice(p, CORE_SLICE_NS);
	start_window(rq, p, tctx, cpu, rq->curr_vprot);
	stat_inc(STAT_PICK_KEEP);
}

/* The running task's request has ended, or its protection, or the core asks; and it wants to go on. */
static __always_inline void pick_with_prev(struct runq *rq, s32 cpu, struct task_struct *prev,
					   struct task_ctx *tctx)
{
	u64 avg = runq_charge(rq, prev, tctx);

	if (rq->pull_from && balance_pull(cpu))
		return;
	if (rq->nr == 1) {
		keep(rq, prev, tctx, cpu);
		return;
	}
	if (rescue(rq, cpu))
		return;
	promote(rq, cpu, avg);
	if (pick_buddy(rq, cpu, avg)) {
		stat_inc(STAT_PICK_READY);
		return;
	}
	if ((tctx->eligible && eevdf_before(tctx->se.vruntime, rq->curr_vprot)) ||
	    pick_ready(rq, cpu, avg, tctx->eligible ? tctx : NULL) != PICK_OTHER)
		keep(rq, prev, tctx, cpu);
	else
		stat_inc(STAT_PICK_READY);
}

/* The only candidate: alone it is at V, wherever it was queued. */
static __always_inline bool pick_only(struct runq *rq, s32 cpu)
{
	if (rq->wait_any && scx_bpf_dsq_move_to_local(dsq_wait(cpu), 0)) {
		rq->wait_any = false;
		return true;
	}
	return scx_bpf_dsq_move_to_local(dsq_ready(cpu), 0);
}

/* The CPU is free: its last task sleeps, or belongs to another class. */
static __always_inline bool pick_without_prev(struct runq *rq, s32 cpu)
{
	u64 avg;

	if (!rq->nr)
		return false;
	if (rq->pull_from && balance_pull(cpu))
		return true;
	if (rq->nr > 1) {
		if (rescue(rq, cpu))
			return true;
		avg = runq_refresh(rq);
		promote(rq, cpu, avg);
		if (pick_buddy(rq, cpu, avg) || pick_ready(rq, cpu, avg, NULL) == PICK_OTHER) {
			stat_inc(STAT_PICK_READY);
			return true;
		}
	} else if (pick_only(rq, cpu)) {
		stat_inc(STAT_PICK_READY);
		return true;
	}
	if (scx_bpf_dsq_move_to_local(dsq_wait(cpu), 0) ||
	    scx_bpf_dsq_move_to_local(dsq_ready(cpu), 0)) {
		stat_inc(STAT_PICK_FALLBACK);
		return true;
	}
	return false;
}

#endif /* __EEVDFX_PICK_BPF_H */
