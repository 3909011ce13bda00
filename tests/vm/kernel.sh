#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# kernel.sh MINOR: prints the folder that holds Debian's newest cloud kernel of that minor (6.18): vmlinuz, config and
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

mkdir -p "$cache_dir/kernels"
exec 9>"$cache_dir/kernels/.lock"
flock 9
if [ -e "$target/release" ]; then
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
for file in vmlinuz config; do
	if ! mv "$work/root/usr/lib/modules/$release/$file" "$work/kernel/$file" 2>/dev/null; then
		mv "$work/root/boot/$file-$release" "$work/kernel/$file"
	fi
done
echo "$release" >"$work/kernel/release"
rm -rf "$target"
mv -T "$work/kernel" "$target"
echo "$target"
