/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPU a waking task is sent to, basic form: the kernel's own search for an idle CPU near the
 * previous one (its core, LLC, node, anywhere), else the previous CPU's queue.
 */
#ifndef __EEVDFX_IDLE_BPF_H
#define __EEVDFX_IDLE_BPF_H

static __always_inline s32 select_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = task_ctx_of(p);
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	stat_inc(is_idle ? STAT_IDLE_FOUND : STAT_IDLE_NONE);
	if (tctx) {
		tctx->searched = true;
		tctx->sync = (wake_flags & SCX_WAKE_SYNC) && cpu == (s32)bpf_get_smp_processor_id();
	}
	return cpu;
}

#endif /* __EEVDFX_IDLE_BPF_H */
