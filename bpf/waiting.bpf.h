/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who has tasks to give: a bit per CPU in a word per chunk (up to 64 CPUs of one LLC), a bit per chunk in
 * a word per block (up to 64 chunks of one node), a bit per node in one word. A CPU about to idle reads
 * its LLC's word, its node's and the machine's, and not the queues of all CPUs.
 *
 * Lazy, so that a busy machine writes nothing: a bit is set when a task that may move is queued and the
 * bit is not set yet, and cleared by a thief that found nothing to take. Clearing races with a task that is
 * queued right then: the thief looks again afterwards. What slips through is found at that CPU's next
 * insertion, within a request.
 */
#ifndef __EEVDFX_WAITING_BPF_H
#define __EEVDFX_WAITING_BPF_H

static __always_inline struct chunk *chunk_of(u32 chunk)
{
	return &chunks[chunk & (EEVDFX_MAX_CPUS - 1)];
}

static __always_inline struct block *block_of(u32 block)
{
	return &blocks[block & (EEVDFX_MAX_BLOCKS - 1)];
}

/* Lockless: a wrong answer costs one look into empty queues, or a task found by the next one. */
static __always_inline bool has_waiting(s32 cpu)
{
	struct runq *rq = runq_of(cpu);

	return rq && rq->nr > (rq->curr_since ? 1 : 0);
}

/* A task that may run elsewhere waits on @cpu. */
static __always_inline void waiting_set(s32 cpu)
{
	const volatile struct cpu_topo *t = topo_of(cpu);
	const volatile struct node_topo *n;
	u64 bit = 1ULL << (t->bit & 63);
	struct chunk *c = chunk_of(t->chunk);
	struct block *b;

	if (c->waiting & bit)
		return;
	__sync_fetch_and_or(&c->waiting, bit);
	n = node_at(t->node);
	bit = 1ULL << ((t->chunk - n->chunk_first) & 63);
	b = block_of(n->block_first + ((t->chunk - n->chunk_first) >> 6));
	if (b->waiting & bit)
		return;
	__sync_fetch_and_or(&b->waiting, bit);
	bit = 1ULL << (t->node & 63);
	if (!(machine.waiting & bit))
		__sync_fetch_and_or(&machine.waiting, bit);
}

/* Nothing can be taken from @cpu now, of @chunk at @bit. */
static __always_inline void waiting_clear(u32 chunk, u64 bit, s32 cpu, bool look_again)
{
	struct chunk *c = chunk_of(chunk);

	__sync_fetch_and_and(&c->waiting, ~bit);
	if (look_again && has_waiting(cpu))
		__sync_fetch_and_or(&c->waiting, bit);
}

/* No CPU of @chunk, at @bit of @block, has anything. */
static __always_inline void waiting_clear_chunk(u32 block, u64 bit, u32 chunk)
{
	struct block *b = block_of(block);

	__sync_fetch_and_and(&b->waiting, ~bit);
	if (chunk_of(chunk)->waiting)
		__sync_fetch_and_or(&b->waiting, bit);
}

static __always_inline bool node_has_waiting(const volatile struct node_topo *n)
{
	u32 block;

	bpf_for(block, n->block_first, n->block_end) {
		if (block_of(block)->waiting)
			return true;
	}
	return false;
}

/* No chunk of @node has anything. */
static __always_inline void waiting_clear_node(u32 node, const volatile struct node_topo *n)
{
	u64 bit = 1ULL << (node & 63);

	__sync_fetch_and_and(&machine.waiting, ~bit);
	if (node_has_waiting(n))
		__sync_fetch_and_or(&machine.waiting, bit);
}

/* Number of the lowest bit of @bits, which is not 0. BPF has no instruction for it. */
static __always_inline u32 lowest_bit(u64 bits)
{
	u32 nr = 0;

	if (!(u32)bits) {
		nr += 32;
		bits >>= 32;
	}
	if (!(bits & 0xffff)) {
		nr += 16;
		bits >>= 16;
	}
	if (!(bits & 0xff)) {
		nr += 8;
		bits >>= 8;
	}
	if (!(bits & 0xf)) {
		nr += 4;
		bits >>= 4;
	}
	if (!(bits & 0x3)) {
		nr += 2;
		bits >>= 2;
	}
	return nr + !(bits & 1);
}

/* Its number, and it is cleared. */
static __always_inline u32 take_bit(u64 *bits)
{
	u32 bit = lowest_bit(*bits);

	*bits &= *bits - 1;
	return bit & 63;
}

/* So that bit @from comes first: thieves that start at their own place do not all meet at bit 0. */
static __always_inline u64 rotate(u64 bits, u32 from)
{
	from &= 63;
	return from ? bits >> from | bits << (64 - from) : bits;
}

#endif /* __EEVDFX_WAITING_BPF_H */
