//! Files and functions stay small; the exceptions of `xtask/ratchet.txt` may only shrink.

use crate::tokens::functions;
use crate::tree::{Finding, Tree};
use std::collections::BTreeMap;

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;
/// Lines of `path limit` or `path::function limit`.
const EXCEPTIONS: &str = "xtask/ratchet.txt";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let listed = tree.files.get(EXCEPTIONS).map_or("", String::as_str);
    let mut exceptions = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in listed.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        match line.rsplit_once(' ').and_then(|(what, limit)| Some((what, limit.parse::<usize>().ok()?))) {
            Some((what, limit)) => _ = exceptions.insert(what, (index + 1, limit)),
            None => findings.push(Finding::new(EXCEPTIONS, index + 1, "ratchet", "want `path limit`")),
        }
    }
    for (path, stream) in &tree.rust {
        let file = [(path.clone(), 1, tree.files[path].lines().count(), FILE_LINES)].into_iter();
        let functions = functions(stream).into_iter();
        let functions = functions.map(|f| (format!("{path}::{}", f.name), f.line, f.lines(), FUNCTION_LINES));
        for (what, line, lines, limit) in file.chain(functions) {
            match exceptions.remove(what.as_str()) {
                Some((entry, allowed)) if lines < allowed => {
                    let advice = if lines <= limit { "remove it".into() } else { format!("lower it to {lines}") };
                    findings.push(Finding::new(EXCEPTIONS, entry, "ratchet", format!("{what} shrank: {advice}")));
                }
                Some((_, allowed)) if lines == allowed && lines > limit => {}
                None if lines <= limit => {}
                _ => findings.push(Finding::new(path, line, "ratchet", format!("{lines} lines of {limit}: split it"))),
            }
        }
    }
    findings.extend(exceptions.into_iter().map(|(what, (entry, _))| {
        Finding::new(EXCEPTIONS, entry, "ratchet", format!("{what} does not exist: remove it"))
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(body_lines: usize, exceptions: &str) -> Vec<String> {
        let source = format!("fn long() {{\n{}}}\n", "call();\n".repeat(body_lines));
        check(&Tree::of(&[("a.rs", &source), (EXCEPTIONS, exceptions)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_function_and_a_long_file_are_found() {
        assert!(findings(68, "# nothing\n").is_empty());
        assert_eq!(findings(69, ""), ["a.rs:1: ratchet: 71 lines of 70: split it"]);
        assert_eq!(findings(599, "").len(), 2);
    }

    #[test]
    fn an_exception_holds_exactly_and_only_shrinks() {
        assert!(findings(98, "a.rs::long 100\n").is_empty());
        assert_eq!(findings(99, "a.rs::long 100\n").len(), 1);
        assert_eq!(
            findings(97, "a.rs::long 100\n"),
            ["xtask/ratchet.txt:1: ratchet: a.rs::long shrank: lower it to 99"]
        );
        assert_eq!(findings(9, "a.rs::long 100\n"), ["xtask/ratchet.txt:1: ratchet: a.rs::long shrank: remove it"]);
        assert_eq!(findings(9, "b.rs 700\n"), ["xtask/ratchet.txt:1: ratchet: b.rs does not exist: remove it"]);
        assert_eq!(findings(9, "b.rs\n"), ["xtask/ratchet.txt:1: ratchet: want `path limit`"]);
    }
}
