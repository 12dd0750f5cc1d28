//! Documents beside code, not instead of it.

use crate::tree::{Finding, Tree};

/// Lines of Markdown for a hundred lines of Rust, at most.
const SHARE: usize = 15;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let count = |ending| -> usize {
        tree.files.iter().filter(|(path, _)| path.ends_with(ending)).map(|(_, text)| text.lines().count()).sum()
    };
    let (docs, rust) = (count(".md"), count(".rs"));
    if docs * 100 <= rust * SHARE {
        return Vec::new();
    }
    let advice = format!("{docs} lines of Markdown beside {rust} of Rust, over {SHARE} %: shorten");
    vec![Finding::new("README.md", 1, "docs", advice)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_over_the_share_is_found() {
        let code = "\n".repeat(100);
        assert!(check(&Tree::of(&[("a.rs", &code), ("a.md", &"\n".repeat(15))])).is_empty());
        assert_eq!(check(&Tree::of(&[("a.rs", &code), ("a.md", &"\n".repeat(16))])).len(), 1);
    }
}
