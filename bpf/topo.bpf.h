/* SPDX-License-Identifier: GPL-2.0-only */
/* Looks into the tables of intf.h. All indices are masked, which the verifier takes for a bound. */
#ifndef __EEVDFX_TOPO_BPF_H
#define __EEVDFX_TOPO_BPF_H

static __always_inline const volatile struct cpu_topo *topo_of(s32 cpu)
{
	return &cpu_topo[cpu & (EEVDFX_MAX_CPUS - 1)];
}

static __always_inline const volatile struct node_topo *node_at(u32 node)
{
	return &node_topo[node & (EEVDFX_MAX_NODES - 1)];
}

static __always_inline const volatile struct node_topo *node_of(s32 cpu)
{
	return node_at(topo_of(cpu)->node);
}

/* The @i-th nearest of the other nodes, from 0. */
static __always_inline u32 other_node(const volatile struct node_topo *n, u32 i)
{
	return n->order[i & (EEVDFX_MAX_NODES - 1)] & (EEVDFX_MAX_NODES - 1);
}

/* @x is for a distance of 20, which is what one hop has by default; in proportion for @node. */
static __always_inline u64 by_distance(const volatile struct node_topo *n, u32 node, u64 x)
{
	u64 hops = n->dist[node & (EEVDFX_MAX_NODES - 1)] - 10;

	return x * hops / 10;
}

static __always_inline s32 cpu_at(u32 pos)
{
	return cpu_order[pos & (EEVDFX_MAX_CPUS - 1)];
}

static __always_inline const volatile struct chunk_topo *chunk_at(u32 chunk)
{
	return &chunk_topo[chunk & (EEVDFX_MAX_CPUS - 1)];
}

/* Positions of a node's CPUs: [node_first, node_end). */
static __always_inline u32 node_first(u32 node)
{
	return chunk_at(node_at(node)->chunk_first)->first;
}

static __always_inline u32 node_end(u32 node)
{
	return chunk_at(node_at(node)->chunk_end - 1)->end;
}

static __always_inline bool in_llc(const volatile struct cpu_topo *t, u32 chunk)
{
	return chunk >= t->llc_first && chunk < t->llc_end;
}

static __always_inline bool same_llc(s32 a, s32 b)
{
	return topo_of(a)->llc_first == topo_of(b)->llc_first;
}

#endif /* __EEVDFX_TOPO_BPF_H */
