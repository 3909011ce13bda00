# SPDX-License-Identifier: GPL-2.0-only
# Debian's archive through a private apt configuration, so that the machine's own sources stay as they are.
# To be sourced. The mirror is the one this machine already uses; SCX_EEVDFX_ARCHIVE=URL names another.

cache_dir=${SCX_EEVDFX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/scx_eevdfx}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

archive_uri() {
	local uri=${SCX_EEVDFX_ARCHIVE:-}

	if [ -z "$uri" ] && command -v apt-get >/dev/null; then
		uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$' || true)
	fi
	if [ -z "$uri" ] || ! [ -r "$keyring" ]; then
		echo "no Debian archive: set SCX_EEVDFX_ARCHIVE to a mirror's URL and install debian-archive-keyring" >&2
		return 1
	fi
	echo "$uri"
}

# archive_open NAME SUITE...: sets apt_options for apt-get and apt-cache. The lists are fetched at most once a day, or
# whenever archive_refresh=1. All of it runs as the calling user, hence the sandbox user and the own cache.
archive_open() {
	local dir=$cache_dir/apt/$1 uri suite
	shift

	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	apt_options=(
		-o "Dir::State::Lists=$dir/lists" -o "Dir::Cache=$dir/cache"
		-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
		-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin
		-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
		-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
	)
	if [ "${archive_refresh:-0}" = 0 ] && [ -n "$(find "$dir/stamp" -mtime -1 2>/dev/null)" ]; then
		return
	fi
	uri=$(archive_uri)
	for suite; do
		echo "deb [arch=amd64 signed-by=$keyring] $uri $suite main"
	done >"$dir/sources.list"
	apt-get "${apt_options[@]}" -qq --error-on=any update
	touch "$dir/stamp"
}
