//! `SEALANE_FUZZ=TARGET sealane-fuzz ...`: libFuzzer where `.ci/run` builds it, and else a replay of the files given.
#![cfg_attr(fuzzing, no_main)]

use sealane_fuzz::{TARGETS, Target};

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));

#[cfg(fuzzing)]
static CHOSEN: std::sync::LazyLock<Target> = std::sync::LazyLock::new(chosen);

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let target = chosen();
    for file in std::env::args_os().skip(1) {
        target(&std::fs::read(file)?);
    }
    Ok(())
}

/// # Panics
/// When the environment names no target.
fn chosen() -> Target {
    let name = std::env::var("SEALANE_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("SEALANE_FUZZ={name:?} names no target; fuzz/corpus has a folder for each")).1
}
