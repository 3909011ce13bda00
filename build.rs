//! Builds the BPF object and its skeleton, the lab's BPF object, and a host copy of the policy's arithmetic for the tests.

use std::env;

fn main() {
    build_bpf("bpf/main.bpf.c", "bpf");
    build_bpf("tests/lab/nomigrate/nomigrate.bpf.c", "nomigrate");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=tests/policy/shim.c");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        cc::Build::new()
            .file("tests/policy/shim.c")
            .include("bpf")
            .opt_level(2)
            .flag("-fsanitize=undefined")
            .flag("-fsanitize-undefined-trap-on-error")
            .cargo_metadata(false)
            .compile("eevdf_host");
        println!(
            "cargo:rustc-link-search=native={}",
            env::var("OUT_DIR").unwrap_or_default()
        );
    }
}

fn build_bpf(source: &str, name: &str) {
    scx_cargo::BpfBuilder::new()
        .and_then(|mut b| b.enable_skel(source, name).build())
        .unwrap_or_else(|e| {
            panic!("cannot build {source} (is clang-19 installed? try `make setup`): {e:#}")
        });
}
