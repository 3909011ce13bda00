#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# peers.sh NAME...: builds sched_ext schedulers that ours is measured beside from their published crates, once and into
# the cache, and prints their paths, one a line. All four take some 20 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/archive.sh

declare -A versions=([scx_bpfland]=1.1.4 [scx_cosmos]=1.1.7 [scx_flash]=1.1.4 [scx_rusty]=1.1.4)
dir=$cache_dir/peers

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
# cargo install does not read this project's cargo configuration. The peers share most of what they depend on.
export BPF_CLANG=${BPF_CLANG:-clang-19} CARGO_TARGET_DIR=$dir/build
for name; do
	version=${versions[$name]:-}
	if [ -z "$version" ]; then
		echo "peers.sh: $name is none of ${!versions[*]}" >&2
		exit 2
	fi
	root=$dir/$name-$version
	if ! [ -x "$root/bin/$name" ]; then
		echo "peers.sh: building $name $version" >&2
		cargo install --quiet --locked --root "$root" --version "$version" "$name" >&2
	fi
	echo "$root/bin/$name"
done
rm -rf "$CARGO_TARGET_DIR"
