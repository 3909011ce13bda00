// SPDX-License-Identifier: GPL-2.0-only
//! Which kernels the tests run on, and where their files are. kernel.sh fetches them; see there for the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Oldest that has what the scheduler wants, the last long-term one, and the two newest.
pub const MATRIX: [&str; 4] = ["6.16", "6.18", "7.2", "7.3"];

/// kernel.sh: the archive has no such kernel.
const EXIT_MISSING: i32 = 4;

/// The files of one kernel.
pub struct Kernel {
    pub release: String,
    pub vmlinux: PathBuf,
    pub config: PathBuf,
}

impl Kernel {
    /// `None` when the archive does not have it (any more); a failure to look is an error.
    pub fn find(minor: &str) -> Result<Option<Self>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/kernel.sh");
        let done = Command::new(&script)
            .arg(minor)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", script.display()))?;
        match done.status.code() {
            Some(0) => (),
            Some(EXIT_MISSING) => return Ok(None),
            _ => bail!(
                "no kernel {minor}: {} failed with {}",
                script.display(),
                done.status
            ),
        }
        let folder = PathBuf::from(String::from_utf8(done.stdout)?.trim_end());
        let release = fs::read_to_string(folder.join("release"))
            .with_context(|| format!("cannot read the release in {}", folder.display()))?;
        Ok(Some(Self {
            release: release.trim_end().to_owned(),
            vmlinux: folder.join("vmlinux"),
            config: folder.join("config"),
        }))
    }
}

/// Those of the matrix that can be had; one that cannot is named on stderr.
pub fn kernels() -> Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for minor in MATRIX {
        match Kernel::find(minor)? {
            Some(_) => found.push(minor),
            None => eprintln!("kernel {minor}: not in the archive, skipped"),
        }
    }
    ensure!(
        !found.is_empty(),
        "none of the kernels {MATRIX:?} can be had"
    );
    Ok(found)
}
