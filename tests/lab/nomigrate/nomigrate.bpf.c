/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BPF programs on busy functions of the kernel that take their time. The kernel disables migration for
 * as long as one runs and may preempt it: the task is then queued, and run again, with migration
 * disabled. What tracing tools do to a system for moments, often.
 *
 * Limit. Of each program only one instance at a time runs on a CPU, so few such tasks are queued at once.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* Work, not time: a virtual CPU that is itself not run would see a time pass without being preempted. */
const volatile u32 nr_loops = 1;
const volatile u32 one_in = 1;

/*
 * How often a program lingered; how often its task was switched out meanwhile; and then came back to a
 * CPU that its affinity, changed while it was away, no longer allowed.
 */
u64 nr_lingered;
u64 nr_switched_out;
u64 nr_outside_mask;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} lingering SEC(".maps");

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

static __always_inline int linger(void)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u32 *inside;
	int i;

	if (bpf_get_prandom_u32() % one_in)
		return 0;
	inside = bpf_task_storage_get(&lingering, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!inside)
		return 0;
	__sync_fetch_and_add(&nr_lingered, 1);
	*inside = 1;
	bpf_for(i, 0, nr_loops)
		barrier_var(i);
	*inside = 0;
	return 0;
}

SEC("fentry/vfs_read")
int BPF_PROG(linger_read)
{
	return linger();
}

SEC("fentry/vfs_write")
int BPF_PROG(linger_write)
{
	return linger();
}

SEC("fentry/__x64_sys_clock_gettime")
int BPF_PROG(linger_clock)
{
	return linger();
}

static __always_inline bool is_lingering(struct task_struct *p)
{
	u32 *inside = bpf_task_storage_get(&lingering, p, NULL, 0);

	return inside && *inside;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(count_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (is_lingering(prev))
		__sync_fetch_and_add(&nr_switched_out, 1);
	if (is_lingering(next) &&
	    !bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), &next->cpus_mask))
		__sync_fetch_and_add(&nr_outside_mask, 1);
	return 0;
}
