// SPDX-License-Identifier: GPL-2.0-only
//! For tests: a root folder with the files of `/sys` and `/proc` that a test needs, gone when it ends.

use std::env;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// The folder.
pub struct FakeRoot(PathBuf);

impl FakeRoot {
    /// An empty one; `name` tells the tests of one process apart.
    pub fn new(name: &str) -> Self {
        // In memory where that can be had: a large machine has thousands of files.
        let memory = PathBuf::from("/dev/shm");
        let temp = if memory.is_dir() {
            memory
        } else {
            env::temp_dir()
        };
        let dir = temp.join(format!("eevdfx-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        FakeRoot(dir)
    }

    /// Stands for `/`.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the file and the folders above it.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        fs::create_dir_all(path.parent().expect("a file in a folder")).expect("temp folder");
        fs::write(path, text).expect("temp file");
    }

    /// Removes a file, or a folder and all in it.
    pub fn remove(&self, path: &str) {
        let path = self.0.join(path);
        let gone = if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        gone.expect("it was there");
    }
}

impl Drop for FakeRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A refusal is one line that has all of `parts`.
#[track_caller]
pub fn assert_refusal(error: impl Display, parts: &[&str]) {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}
