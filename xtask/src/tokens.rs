//! Questions to Rust source as tokens, where a search in the text would be fooled by strings, comments and macros.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A `fn` with a body, also inside a macro call such as `proptest!`.
pub(crate) struct Function {
    pub name: String,
    /// Of the `fn`, from 1.
    pub line: usize,
    pub body: Group,
    /// The insides of its `#[...]`.
    pub attributes: Vec<String>,
}

impl Function {
    /// From `fn` to the closing brace, both counted.
    pub(crate) fn lines(&self) -> usize {
        self.body.span_close().end().line + 1 - self.line
    }
}

/// Every function of `stream`, those inside other functions too.
pub(crate) fn functions(stream: &TokenStream) -> Vec<Function> {
    let mut found = Vec::new();
    each_level(stream, &mut |tokens| {
        for at in 0..tokens.len() {
            if is_ident(tokens, at, "fn")
                && let Some(TokenTree::Ident(name)) = tokens.get(at + 1)
                && let Some(body) = item_body(&tokens[at + 2..])
            {
                let line = tokens[at].span().start().line;
                found.push(Function { name: name.to_string(), line, body, attributes: attributes(&tokens[..at]) });
            }
        }
    });
    found
}

/// The braces that end an item whose head begins at `tokens`, or `None` when it ends with `;`.
pub(crate) fn item_body(tokens: &[TokenTree]) -> Option<Group> {
    tokens.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(Some(group.clone())),
        TokenTree::Punct(punct) if punct.as_char() == ';' => Some(None),
        _ => None,
    })?
}

/// The insides of the `#[...]` at the end of `before`, past visibility and qualifiers.
pub(crate) fn attributes(before: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    for token in before.iter().rev() {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                found.push(group.stream().to_string())
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
            TokenTree::Punct(punct) if punct.as_char() != '#' => break,
            _ => {}
        }
    }
    found
}

/// Calls `visit` with the tokens of `stream`, and with those of each group in it.
pub(crate) fn each_level(stream: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    visit(&tokens);
    for token in tokens {
        if let TokenTree::Group(group) = token {
            each_level(&group.stream(), visit);
        }
    }
}

pub(crate) fn is_ident(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if ident == name)
}

pub(crate) fn is_punct(tokens: &[TokenTree], at: usize, character: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == character)
}

pub(crate) fn is_group(tokens: &[TokenTree], at: usize, delimiter: Delimiter) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn functions_are_found_in_macros_and_traits_with_lines_and_attributes() {
        let source = r##"
            trait T { fn without_body(&self); }
            const TEXT: &str = r#"fn not_this() {"#; // fn nor_this() {
            proptest! {
                #[test]
                pub(crate) fn one(a in 0..3) {
                    fn two() {}
                }
            }
            fn three(f: fn(u8) -> u8) {}
        "##;
        let found = functions(&source.parse().unwrap());
        let told: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines(), f.attributes.concat())).collect();
        let none = String::new();
        let expected = [("three", 10, 1, none.clone()), ("one", 6, 3, "test".into()), ("two", 7, 1, none)];
        assert_eq!(told, expected);
    }
}
