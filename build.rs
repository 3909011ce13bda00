//! Builds the BPF object and its skeleton, and a host copy of the policy's arithmetic for the tests.

use std::env;

fn main() {
    scx_cargo::BpfBuilder::new()
        .and_then(|mut b| b.enable_skel("bpf/main.bpf.c", "bpf").build())
        .unwrap_or_else(|e| {
            panic!("cannot build the BPF object (is clang-19 installed? try `make setup`): {e:#}")
        });
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
