#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# kernel.sh MINOR: prints the folder that holds Debian's newest cloud kernel of that minor (6.18): vmlinux, config and
# release. It is downloaded once and unpacked, never installed; from then on no network is needed, and the cached release
# is kept when the archive moves on (remove the folder to renew it). Exit code 4: the archive has no such kernel.
set -euo pipefail
. "$(dirname "$0")/../../scripts/archive.sh"

minor=${1:?usage: kernel.sh MINOR}
target=$cache_dir/kernels/$minor

# Only real packages: the names alone also hold those that something merely refers to.
packages_of() {
	apt-cache "${apt_options[@]}" search --names-only "^linux-(image|binary|base)-$1-cloud-amd64\$" | cut -d' ' -f1
}

newest_release() {
	packages_of "${minor//./\\.}[.+][^-]*" | sed -n 's/^linux-image-//p' | grep -v '~rc' | sort -V | tail -1 || true
}

# One package holds it all up to 6.18; later the image is in linux-binary and the config in linux-base, and both moved
# from /boot to the modules' folder.
unpack_packages() {
	local release packages package

	release=${1%-cloud-amd64}
	mapfile -t packages < <(packages_of "${release//+/[+]}")
	(cd "$2" && apt-get "${apt_options[@]}" -qq download "${packages[@]}")
	for package in "$2"/*.deb; do
		dpkg -x "$package" "$2/root"
		rm "$package"
	done
}

take() {
	local file=$work/root/usr/lib/modules/$release/$1

	[ -e "$file" ] || file=$work/root/boot/$1-$release
	mv "$file" "$2"
}

# A kernel that unpacks itself costs 3 s of a boot without KVM. x86's boot protocol has the number of set-up sectors at 0x1f1,
# the payload's offset after them at 0x248 and its length at 0x24c; the last word of the payload is its size unpacked.
unpack_kernel() {
	local sectors offset length

	read -r sectors < <(od -An -tu1 -j0x1f1 -N1 "$1")
	read -r offset length < <(od -An -tu4 -j0x248 -N8 "$1")
	head -c "$(((sectors + 1) * 512 + offset + length - 4))" "$1" | tail -c "$((length - 4))" | zstd -qdc
}

mkdir -p "$cache_dir/kernels"
exec 9>"$cache_dir/kernels/.lock"
flock 9
if [ -e "$target/vmlinux" ]; then
	echo "$target"
	exit
fi

archive_open kernels trixie-backports sid
release=$(newest_release)
if [ -z "$release" ]; then
	echo "kernel.sh: the archive has no cloud kernel of $minor" >&2
	exit 4
fi
work=$(mktemp -d "$cache_dir/kernels/.$minor.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "kernel.sh: fetching $release" >&2
unpack_packages "$release" "$work"
mkdir "$work/kernel"
take config "$work/kernel/config"
take vmlinuz "$work/vmlinuz"
echo "$release" >"$work/kernel/release"
unpack_kernel "$work/vmlinuz" >"$work/kernel/vmlinux"
rm -rf "$target"
mv -T "$work/kernel" "$target"
echo "$target"
