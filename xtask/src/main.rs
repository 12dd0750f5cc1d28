//! In: the name of a task. Out: the repository's own checks, as findings on stdout and an exit code.
//!
//! `cargo xtask tidy` reads every file of the repository once ([`tree`]) and asks each of [`rules`] for its findings.

mod rules;
mod tokens;
mod tree;

use std::process::ExitCode;
use tree::Tree;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("tidy") {
        eprintln!("usage: cargo xtask tidy");
        return ExitCode::from(2);
    }
    let tree = match Tree::load() {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut findings: Vec<_> = rules::ALL.iter().flat_map(|rule| rule(&tree)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
