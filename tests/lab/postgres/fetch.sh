#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# fetch.sh: prints the path of an archive with PostgreSQL and all that it needs, a small root file system for chroot. Debian
# 12's packages are downloaded once and unpacked into the cache, never installed; serve.sh uses it in a guest.
set -euo pipefail
. "$(dirname "$0")/../../../scripts/archive.sh"

target=$cache_dir/postgres/root.tar
packages=(
	postgresql-15 postgresql-client-15 busybox-static tzdata libc6 libgcc-s1 libstdc++6 libpq5 libldap-2.5-0 libsasl2-2
	libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libssl3 libicu72 libxml2 liblzma5
	liblz4-1 libzstd1 zlib1g libsystemd0 libcap2 libgcrypt20 libgpg-error0 libpam0g libaudit1 libcap-ng0 libselinux1
	libpcre2-8-0 libgnutls30 libp11-kit0 libidn2-0 libunistring2 libtasn1-6 libnettle8 libhogweed6 libgmp10 libffi8
	libreadline8 libtinfo6 libuuid1
)

mkdir -p "$cache_dir/postgres"
exec 9>"$cache_dir/postgres/.lock"
flock 9
if [ -e "$target" ]; then
	echo "$target"
	exit
fi

archive_open postgres bookworm
# What this machine has installed does not count.
apt_options+=(-o Dir::State::status=/dev/null)
work=$(mktemp -d "$cache_dir/postgres/.work.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "fetch.sh: fetching PostgreSQL" >&2
(cd "$work" && apt-get "${apt_options[@]}" -qq download "${packages[@]}")
root=$work/root
# With /lib and /bin as in a merged system, whatever a package says.
mkdir -p "$root"/usr/{bin,lib,lib64,sbin} "$root"/{proc,dev,tmp,etc}
for name in bin lib lib64 sbin; do
	ln -s "usr/$name" "$root/$name"
done
for package in "$work"/*.deb; do
	dpkg --fsys-tarfile "$package" | tar -C "$root" -x --keep-directory-symlink
done
# Compiled queries are off below, and nobody reads here.
rm -rf "$root"/usr/share/{doc,man,locale,lintian,postgresql-common} "$root"/usr/lib/postgresql/15/lib/{bitcode,llvmjit*} \
	"$root/var" "$root"/usr/share/postgresql/15/{man,extension/*--*--*}
ln -s busybox "$root/usr/bin/sh"
echo 'root:x:0:0::/:/bin/sh
postgres:x:100:100::/tmp:/bin/sh' >"$root/etc/passwd"
echo 'root:x:0:
postgres:x:100:' >"$root/etc/group"
tar -C "$root" -cf "$target.new" .
mv "$target.new" "$target"
echo "$target"
