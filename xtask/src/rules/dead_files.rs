//! Files that nothing reaches: Rust files without a `mod`, Markdown without a link, vectors without a test.

use crate::tokens::{attributes, is_group, is_ident, is_punct};
use crate::tree::{Finding, Tree};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let modules = reached(rust_roots(tree), |path| modules(tree, path));
    let pages = reached(vec!["README.md".into()], |path| links(tree, path));
    let mut findings = Vec::new();
    let mut report = |path, advice| findings.push(Finding::new(path, 1, "dead", advice));
    for path in tree.files.keys() {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path.ends_with(".rs") && !modules.contains(path) {
            report(path, "no `mod` leads here: declare it or remove it");
        } else if path.ends_with(".md") && !pages.contains(path) {
            report(path, "no link leads here from README.md: link it or remove it");
        } else if path.starts_with("spec/") && !path.ends_with(".md") && !used(tree, name) {
            report(path, "no Rust file names it: test with it or remove it");
        }
    }
    findings
}

/// Everything that `next` leads to from `found`.
fn reached(mut found: Vec<String>, next: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    while let Some(path) = found.pop() {
        if !seen.contains(&path) {
            found.extend(next(&path));
            seen.insert(path);
        }
    }
    seen
}

/// The file of each target that cargo builds.
fn rust_roots(tree: &Tree) -> Vec<String> {
    let packages = tree.metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let paths = targets.filter_map(|target| Some(tree.relative(target["src_path"].as_str()?)));
    // A target's own folder is where its modules lie, as for `mod.rs`; the mark is taken off in `modules`.
    paths.map(|path| format!("{path}{ROOT}")).flat_map(|marked| [marked.replace(ROOT, ""), marked]).collect()
}

const ROOT: &str = " (root)";

fn modules(tree: &Tree, marked: &str) -> Vec<String> {
    let path = marked.trim_end_matches(ROOT);
    let Some(stream) = tree.rust.get(path) else { return Vec::new() };
    let (folder, _) = path.rsplit_once('/').unwrap_or_default();
    let own_folder = if marked.ends_with(ROOT) || path.ends_with("/mod.rs") {
        folder.to_owned()
    } else {
        path.trim_end_matches(".rs").to_owned()
    };
    let mut found = Vec::new();
    declared(stream, folder, &own_folder, &mut found);
    found
}

/// Adds the files that the `mod name;` in `stream` may mean; `folder` holds the file, `inner` its modules.
fn declared(stream: &TokenStream, folder: &str, inner: &str, found: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (TokenTree::Ident(word), Some(TokenTree::Ident(name))) if word == "mod" => {
                let beside = format!("{inner}/{name}");
                if let Some(TokenTree::Group(body)) = tokens.get(at + 2) {
                    declared(&body.stream(), &beside, &beside, found);
                } else if is_punct(&tokens, at + 2, ';') {
                    let named = attributes(&tokens[..at]);
                    let named = named.iter().find_map(|a| a.strip_prefix("path = \"")?.strip_suffix('"'));
                    found.extend(named.map(|file| normal(folder, file)));
                    found.extend([format!("{beside}.rs"), format!("{beside}/mod.rs")]);
                }
            }
            (TokenTree::Group(group), _) if !is_module(&tokens, at) => {
                declared(&group.stream(), folder, inner, found);
                if at >= 2 && is_ident(&tokens, at - 2, "include") {
                    found.push(normal(folder, group.stream().to_string().trim_matches('"')));
                }
            }
            _ => {}
        }
    }
}

fn is_module(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && is_ident(tokens, at - 2, "mod") && is_group(tokens, at, Delimiter::Brace)
}

/// The targets of `[text](target)` in a Markdown file.
fn links(tree: &Tree, path: &str) -> Vec<String> {
    let text = tree.files.get(path).map_or("", String::as_str);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.map(|target| normal(folder, target)).collect()
}

fn used(tree: &Tree, name: &str) -> bool {
    tree.rust.keys().any(|path| tree.files[path].contains(name))
}

/// `relative` to `folder`, without `.` and `..`.
fn normal(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "." | "" => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let metadata = json!({"workspace_root": "/r", "packages": [{"targets": [{"src_path": "/r/a/src/lib.rs"}]}]});
        let found = check(&Tree { metadata, ..Tree::of(files) });
        found.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_file_without_a_mod_is_found() {
        let lib = ("a/src/lib.rs", "mod one; mod inline { mod deep; } // mod two;");
        let reached = [lib, ("a/src/one.rs", "mod under;"), ("a/src/one/under.rs", ""), ("a/src/inline/deep.rs", "")];
        assert!(dead(&reached).is_empty());
        assert_eq!(dead(&[lib, ("a/src/two.rs", ""), ("a/src/under.rs", "")]), ["a/src/two.rs", "a/src/under.rs"]);
    }

    #[test]
    fn paths_and_includes_are_followed() {
        let lib = ("a/src/lib.rs", "#[path = \"../x.rs\"] mod y; fn f() { include!(\"z.rs\") }");
        assert!(dead(&[lib, ("a/x.rs", ""), ("a/src/z.rs", "")]).is_empty());
    }

    #[test]
    fn pages_are_reached_from_the_readme() {
        let readme = ("README.md", "[a](docs/a.md#part)");
        assert!(dead(&[readme, ("docs/a.md", "[b](../b.md)"), ("b.md", "")]).is_empty());
        assert_eq!(dead(&[readme, ("docs/c.md", "")]), ["docs/c.md"]);
    }

    #[test]
    fn vectors_are_used() {
        let lib = ("a/src/lib.rs", "const TEXT: &str = include_str!(\"../../spec/used.txt\");");
        assert_eq!(dead(&[lib, ("spec/used.txt", ""), ("spec/idle.txt", "")]), ["spec/idle.txt"]);
    }
}
