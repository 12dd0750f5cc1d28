//! The manifest: what is in a set of files and folders, in one canonical encoding (spec 8).

use crate::error::Error;
use crate::name::RelPath;
use crate::tree::{ObjectId, tree_len};

/// Most bytes of a manifest: it is held in memory whole.
pub const MAX_MANIFEST: usize = 64 << 20;
/// Most entries of a manifest.
pub const MAX_ENTRIES: usize = 1_000_000;
/// Most bytes of one file.
pub const MAX_FILE: u64 = 1 << 40;
/// Most bytes of all files of one offer: their trees (32 bytes a MiB) are received in memory.
pub const MAX_TOTAL: u64 = 1 << 42;

const VERSION: u8 = 1;
const DIRECTORY: u8 = 0;
const FILE: u8 = 1;

/// Why bytes are not a manifest (spec 8.2 to 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestFault {
    /// More than [`MAX_MANIFEST`] bytes.
    #[error("it is longer than 64 MiB")]
    TooLong,
    /// Not version 1.
    #[error("its version is unknown")]
    Version,
    /// Ends in the middle of an entry, or says it has more entries than its bytes can hold.
    #[error("it is cut short")]
    Truncated,
    /// Bytes after the last entry.
    #[error("bytes follow its end")]
    Trailing,
    /// No entry.
    #[error("it is empty")]
    Empty,
    /// More than [`MAX_ENTRIES`].
    #[error("it has more than 1,000,000 entries")]
    TooManyEntries,
    /// An entry that is neither a file nor a folder.
    #[error("an entry is of unknown kind")]
    Kind,
    /// Permission bits beyond 0o777.
    #[error("a mode has more than the nine permission bits")]
    Mode,
    /// Entries out of order, or the same path twice.
    #[error("its entries are not in order, each once")]
    Order,
    /// An entry whose folder is not an entry, or is a file.
    #[error("an entry lies in no folder of the manifest")]
    NoParent,
    /// A file of more than [`MAX_FILE`] bytes.
    #[error("a file is larger than 1 TiB")]
    FileTooLarge,
    /// Files of more than [`MAX_TOTAL`] bytes together.
    #[error("its files are larger than 4 TiB together")]
    TotalTooLarge,
}

/// The nine permission bits of a file or folder: no set-user-id, set-group-id or sticky bit can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode(u16);

impl Mode {
    /// The permission bits of `st_mode`.
    pub fn of(st_mode: u32) -> Self {
        Self((st_mode & 0o777) as u16)
    }

    /// Takes bits that came from a peer; `None` beyond 0o777.
    pub fn new(bits: u16) -> Option<Self> {
        (bits <= 0o777).then_some(Self(bits))
    }

    /// The bits.
    pub fn bits(self) -> u16 {
        self.0
    }
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// BLAKE3 of its bytes.
        id: ObjectId,
    },
}

/// A file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it belongs, relative to the folder that the getter chooses.
    pub path: RelPath,
    /// Permissions.
    pub mode: Mode,
    /// File or folder.
    pub kind: Kind,
}

impl Entry {
    /// Bytes of content; 0 for a folder.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::Directory => 0,
            Kind::File { size, .. } => size,
        }
    }
}

/// A set of files and folders, sorted by path, every folder an entry of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<Entry>,
}

impl Manifest {
    /// Sorts `entries` and checks them as [`Manifest::decode`] does.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self, Error> {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        check(&entries)?;
        Ok(Self { entries })
    }

    /// The only entry of an offer of one file, which has no manifest on the wire.
    pub(crate) fn single(entry: Entry) -> Self {
        Self { entries: vec![entry] }
    }

    /// The entries, sorted by path.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.entries.iter().map(Entry::size).sum()
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count()
    }

    /// Bytes of all files' trees together.
    pub fn trees_len(&self) -> u64 {
        32 * self.entries.iter().map(|entry| tree_len(entry.size())).sum::<u64>()
    }

    /// The bytes whose BLAKE3 is the id of the set.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend((self.entries.len() as u32).to_be_bytes());
        for Entry { path, mode, kind } in &self.entries {
            out.push(if matches!(kind, Kind::Directory) { DIRECTORY } else { FILE });
            out.extend(mode.0.to_be_bytes());
            out.extend((path.as_str().len() as u16).to_be_bytes());
            out.extend(path.as_str().as_bytes());
            if let Kind::File { size, id } = kind {
                out.extend(size.to_be_bytes());
                out.extend(id.0);
            }
        }
        out
    }

    /// Reads a manifest; memory taken is in proportion to `bytes`, whatever they claim.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_MANIFEST {
            return Err(ManifestFault::TooLong.into());
        }
        let mut rest = bytes;
        if take(&mut rest)? != [VERSION] {
            return Err(ManifestFault::Version.into());
        }
        let count = u32::from_be_bytes(take(&mut rest)?) as usize;
        if count > MAX_ENTRIES {
            return Err(ManifestFault::TooManyEntries.into());
        }
        if count > rest.len() / SMALLEST_ENTRY {
            return Err(ManifestFault::Truncated.into());
        }
        let entries = (0..count).map(|_| entry(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        if !rest.is_empty() {
            return Err(ManifestFault::Trailing.into());
        }
        check(&entries)?;
        Ok(Self { entries })
    }
}

/// A folder with a name of one byte.
const SMALLEST_ENTRY: usize = 6;

fn entry(rest: &mut &[u8]) -> Result<Entry, Error> {
    let [kind] = take(rest)?;
    let mode = Mode::new(u16::from_be_bytes(take(rest)?)).ok_or(ManifestFault::Mode)?;
    let len = u16::from_be_bytes(take(rest)?) as usize;
    let (path, after) = rest.split_at_checked(len).ok_or(ManifestFault::Truncated)?;
    *rest = after;
    let kind = match kind {
        DIRECTORY => Kind::Directory,
        FILE => Kind::File { size: u64::from_be_bytes(take(rest)?), id: ObjectId(take(rest)?) },
        _ => return Err(ManifestFault::Kind.into()),
    };
    Ok(Entry { path: RelPath::new(path)?, mode, kind })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ManifestFault> {
    let (head, after) = rest.split_first_chunk().ok_or(ManifestFault::Truncated)?;
    *rest = after;
    Ok(*head)
}

fn check(entries: &[Entry]) -> Result<(), ManifestFault> {
    if entries.is_empty() {
        return Err(ManifestFault::Empty);
    }
    if entries.len() > MAX_ENTRIES {
        return Err(ManifestFault::TooManyEntries);
    }
    if entries.windows(2).any(|pair| pair[0].path >= pair[1].path) {
        return Err(ManifestFault::Order);
    }
    let (mut folders, mut total) = (Vec::new(), 0u64);
    for entry in entries {
        let (parent, _) = entry.path.split();
        while let Some(&folder) = folders.last()
            && Some(folder) != parent
        {
            folders.pop();
        }
        if parent != folders.last().copied() {
            return Err(ManifestFault::NoParent);
        }
        if entry.kind == Kind::Directory {
            folders.push(entry.path.as_str());
        }
        if entry.size() > MAX_FILE {
            return Err(ManifestFault::FileTooLarge);
        }
        total += entry.size(); // at most 10^6 times 2^40
    }
    if total > MAX_TOTAL { Err(ManifestFault::TotalTooLarge) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        let path = RelPath::new(path.as_bytes()).unwrap();
        Entry { path, mode: Mode::of(0o644), kind: Kind::File { size, id: ObjectId([9; 32]) } }
    }

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded(sizes in prop::collection::btree_map("[a-z]{5,9}", 0..1u64 << 36, 1..30)) {
            let manifest = Manifest::new(sizes.iter().map(|(path, size)| file(path, *size)).collect()).unwrap();
            prop_assert_eq!(manifest.total_bytes(), sizes.values().sum::<u64>());
            prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
        }

        #[test]
        fn altered_bytes_are_refused_or_canonical(at in 0usize..120, to: u8) {
            let manifest = Manifest::new(vec![file("some/name", 3), file("some", 0), file("x", 1)]);
            prop_assert!(matches!(manifest, Err(Error::Manifest(ManifestFault::NoParent))));
            let mut bytes = Manifest::new(vec![file("some", 0), file("some more", 7)]).unwrap().encode();
            let at = at % bytes.len();
            bytes[at] = to;
            if let Ok(manifest) = Manifest::decode(&bytes) {
                prop_assert_eq!(manifest.encode(), bytes);
            }
        }
    }

    #[test]
    fn limits_hold_to_the_entry_and_to_the_byte() {
        let mut entries: Vec<Entry> = (0..MAX_ENTRIES).map(|number| file(&number.to_string(), 0)).collect();
        assert_eq!(Manifest::decode(&Manifest::new(entries.clone()).unwrap().encode()).unwrap().files(), MAX_ENTRIES);
        entries.push(file("more", 0));
        assert!(matches!(Manifest::new(entries), Err(Error::Manifest(ManifestFault::TooManyEntries))));
        let too_long = vec![VERSION; MAX_MANIFEST + 1];
        assert!(matches!(Manifest::decode(&too_long), Err(Error::Manifest(ManifestFault::TooLong))));
    }
}
