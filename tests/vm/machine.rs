// SPDX-License-Identifier: GPL-2.0-only
//! A virtual machine that boots a kernel, runs one shell job and says what came of it.
//!
//! Nothing outlives a run: QEMU is killed when the job has ended, at the time limit, when the caller panics, and by the
//! kernel when the thread that started it dies. The archive with the guest's files is an unlinked file that QEMU finds as
//! its standard input. The time limit is real time, also where the guest's clock is virtual.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cores::Cores;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Transcript};
use crate::topology::Topology;

/// Under icount the start-up work of the guest shares the instructions of all CPUs for some 4 s of virtual time.
const ICOUNT_SETTLE_S: u32 = 10;

/// What a console shows when the emulator broke down, and how to call it. Nothing that a scheduler does can cause either.
const EMULATOR_FAULTS: [(&str, &str); 2] = [
    // TCG with a thread for each CPU can go on executing the breakpoint with which a kernel patches its own code (static
    // keys, ftrace) after the patch is complete: the guest dies of it about once in 300 runs. The in-kernel scheduler dies
    // of it in 12 s when sched_schedstats is flipped under load.
    ("Oops: int3:", "lost a patch of the kernel's code"),
    // QEMU aborts: seen once, at boot, in its model of an interrupt table.
    ("qemu-system-x86_64: hw/", "failed an assertion of its own"),
];

/// How often a machine is run that dies so.
const TRIES: u32 = 3;

/// How much of the guest's console an error shows: more than a panic with its longest call trace.
const CONSOLE_TAIL: usize = 200;

/// The machine to boot: a builder, `run` ends it.
#[derive(Clone)]
pub struct Machine {
    minor: String,
    topology: Topology,
    memory_mib: usize,
    icount: bool,
    timeout: Duration,
    has_config: bool,
    dmesg: bool,
    echo: bool,
    append: String,
    name: String,
    programs: Vec<PathBuf>,
    files: Vec<(PathBuf, String)>,
}

impl Machine {
    /// 8 CPUs on 2 nodes, 2 GiB, real time, two minutes.
    pub fn new(minor: &str) -> Self {
        Self {
            minor: minor.to_owned(),
            topology: Topology::default(),
            memory_mib: 2048,
            icount: false,
            timeout: Duration::from_secs(120),
            has_config: true,
            dmesg: false,
            echo: false,
            append: String::new(),
            name: format!("scx_eevdfx-{}", process::id()),
            programs: Vec::new(),
            files: Vec::new(),
        }
    }

    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    pub fn memory_mib(mut self, mib: usize) -> Self {
        self.memory_mib = mib;
        self
    }

    /// Virtual time, one instruction a nanosecond: repeatable, for measurements. The guest is quiet before the job starts.
    pub fn icount(mut self, on: bool) -> Self {
        self.icount = on;
        self
    }

    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Whether the guest has /boot/config-RELEASE.
    pub fn with_config(mut self, on: bool) -> Self {
        self.has_config = on;
        self
    }

    /// Whether to return the guest's kernel log.
    pub fn dmesg(mut self, on: bool) -> Self {
        self.dmesg = on;
        self
    }

    /// Whether to show the job's output as it comes, and the guest's console on stderr.
    pub fn echo(mut self, on: bool) -> Self {
        self.echo = on;
        self
    }

    /// More words for the kernel's command line.
    pub fn append(mut self, words: &str) -> Self {
        self.append = format!("{} {words}", self.append);
        self
    }

    /// How the process is called, to find it.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// A program of the host to /bin of the guest, with its libraries.
    pub fn program(mut self, host: impl Into<PathBuf>) -> Self {
        self.programs.push(host.into());
        self
    }

    /// A file of the host to any place of the guest; a program brings its libraries.
    pub fn file(mut self, host: impl Into<PathBuf>, guest: &str) -> Self {
        self.files.push((host.into(), guest.to_owned()));
        self
    }

    /// Boots, runs the shell script and returns what it printed and its exit code. That the job fails is not an error.
    pub fn run(&self, job: &str) -> Result<Outcome> {
        let kernel = Kernel::find(&self.minor)?
            .with_context(|| format!("no kernel {} in the archive", self.minor))?;
        let _cores = if self.icount {
            Cores::one()
        } else {
            Cores::all()
        };
        let initramfs = self.initramfs(&kernel, job)?.pack()?;
        let mut fault = "";
        for _ in 0..TRIES {
            let started = Instant::now();
            let archive = unlinked_file(&initramfs)?;
            let mut qemu = Qemu::start(&self.qemu_args(&kernel.vmlinux), archive)?;
            let end = self
                .follow(&mut qemu, started)
                .with_context(|| format!("kernel {}", kernel.release))?;
            match end {
                End::Outcome(outcome) => return Ok(outcome),
                End::EmulatorFault(what) => fault = what,
            }
            eprintln!("vm: the emulator {fault}");
        }
        bail!(
            "kernel {}: the emulator {fault}, {TRIES} times",
            kernel.release
        )
    }

    fn initramfs(&self, kernel: &Kernel, job: &str) -> Result<Initramfs> {
        let mut initramfs = Initramfs::new()?;
        for host in &self.programs {
            initramfs.program(host)?;
        }
        for (host, guest) in &self.files {
            initramfs.file(host, guest)?;
        }
        if self.has_config {
            initramfs.file(&kernel.config, &format!("/boot/config-{}", kernel.release))?;
        }
        initramfs.job(
            job,
            if self.icount { ICOUNT_SETTLE_S } else { 0 },
            self.dmesg,
        );
        Ok(initramfs)
    }

    fn qemu_args(&self, vmlinux: &Path) -> Vec<String> {
        let accel: &[&str] = match (self.icount, has_kvm()) {
            (true, _) => &["tcg", "-icount", "shift=0,sleep=off"],
            (false, true) => &["kvm"],
            (false, false) => &["tcg,thread=multi"],
        };
        let mut args = vec!["-accel".to_owned()];
        args.extend(accel.iter().map(|&word| word.to_owned()));
        args.extend(self.topology.qemu_args(self.memory_mib));
        let kernel = vmlinux.to_string_lossy();
        // Loops a jiffy at HZ=250: exact for virtual time's 1 GHz; elsewhere a guess on the long side, which is harmless.
        // Measuring it takes each CPU some 0.3 s.
        let lpj = if self.icount { 4_000_000 } else { 16_000_000 };
        let append = format!(
            "console=ttyS0 panic=-1 quiet tsc=reliable lpj={lpj}{}",
            self.append
        );
        let rest = [
            ["-name", &self.name],
            ["-cpu", "max"],
            ["-machine", "hpet=off"],
            ["-kernel", &kernel],
            ["-initrd", "/dev/stdin"],
            ["-append", &append],
            ["-display", "none"],
            ["-monitor", "none"],
            ["-net", "none"],
            ["-serial", "file:/dev/stderr"],
            ["-device", "virtio-serial-pci"],
            ["-chardev", "file,id=job,path=/dev/stdout"],
            ["-device", "virtserialport,chardev=job"],
        ];
        args.extend(rest.as_flattened().iter().map(|&word| word.to_owned()));
        args.push("-no-reboot".to_owned());
        args
    }

    fn follow(&self, qemu: &mut Qemu, started: Instant) -> Result<End> {
        let mut transcript = Transcript::new(self.echo);
        let mut console = Vec::new();
        loop {
            let left = self.timeout.saturating_sub(started.elapsed());
            match qemu.lines.recv_timeout(left) {
                Ok(Line::Job(line)) => transcript.add(&line, started)?,
                Ok(Line::Console(line)) => {
                    if self.echo {
                        eprintln!("[console] {}", line.trim_end());
                    }
                    console.push(line);
                }
                Err(reason) => {
                    if let Some(fault) = emulator_fault(&console) {
                        return Ok(End::EmulatorFault(fault));
                    }
                    let what = match reason {
                        RecvTimeoutError::Timeout => {
                            format!("the job did not end within {:?}", self.timeout)
                        }
                        RecvTimeoutError::Disconnected => {
                            format!("the machine stopped: {}", qemu.child.wait()?)
                        }
                    };
                    bail!(
                        "{what}\n{}{}",
                        tail("console", &console.concat()),
                        tail("job", transcript.output())
                    );
                }
            }
            if let Some(outcome) = transcript.outcome(started) {
                return Ok(End::Outcome(outcome));
            }
        }
    }
}

enum End {
    Outcome(Outcome),
    EmulatorFault(&'static str),
}

fn emulator_fault(console: &[String]) -> Option<&'static str> {
    let shown = |text| console.iter().any(|line| line.contains(text));
    let fault = EMULATOR_FAULTS.iter().find(|(text, _)| shown(text))?;
    Some(fault.1)
}

/// A line that QEMU wrote for the guest.
enum Line {
    Job(String),
    Console(String),
}

/// The running QEMU; dropping it ends it.
struct Qemu {
    child: Child,
    lines: Receiver<Line>,
}

impl Qemu {
    /// Through setpriv, so that the kernel kills it when this thread dies. Its own process group keeps a terminal's
    /// Ctrl-C away from it: it dies with its parent, not before.
    fn start(args: &[String], archive: File) -> Result<Self> {
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "qemu-system-x86_64"])
            .args(args)
            .stdin(archive)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot run setpriv (util-linux)")?;
        let (sender, lines) = mpsc::channel();
        read_lines(
            child.stdout.take().context("no stdout")?,
            sender.clone(),
            Line::Job,
        );
        read_lines(
            child.stderr.take().context("no stderr")?,
            sender,
            Line::Console,
        );
        Ok(Self { child, lines })
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(from: impl Read + Send + 'static, to: Sender<Line>, kind: fn(String) -> Line) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while matches!(from.read_until(b'\n', &mut line), Ok(1..)) {
            if to
                .send(kind(String::from_utf8_lossy(&line).into_owned()))
                .is_err()
            {
                break;
            }
            line.clear();
        }
    });
}

fn tail(what: &str, text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(CONSOLE_TAIL)..];
    format!("--- end of {what}\n{}\n", last.join("\n"))
}

fn unlinked_file(data: &[u8]) -> Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("scx_eevdfx-{}-{count}.cpio", process::id()));
    let wrote = || -> Result<File> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        file.write_all(data)?;
        file.rewind()?;
        Ok(file)
    };
    wrote().with_context(|| format!("cannot write {}", path.display()))
}

fn has_kvm() -> bool {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    has_virtualization(&cpuinfo)
        && File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok()
}

/// Whether the CPU offers it. That /dev/kvm opens proves nothing: there are machines where it does and then kills the
/// guest.
pub fn has_virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags
        .flat_map(str::split_whitespace)
        .any(|flag| flag == "vmx" || flag == "svm")
}
