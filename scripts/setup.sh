#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Installs what building and testing need, on Debian 12 or later; silent and quick when all of it is there.
# Only the machine's own package sources are used, but for QEMU where they have none >= 8.1: with an older one virtual
# time (-icount) lets one CPU take the whole budget.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/archive.sh

qemu_is_new() {
	local version

	version=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9.]*\).*/\1/p')
	[ -n "$version" ] && printf '8.1\n%s\n' "$version" | sort -CV
}

# What a package is for decides how its presence is seen: a command, or a file when it has none.
missing_packages() {
	local package probe

	while read -r package probe; do
		command -v "$probe" >/dev/null || compgen -G "$probe" >/dev/null || echo "$package"
	done <<-'EOT'
		make make
		gcc gcc
		pkg-config pkg-config
		clang-19 clang-19
		libclang1-19 /usr/lib/llvm-19/lib/libclang-19.so*
		clang-format-19 clang-format-19
		libelf-dev /usr/include/libelf.h
		zlib1g-dev /usr/include/zlib.h
		busybox-static busybox
		cpio cpio
		rt-tests hackbench
		stress-ng stress-ng
		zstd zstd
	EOT
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

install_qemu() {
	local codename candidate options

	candidate=$(LC_ALL=C apt-cache policy qemu-system-x86 | sed -n 's/ *Candidate: \([0-9]*:\)\?//p')
	if printf '8.1\n%s\n' "$candidate" | sort -CV; then
		install install -y -q --no-install-recommends qemu-system-x86
		return
	fi
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	archive_open qemu "$codename" "$codename-backports"
	# The package cache of this step would belong to root, so it lives elsewhere and goes.
	options=("${apt_options[@]}" -o "Dir::Cache=$(mktemp -d)")
	mkdir -p "${options[-1]#*=}/archives/partial"
	install "${options[@]}" install -y -q --no-install-recommends -t "$codename-backports" qemu-system-x86
	as_root rm -rf "${options[-1]#*=}"
}

mapfile -t missing < <(missing_packages)
if ! command -v cargo >/dev/null; then
	echo "setup: no cargo: install Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or later (rustup does), then run this again" >&2
	exit 1
fi
if [ ${#missing[@]} = 0 ] && qemu_is_new; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "setup: no apt here: install by hand qemu-system-x86_64 >= 8.1 and what gives: ${missing[*]}" >&2
	exit 1
fi

install update -q || echo "setup: some package lists could not be refreshed; going on with what there is" >&2
if [ ${#missing[@]} != 0 ]; then
	install install -y -q --no-install-recommends "${missing[@]}"
fi
qemu_is_new || install_qemu
hash -r
qemu_is_new || {
	echo "setup: qemu-system-x86_64 is $(qemu-system-x86_64 --version | head -1), need >= 8.1" >&2
	exit 1
}
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} = 0 ] || {
	echo "setup: still missing after installation: ${missing[*]}" >&2
	exit 1
}
