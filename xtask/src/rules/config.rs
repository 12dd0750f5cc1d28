//! Fields of configuration that nothing reads.

use crate::tokens::{attributes, each_level, is_group, is_ident, is_punct, item_body};
use crate::tree::{Finding, Tree};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Structs with these endings, and those that clap fills, are configuration.
const ENDINGS: &[&str] = &["Config", "Options", "Args"];
const CLAP: &[&str] = &["Parser", "Args"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut fields = Vec::new();
    let mut read = BTreeSet::new();
    for (path, stream) in &tree.rust {
        each_level(stream, &mut |tokens| {
            for (at, _) in tokens.iter().enumerate() {
                fields.extend(config_fields(tokens, at).into_iter().map(|field| (path, field)));
                read.extend(field_read(tokens, at));
                read.extend(fields_bound(tokens, at));
            }
        });
    }
    fields.retain(|(_, (field, _))| !read.contains(field));
    let unread = fields.into_iter();
    unread.map(|(path, (field, line))| Finding::new(path, line, "config", format!("nothing reads `{field}`"))).collect()
}

/// Name and line of each field of the configuration struct whose `struct` stands at `at`.
fn config_fields(tokens: &[TokenTree], at: usize) -> Vec<(String, usize)> {
    let Some(TokenTree::Ident(name)) = tokens.get(at + 1).filter(|_| is_ident(tokens, at, "struct")) else {
        return Vec::new();
    };
    let derives = attributes(&tokens[..at]).into_iter().filter(|a| a.starts_with("derive")).collect::<String>();
    let derives: Vec<&str> = derives.split(|c: char| !c.is_alphanumeric()).collect();
    let by_clap = CLAP.iter().any(|derive| derives.contains(derive));
    let by_name = ENDINGS.iter().any(|ending| name.to_string().ends_with(ending));
    if !(by_clap || by_name) || derives.contains(&"Serialize") {
        return Vec::new(); // serialising reads every field
    }
    item_body(&tokens[at + 2..]).map_or(Vec::new(), |body| field_names(body.stream()))
}

/// `name` of each `name: type` in the body of a struct.
fn field_names(body: TokenStream) -> Vec<(String, usize)> {
    let tokens: Vec<TokenTree> = body.into_iter().collect();
    let mut angles = 0_usize;
    let mut in_type = false;
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(name) if !in_type && is_punct(&tokens, at + 1, ':') => {
                names.push((name.to_string(), name.span().start().line));
                in_type = true;
            }
            TokenTree::Punct(punct) if in_type => match punct.as_char() {
                '<' => angles += 1,
                '>' if !is_punct(&tokens, at - 1, '-') => angles -= 1,
                ',' if angles == 0 => in_type = false,
                _ => {}
            },
            _ => {}
        }
    }
    names
}

/// `field` of a `.field` at `at` that is neither called nor assigned to.
fn field_read(tokens: &[TokenTree], at: usize) -> Option<String> {
    let TokenTree::Ident(field) = tokens.get(at + 1)? else { return None };
    let of_range = at > 0 && is_punct(tokens, at - 1, '.');
    let called = is_group(tokens, at + 2, Delimiter::Parenthesis);
    let assigned = is_punct(tokens, at + 2, '=') && !is_punct(tokens, at + 3, '=');
    (is_punct(tokens, at, '.') && !of_range && !called && !assigned).then(|| field.to_string())
}

/// The fields of a `Struct { field, .. }` at `at` when it is a pattern.
fn fields_bound(tokens: &[TokenTree], at: usize) -> Vec<String> {
    match (&tokens[at], tokens.get(at + 1)) {
        (TokenTree::Ident(_), Some(TokenTree::Group(body))) if body.delimiter() == Delimiter::Brace => {
            let followed = ['=', ':', '|'].iter().any(|c| is_punct(tokens, at + 2, *c));
            if followed || ends_with_rest(body) { bindings(body) } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

fn ends_with_rest(body: &Group) -> bool {
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    tokens.len() >= 2 && (1..=2).all(|back| is_punct(&tokens, tokens.len() - back, '.'))
}

fn bindings(pattern: &Group) -> Vec<String> {
    let tokens: Vec<TokenTree> = pattern.stream().into_iter().collect();
    let mut bound = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let starts = at == 0 || is_punct(&tokens, at - 1, ',') || is_ident(&tokens, at - 1, "mut");
        let ignored = is_punct(&tokens, at + 1, ':') && is_ident(&tokens, at + 2, "_");
        match token {
            TokenTree::Ident(field) if starts && !ignored => bound.push(field.to_string()),
            _ => {}
        }
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(source: &str) -> Vec<String> {
        let found = check(&Tree::of(&[("a.rs", source)]));
        found.into_iter().map(|finding| finding.advice.replace("nothing reads ", "")).collect()
    }

    const CONFIG: &str =
        "/// Doc.\npub struct NetConfig { #[a] pub(crate) map: Map<Vec<u8>, u8>, pub f: fn() -> u8, size: u8 }";

    #[test]
    fn written_is_not_read() {
        let made = format!("{CONFIG} fn f(mut c: NetConfig, size: u8) {{ c.size = size; c.map(); let _ = ..size; }}");
        assert_eq!(unread(&made), ["`map`", "`f`", "`size`"]);
        let made = format!("{CONFIG} fn f() -> NetConfig {{ NetConfig {{ map, f, size }} }}");
        assert_eq!(unread(&made).len(), 3);
        let ignored = format!("{CONFIG} fn f(c: NetConfig) {{ let NetConfig {{ map: _, f, size }} = c; }}");
        assert_eq!(unread(&ignored), ["`map`"]);
    }

    #[test]
    fn access_and_patterns_read() {
        assert!(unread(&format!("{CONFIG} fn f(c: NetConfig) {{ (c.f)(c.map, c.size == 3) }}")).is_empty());
        assert!(unread(&format!("{CONFIG} fn f(NetConfig {{ map, f, size: s }}: NetConfig) {{}}")).is_empty());
        assert!(unread(&format!("{CONFIG} fn f() {{ g(|NetConfig {{ map, mut f, size, .. }}| h()) }}")).is_empty());
    }

    #[test]
    fn only_configuration_is_asked() {
        assert!(unread("struct Point { x: u8 }").is_empty());
        assert!(unread("#[derive(Serialize, Debug)] struct ReportConfig { x: u8 }").is_empty());
        assert_eq!(unread("#[derive(Debug, clap::Parser)] struct Typed { x: u8 }"), ["`x`"]);
    }
}
