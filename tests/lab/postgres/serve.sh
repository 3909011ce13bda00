#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# serve.sh: in a guest that has fetch.sh's archive as /postgres.tar, starts a server with its data in memory, fills it for
# pgbench (scale 10: 1,000,000 accounts), and puts a pgbench that talks to it on PATH.
set -e
bin=/usr/lib/postgresql/15/bin
mkdir /pg
mount -t tmpfs tmpfs /pg
tar -C /pg -xf /postgres.tar
rm /postgres.tar
mount -t proc proc /pg/proc
mount --bind /dev /pg/dev
chmod 1777 /pg/tmp
as_postgres() { chroot /pg /bin/busybox su postgres -c "$*"; }
as_postgres "$bin/initdb -D /tmp/data --no-sync --no-locale -E UTF8 -A trust" >/pg/tmp/initdb.log
# No disk, so nothing to wait for; no compiler.
as_postgres "$bin/pg_ctl -D /tmp/data -w -l /tmp/log -o '-k /tmp -h \"\" -c fsync=off -c jit=off -c autovacuum=off' start" >/dev/null
cat >/bin/pgbench <<-EOT
	#!/bin/sh
	exec chroot /pg $bin/pgbench -h /tmp -U postgres "\$@" postgres
EOT
chmod +x /bin/pgbench
pgbench -i -q -s "${1:-10}" >/dev/null 2>&1
