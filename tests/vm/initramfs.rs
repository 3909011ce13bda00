// SPDX-License-Identifier: GPL-2.0-only
//! The guest's root file system: busybox, the binaries asked for with their libraries, and an init that runs one job.
//!
//! The archive is newc without compression: unpacking costs the guest instructions, storing costs the host nothing.
//! Libraries are those ldd names, so what a program opens by dlopen (NSS, locales) is not there.
//! The guest's shell prefers its own applets to programs of the same name: those are called by their full path.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Starts every line of the init that is not the job's.
pub const MARK: &str = "@@scx_eevdfx-vm";

const DIR: u32 = 0o040755;
const FILE: u32 = 0o100644;
const PROGRAM: u32 = 0o100755;
const SYMLINK: u32 = 0o120777;

/// Job output takes a FIFO and a real-time cat to a virtio port: a serial line costs an interrupt every 16 bytes, the port
/// itself cannot be opened twice (`>/dev/stderr` in a job would fail), and a scheduler that stalls must not hold back
/// what the job said before. Who keeps the FIFO open after the job is killed.
const INIT: &str = r#"#!/bin/sh
export PATH=/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
ln -s /proc/self/fd /dev/fd
for n in 0:stdin 1:stdout 2:stderr; do ln -s fd/${n%:*} /dev/${n#*:}; done
for at in /tmp /run /dev/shm; do mount -t tmpfs tmpfs $at; done
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing
ip link set lo up
hostname vm
mkfifo /run/out
chrt -f 1 cat /run/out >/dev/vport0p1 &
exec 3>/run/out
sleep $SETTLE
echo "$MARK start" >&3
sh /job </dev/null >&3 2>&1 3>&-
code=$?
printf '\n%s exit %s\n' "$MARK" $code >&3
[ -z "$DMESG" ] || dmesg >&3
echo "$MARK end" >&3
exec 3>&-
sleep 1
poweroff -f
"#;

/// Commands that Debian's busybox lacks, from packages that every Debian has.
const NOT_IN_BUSYBOX: [&str; 2] = ["chrt", "nice"];

enum Node {
    Dir,
    File(u32, Vec<u8>),
    Symlink(String),
}

/// Files by guest path without the leading slash. The order of a BTreeMap puts a folder before what is in it.
pub struct Initramfs {
    nodes: BTreeMap<String, Node>,
}

impl Initramfs {
    /// Busybox, its applets and the folders that init mounts on.
    pub fn new() -> Result<Self> {
        let mut this = Self {
            nodes: BTreeMap::new(),
        };
        for dir in ["proc", "sys", "dev", "tmp", "run", "root", "usr", "etc"] {
            this.add(dir, Node::Dir);
        }
        for dir in ["sbin", "usr/bin", "usr/sbin"] {
            this.add(dir, Node::Symlink("/bin".to_owned()));
        }
        this.text("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
        this.text("etc/group", "root:x:0:\n");

        let busybox = find_program("busybox")?;
        let applets = stdout_of(Command::new(&busybox).arg("--list"))?;
        for applet in applets.lines() {
            this.add(
                &format!("bin/{applet}"),
                Node::Symlink("busybox".to_owned()),
            );
        }
        this.program(&busybox)?;
        for tool in NOT_IN_BUSYBOX {
            this.program(&find_program(tool)?)?;
        }
        Ok(this)
    }

    /// A text file.
    pub fn text(&mut self, guest: &str, text: &str) {
        self.add(guest, Node::File(FILE, text.as_bytes().to_vec()));
    }

    /// A copy of a file of the host; with a program come the libraries it needs, to where it looks for them.
    pub fn file(&mut self, host: &Path, guest: &str) -> Result<()> {
        let data = read(host)?;
        let is_program = fs::metadata(host)?.permissions().mode() & 0o111 != 0;
        if is_program {
            for library in libraries(host)? {
                let data = read(Path::new(&library))?;
                self.add(&library, Node::File(PROGRAM, data));
            }
        }
        let mode = if is_program { PROGRAM } else { FILE };
        self.add(guest, Node::File(mode, data));
        Ok(())
    }

    /// A program to /bin.
    pub fn program(&mut self, host: &Path) -> Result<()> {
        let name = host.file_name().and_then(|n| n.to_str());
        let name = name.with_context(|| format!("{}: no file name", host.display()))?;
        self.file(host, &format!("bin/{name}"))
    }

    /// What the guest is to run: a shell script, after `settle_s` seconds of the guest's time.
    pub fn job(&mut self, script: &str, settle_s: u32, dmesg: bool) {
        let settings = [
            ("$MARK", MARK),
            ("$SETTLE", &settle_s.to_string()),
            ("$DMESG", if dmesg { "1" } else { "" }),
        ];
        let init = settings
            .iter()
            .fold(INIT.to_owned(), |text, (name, value)| {
                text.replace(name, value)
            });
        self.add("init", Node::File(PROGRAM, init.into_bytes()));
        self.add("job", Node::File(PROGRAM, script.as_bytes().to_vec()));
    }

    fn add(&mut self, guest: &str, node: Node) {
        let path = guest.trim_start_matches('/');
        for (slash, _) in path.match_indices('/') {
            self.nodes
                .entry(path[..slash].to_owned())
                .or_insert(Node::Dir);
        }
        self.nodes.insert(path.to_owned(), node);
    }

    /// The cpio archive.
    pub fn pack(&self) -> Result<Vec<u8>> {
        let mut archive = Vec::new();
        for (ino, (path, node)) in self.nodes.iter().enumerate() {
            match node {
                Node::Dir => pack_entry(&mut archive, ino, path, DIR, &[])?,
                Node::File(mode, data) => pack_entry(&mut archive, ino, path, *mode, data)?,
                Node::Symlink(target) => {
                    pack_entry(&mut archive, ino, path, SYMLINK, target.as_bytes())?
                }
            }
        }
        pack_entry(&mut archive, 0, "TRAILER!!!", 0, &[])?;
        Ok(archive)
    }
}

/// Magic, then 13 numbers of 8 hexadecimal digits; name and data each padded to four bytes.
fn pack_entry(archive: &mut Vec<u8>, ino: usize, path: &str, mode: u32, data: &[u8]) -> Result<()> {
    let (links, size, name_size) = (
        1,
        u32::try_from(data.len())?,
        u32::try_from(path.len() + 1)?,
    );
    let mut header = "070701".to_owned();
    for field in [
        u32::try_from(ino)?,
        mode,
        0,
        0,
        links,
        0,
        size,
        0,
        0,
        0,
        0,
        name_size,
        0,
    ] {
        write!(header, "{field:08x}")?;
    }
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(path.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(data);
    archive.resize(archive.len().next_multiple_of(4), 0);
    Ok(())
}

/// Path of a command of the host, as the shell would find it.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file());
    found.with_context(|| format!("no {name} in PATH: run `make setup`"))
}

/// Libraries and interpreter of a dynamic program; nothing for a static one or a script.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let done = Command::new("ldd")
        .arg(program)
        .output()
        .context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let problem = String::from_utf8_lossy(&done.stderr);
        ensure!(
            format!("{text}{problem}").contains("not a dynamic executable"),
            "ldd: {problem}"
        );
        return Ok(Vec::new());
    }
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{}: library {}", program.display(), line.trim());
    }
    Ok(text
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(str::to_owned)
        .collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn stdout_of(command: &mut Command) -> Result<String> {
    let done = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        done.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    String::from_utf8(done.stdout).with_context(|| format!("{command:?} printed no text"))
}
