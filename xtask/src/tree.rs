//! The repository as the rules see it: texts by path, Rust files also as tokens, and what cargo says of the workspace.

use proc_macro2::TokenStream;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::process::Command;

/// Paths are relative to the repository's root, with `/`.
#[derive(Default)]
pub(crate) struct Tree {
    /// Every file that git tracks, or would; binary files with an empty text.
    pub files: BTreeMap<String, String>,
    pub rust: BTreeMap<String, TokenStream>,
    /// `cargo metadata --no-deps`.
    pub metadata: Value,
}

impl Tree {
    /// Reads the repository of the working directory.
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let metadata: Value =
            serde_json::from_slice(&output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?)?;
        let root = metadata["workspace_root"].as_str().ok_or("cargo names no workspace_root")?;
        std::env::set_current_dir(root)?;
        let listed = output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut tree = Self::default();
        for path in String::from_utf8(listed)?.split('\0').filter(|path| std::path::Path::new(path).is_file()) {
            let text = String::from_utf8(std::fs::read(path)?).unwrap_or_default();
            tree.add(path, &text).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(Self { metadata, ..tree })
    }

    fn add(&mut self, path: &str, text: &str) -> Result<(), proc_macro2::LexError> {
        if path.ends_with(".rs") {
            self.rust.insert(path.into(), text.parse()?);
        }
        self.files.insert(path.into(), text.into());
        Ok(())
    }

    /// `path` of the metadata without the root.
    pub(crate) fn relative<'a>(&self, path: &'a str) -> &'a str {
        let root = self.metadata["workspace_root"].as_str().unwrap_or_default();
        path.strip_prefix(root).unwrap_or(path).trim_start_matches('/')
    }

    /// A repository of these `(path, text)`, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.add(path, text).expect("an example that is Rust");
        }
        tree
    }
}

fn output(program: &str, arguments: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let done = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    Ok(done.stdout)
}

/// What is wrong, where, and what to do. Ordered by place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub path: String,
    pub line: usize,
    pub rule: &'static str,
    pub advice: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Self { path: path.into(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}
