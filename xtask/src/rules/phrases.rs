//! Words that hide a stub, places that only one machine has, and `unsafe` outside its rooms.

use crate::tokens::{each_level, is_ident};
use crate::tree::{Finding, Tree};

/// A phrase (in lower case: in any case) and what to do instead.
const BANNED: &[(&str, &str)] = &[
    ("placeholder", FINISH),
    ("for now", FINISH),
    ("in production", "say what holds, and where it was shown"),
    ("todo!", FINISH),
    ("unimplemented!", FINISH),
    ("TODO", FINISH),
    ("FIXME", FINISH),
    ("allow(dead_code)", "remove the dead code"),
    ("#[ignore", "mend the test, or skip it through sealane_skip"),
    ("assert!(true)", "assert something that can be false"),
    ("/work/", REPEATABLE),
    ("../shared", REPEATABLE),
    ("static.crates.io", REPEATABLE),
    ("index.crates.io", REPEATABLE),
    ("pypi.org", REPEATABLE),
    ("files.pythonhosted.org", REPEATABLE),
    ("registry.npmjs.org", REPEATABLE),
    ("proxy.golang.org", REPEATABLE),
];
const FINISH: &str = "finish it, or leave it out";
const REPEATABLE: &str = "name nothing that another machine lacks or a client chooses by itself";

/// Where `unsafe` may stand.
const UNSAFE: &[&str] = &["crates/lane/src/slab", "crates/aead/src/backend/", "crates/cuda/", "crates/net/"];

/// This file holds the phrases.
const EXEMPT: &str = "xtask/src/rules/phrases.rs";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| *path != EXEMPT) {
        for (index, line) in text.lines().enumerate() {
            let line = line.replace("for now in ", ""); // a loop over times
            let lower = line.to_lowercase();
            let mut report = |phrase: &str, advice: &str| {
                findings.push(Finding::new(path, index + 1, "phrase", format!("`{phrase}`: {advice}")));
            };
            for (phrase, advice) in BANNED {
                if begins_a_word(&line, phrase) || begins_a_word(&lower, phrase) {
                    report(phrase, advice);
                }
            }
            if line.contains("||") && line.contains(".is_ok()") && line.contains(".is_err()") {
                report("is_ok() || is_err()", "say which of the two it must be");
            }
        }
    }
    for (path, stream) in &tree.rust {
        if UNSAFE.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        each_level(stream, &mut |tokens| {
            for at in (0..tokens.len()).filter(|at| is_ident(tokens, *at, "unsafe")) {
                let advice = format!("move it to one of {UNSAFE:?}");
                findings.push(Finding::new(path, tokens[at].span().start().line, "unsafe", advice));
            }
        });
    }
    findings
}

/// Whether `phrase` stands in `line` and not in the middle of a word.
fn begins_a_word(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_phrase_is_found_wherever_it_stands() {
        for (phrase, _) in BANNED {
            assert_eq!(rules("README.md", &format!("so {phrase} it is")), ["phrase"], "{phrase}");
        }
        assert_eq!(rules("a.toml", "# Placeholder"), ["phrase"]);
        assert_eq!(rules("a.rs", "fn f() { assert!(x.is_ok() || y.is_err()) }"), ["phrase"]);
    }

    #[test]
    fn other_words_are_left_alone() {
        assert!(rules("a.md", "todo = \"deny\", crates.io, net/work/, methodTODO, before nowhere").is_empty());
        assert!(rules("a.rs", "fn f() { assert!(x.is_ok() || y.is_ok()) }").is_empty());
        assert!(rules("a.rs", "fn f() { for now in times {} }").is_empty());
        assert!(rules(EXEMPT, "// FIXME").is_empty());
    }

    #[test]
    fn unsafe_stays_in_its_rooms() {
        assert_eq!(rules("crates/cli/src/a.rs", "fn f() { unsafe { g() } }"), ["unsafe"]);
        assert!(rules("crates/net/src/a.rs", "fn f() { unsafe { g() } }").is_empty());
        assert!(
            rules("crates/cli/src/a.rs", "#![forbid(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";").is_empty()
        );
    }
}
