//! One function written in two crates.

use super::crate_of;
use crate::tokens::functions;
use crate::tree::{Finding, Tree};
use std::collections::BTreeMap;

/// Shorter bodies are alike by chance.
const LINES: usize = 5;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut first = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, stream) in &tree.rust {
        for f in functions(stream).into_iter().filter(|f| f.lines() >= LINES + 2) {
            let key = (f.name.clone(), f.body.to_string());
            let (elsewhere, line) = first.entry(key).or_insert((path, f.line));
            if crate_of(elsewhere) != crate_of(path) {
                let advice = format!("{} stands in {elsewhere}:{line} too: keep one", f.name);
                findings.push(Finding::new(path, f.line, "duplicate", advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: &str = "fn f() {\n a();\n b();\n c();\n d();\n e();\n}";

    fn findings(other_path: &str, other: &str) -> usize {
        check(&Tree::of(&[("crates/a/src/lib.rs", F), (other_path, other)])).len()
    }

    #[test]
    fn the_same_function_in_another_crate_is_found() {
        assert_eq!(findings("crates/b/src/lib.rs", &F.replace(" b();", "  b( ) ;")), 1);
        assert_eq!(findings("crates/a/src/other.rs", F), 0);
        assert_eq!(findings("crates/b/src/lib.rs", &F.replace("b()", "x()")), 0);
        assert_eq!(findings("crates/b/src/lib.rs", &F.replace("fn f", "fn g")), 0);
        assert_eq!(check(&Tree::of(&[("a/x.rs", "fn f() {\n a();\n}"), ("b/x.rs", "fn f() {\n a();\n}")])), []);
    }
}
