//! Names that are safe to create on any file system. What is not safe is refused, never repaired.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use crate::error::Error;

/// Longest component, in bytes: the limit of nearly every file system.
pub const MAX_NAME: usize = 255;
/// Longest path, in bytes: `PATH_MAX` on Linux.
pub const MAX_PATH: usize = 4096;
/// Deepest path, in components.
pub const MAX_DEPTH: usize = 64;
/// What every staging folder's name begins with; no name that travels may begin so (spec 8.5).
pub const STAGING_PREFIX: &str = ".sealane-";

/// Why a name or path is not safe (spec 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// Not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// An empty component: an empty name, an absolute path, `a//b` or `a/`.
    #[error("a component is empty")]
    Empty,
    /// A component of more than [`MAX_NAME`] bytes.
    #[error("a component is longer than 255 bytes")]
    TooLong,
    /// A path of more than [`MAX_PATH`] bytes.
    #[error("it is longer than 4096 bytes")]
    PathTooLong,
    /// More than [`MAX_DEPTH`] components.
    #[error("it is more than 64 folders deep")]
    TooDeep,
    /// `.` or `..`.
    #[error("`.` and `..` are not names")]
    Dots,
    /// A slash in a single name, or a backslash, which separates on Windows.
    #[error("it contains a separator")]
    Separator,
    /// NUL, another control character, or a line or paragraph separator.
    #[error("it contains a control character")]
    Control,
    /// `C:` and the like.
    #[error("it begins with a drive letter")]
    Drive,
    /// A device name of Windows, with or without extension.
    #[error("it is a reserved device name on Windows")]
    Reserved,
    /// Windows would drop the last character.
    #[error("it ends in a dot or a space")]
    Trailing,
    /// Begins with [`STAGING_PREFIX`].
    #[error("names that begin with .sealane- are ours")]
    Staging,
}

/// One safe component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Takes `name` if it is safe; [`Error::Name`] otherwise.
    pub fn new(name: impl AsRef<OsStr>) -> Result<Self, Error> {
        let name = name.as_ref();
        let checked = name.to_str().ok_or(NameFault::NotUtf8).and_then(|text| check_name(text).map(|()| text));
        checked.map(|text| Self(text.into())).map_err(|fault| Error::Name { name: name.into(), fault })
    }

    /// The component.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Safe components, joined by `/`.
///
/// Ordered component by component, so that a folder comes before what is in it and both before anything else.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelPath(Box<str>);

impl RelPath {
    /// Takes `path` if it is safe; [`Error::Name`] otherwise.
    pub fn new(path: &[u8]) -> Result<Self, Error> {
        match std::str::from_utf8(path).map_err(|_| NameFault::NotUtf8).and_then(check_path) {
            Ok(text) => Ok(Self(text.into())),
            Err(fault) => Err(Error::Name { name: String::from_utf8_lossy(path).into_owned().into(), fault }),
        }
    }

    /// The path of `name` in the folder `self`.
    pub fn join(&self, name: &Name) -> Result<Self, Error> {
        Self::new(format!("{}/{name}", self.0).as_bytes())
    }

    /// The path, components joined by `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the file system takes it.
    pub fn as_path(&self) -> &Path {
        Path::new(&*self.0)
    }

    /// The folder that holds it (`None` at the top) and its own name.
    pub fn split(&self) -> (Option<&str>, &str) {
        self.0.rsplit_once('/').map_or((None, &*self.0), |(parent, name)| (Some(parent), name))
    }

    /// The first component.
    pub fn top(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(top, _)| top)
    }
}

impl From<Name> for RelPath {
    fn from(name: Name) -> Self {
        Self(name.0)
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for RelPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.split('/').cmp(other.0.split('/'))
    }
}

impl PartialOrd for RelPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn check_path(path: &str) -> Result<&str, NameFault> {
    if path.len() > MAX_PATH {
        return Err(NameFault::PathTooLong);
    }
    if path.split('/').count() > MAX_DEPTH {
        return Err(NameFault::TooDeep);
    }
    path.split('/').try_for_each(check_name)?;
    Ok(path)
}

fn check_name(name: &str) -> Result<(), NameFault> {
    let fault = if name.is_empty() {
        NameFault::Empty
    } else if name.len() > MAX_NAME {
        NameFault::TooLong
    } else if name == "." || name == ".." {
        NameFault::Dots
    } else if name.contains(['/', '\\']) {
        NameFault::Separator
    } else if name.contains(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}') {
        NameFault::Control
    } else if name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic() {
        NameFault::Drive
    } else if is_device(name) {
        NameFault::Reserved
    } else if name.ends_with(['.', ' ']) {
        NameFault::Trailing
    } else if name.get(..STAGING_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(STAGING_PREFIX)) {
        NameFault::Staging
    } else {
        return Ok(());
    };
    Err(fault)
}

/// Windows takes `con`, `CON.txt` and `con .txt` all for the console.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    if let Some(number) = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT")) {
        return matches!(number, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³");
    }
    matches!(&*stem, "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(path: &[u8]) -> Option<NameFault> {
        match RelPath::new(path) {
            Err(Error::Name { fault, .. }) => Some(fault),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }

    #[test]
    fn limits_hold_to_the_byte() {
        assert_eq!(fault("n".repeat(255).as_bytes()), None);
        assert_eq!(fault("n".repeat(256).as_bytes()), Some(NameFault::TooLong));
        assert_eq!(fault(["d"; 64].join("/").as_bytes()), None);
        assert_eq!(fault(["d"; 65].join("/").as_bytes()), Some(NameFault::TooDeep));
        let long = vec!["n".repeat(255); 16].join("/");
        assert_eq!(long.len(), 4095);
        assert_eq!(fault(long.as_bytes()), None);
        assert_eq!(fault(format!("{long}/n").as_bytes()), Some(NameFault::PathTooLong));
    }

    #[test]
    fn a_single_name_holds_no_slash() {
        assert!(matches!(Name::new("a/b"), Err(Error::Name { fault: NameFault::Separator, .. })));
        assert_eq!(Name::new("Ünïcode 名前.txt").unwrap().as_str(), "Ünïcode 名前.txt");
    }

    #[test]
    fn a_folder_sorts_directly_before_its_content() {
        let mut paths = ["a-b", "a/b", "a", "a/b/c", "a!", "b"].map(|path| RelPath::new(path.as_bytes()).unwrap());
        paths.sort();
        assert_eq!(paths.each_ref().map(|path| path.as_str()), ["a", "a/b", "a/b/c", "a!", "a-b", "b"]);
    }
}
