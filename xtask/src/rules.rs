//! Each rule is a function from the repository to findings, with an example that breaks it and one that keeps it.

mod config;
mod dead_files;
mod docs;
mod duplicates;
mod imports;
mod phrases;
mod ratchet;
mod sure_tests;

use crate::tree::{Finding, Tree};

pub(crate) const ALL: &[fn(&Tree) -> Vec<Finding>] = &[
    imports::check,
    ratchet::check,
    phrases::check,
    sure_tests::check,
    dead_files::check,
    config::check,
    docs::check,
    duplicates::check,
];

/// The crate that a path belongs to, as a folder: `crates/lane`, `fuzz`.
fn crate_of(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.match_indices('/').nth(depth - 1).map_or("", |(end, _)| &path[..end])
}
