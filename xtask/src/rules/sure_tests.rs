//! Tests that cannot fail.

use crate::tokens::{Function, each_level, functions, is_punct};
use crate::tree::{Finding, Tree};
use proc_macro2::TokenTree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let tests = tree.rust.iter().flat_map(|(path, stream)| functions(stream).into_iter().map(move |f| (path, f)));
    let sure = tests.filter(|(_, f)| f.attributes.iter().any(|attribute| attribute == "test") && !can_fail(f));
    sure.map(|(path, f)| Finding::new(path, f.line, "test", format!("{} cannot fail: assert what it shows", f.name)))
        .collect()
}

fn can_fail(test: &Function) -> bool {
    let mut can = test.attributes.iter().any(|attribute| attribute.starts_with("should_panic"));
    each_level(&test.body.stream(), &mut |tokens| {
        for (at, token) in tokens.iter().enumerate() {
            can |= match token {
                TokenTree::Ident(name) if is_punct(tokens, at + 1, '!') => asserts(&name.to_string()),
                TokenTree::Ident(name) => at + 1 < tokens.len() && checks(&name.to_string()),
                TokenTree::Punct(punct) => punct.as_char() == '?',
                _ => false,
            };
        }
    });
    can
}

fn asserts(macro_name: &str) -> bool {
    let name = macro_name.trim_start_matches("prop_").trim_start_matches("debug_");
    name.starts_with("assert") || ["panic", "unreachable"].contains(&name)
}

fn checks(function: &str) -> bool {
    let function = function.trim_start_matches("debug_"); // clap's `debug_assert`
    function.starts_with("unwrap")
        || ["check", "assert", "verify", "expect"].iter().any(|prefix| function.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(attributes: &str, body: &str) -> bool {
        !check(&Tree::of(&[("a.rs", &format!("{attributes} fn one() {{ {body} }}"))])).is_empty()
    }

    #[test]
    fn a_test_without_a_way_to_fail_is_found() {
        assert!(found("#[test]", "let a = f(); println!(\"assert!(a)\");"));
        assert!(found("#[test] #[cfg(unix)]", "for a in b { f(a) }"));
        assert!(!found("", "f();"));
    }

    #[test]
    fn each_way_to_fail_counts() {
        for body in ["assert_eq!(a, b)", "for a in b { prop_assert!(a) }", "f()?; Ok(())", "f(a.unwrap())"] {
            assert!(!found("#[test]", body), "{body}");
        }
        for body in
            ["conformance::check(&engine)", "cli.debug_assert()", "expect_end(a)", "match a { B => panic!(), C => {} }"]
        {
            assert!(!found("#[test]", body), "{body}");
        }
        assert!(!found("#[test] #[should_panic(expected = \"a\")]", "f()"));
    }
}
