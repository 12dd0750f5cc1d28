//! Piece arithmetic: what a getter asks for, by global number (spec 7.5). No bytes, no I/O.

use std::ops::Range;

use crate::error::Error;
use crate::manifest::{Entry, Kind, MAX_FILE, MAX_MANIFEST, Manifest, Mode};
use crate::name::Name;
use crate::tree::{CHUNK, ObjectId, tree_len};

/// Global number of a piece: the manifest's pieces first, then the trees', then the chunks of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece(pub u64);

/// What is offered, as the OFFER message tells it (spec 7.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// One file, whose id is the ticket's.
    File {
        /// Its name.
        name: Name,
        /// Bytes.
        size: u64,
        /// Permissions.
        mode: Mode,
    },
    /// Files and folders, whose manifest's id is the ticket's.
    Set {
        /// Bytes of the manifest.
        manifest_len: u64,
    },
}

impl Root {
    /// At most 266 bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::File { name, size, mode } => {
                let mut out = vec![0];
                out.extend(size.to_be_bytes());
                out.extend(mode.bits().to_be_bytes());
                out.extend(name.as_str().as_bytes());
                out
            }
            Self::Set { manifest_len } => [&[1][..], &manifest_len.to_be_bytes()].concat(),
        }
    }

    /// Reads what [`Root::encode`] wrote: [`Error::Root`] or [`Error::Name`] otherwise.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (&kind, rest) = bytes.split_first().ok_or(Error::Root)?;
        let (&number, rest) = rest.split_first_chunk().ok_or(Error::Root)?;
        let number = u64::from_be_bytes(number);
        match kind {
            0 if number <= MAX_FILE => {
                let (&mode, name) = rest.split_first_chunk().ok_or(Error::Root)?;
                let mode = Mode::new(u16::from_be_bytes(mode)).ok_or(Error::Root)?;
                let name = std::str::from_utf8(name).map_err(|_| Error::Root)?;
                Ok(Self::File { name: Name::new(name)?, size: number, mode })
            }
            1 if rest.is_empty() && (1..=MAX_MANIFEST as u64).contains(&number) => {
                Ok(Self::Set { manifest_len: number })
            }
            _ => Err(Error::Root),
        }
    }

    /// The manifest of one entry that stands for a single file.
    pub(crate) fn single(&self, id: ObjectId) -> Option<Manifest> {
        let Self::File { name, size, mode } = self else { return None };
        let kind = Kind::File { size: *size, id };
        Some(Manifest::single(Entry { path: name.clone().into(), mode: *mode, kind }))
    }
}

/// What a piece is; offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Bytes of the manifest from `offset`.
    Manifest {
        /// Where in the manifest.
        offset: u64,
    },
    /// Bytes of all trees, one after the other, from `offset`.
    Tree {
        /// Where in the trees.
        offset: u64,
    },
    /// A chunk of a file.
    File {
        /// Index into [`Manifest::entries`]; 0 for a single file.
        entry: usize,
        /// Where in the file.
        offset: u64,
        /// Which chunk of the file.
        chunk: u64,
    },
}

/// Which pieces there are. Knows only the manifest's until [`Layout::with_manifest`].
#[derive(Debug, Clone)]
pub struct Layout {
    manifest_len: u64,
    trees_len: u64,
    /// One a manifest entry, and one more for the end.
    files: Vec<Start>,
    sizes: Vec<u64>,
}

/// What lies before a file.
#[derive(Debug, Clone, Copy, Default)]
struct Start {
    chunks: u64,
    tree: u64,
}

impl Layout {
    /// Complete for a file; for a set only its manifest's pieces.
    pub fn new(root: &Root) -> Self {
        match root {
            Root::File { size, .. } => Self::of(0, std::iter::once(*size)),
            Root::Set { manifest_len } => Self::of(*manifest_len, std::iter::empty()),
        }
    }

    /// Adds the pieces that the manifest of a set tells of.
    pub fn with_manifest(self, manifest: &Manifest) -> Self {
        Self::of(self.manifest_len, manifest.entries().iter().map(Entry::size))
    }

    fn of(manifest_len: u64, sizes: impl Iterator<Item = u64>) -> Self {
        let sizes: Vec<u64> = sizes.collect();
        let mut next = Start::default();
        let mut files = vec![next];
        for &size in &sizes {
            next = Start { chunks: next.chunks + pieces(size), tree: next.tree + 32 * tree_len(size) };
            files.push(next);
        }
        Self { manifest_len, trees_len: next.tree, files, sizes }
    }

    /// Pieces of the manifest.
    pub fn manifest_pieces(&self) -> Range<u64> {
        0..pieces(self.manifest_len)
    }

    /// Pieces of the trees.
    pub fn tree_pieces(&self) -> Range<u64> {
        let start = self.manifest_pieces().end;
        start..start + pieces(self.trees_len)
    }

    /// Pieces that are chunks of files.
    pub fn file_pieces(&self) -> Range<u64> {
        let start = self.tree_pieces().end;
        start..start + self.files.last().map_or(0, |end| end.chunks)
    }

    /// All pieces known.
    pub fn total_pieces(&self) -> u64 {
        self.file_pieces().end
    }

    /// Bytes of the manifest.
    pub fn manifest_len(&self) -> u64 {
        self.manifest_len
    }

    /// Bytes of all trees.
    pub fn trees_len(&self) -> u64 {
        self.trees_len
    }

    /// What `piece` is; `None` past the end.
    pub fn what(&self, piece: Piece) -> Option<Where> {
        let Piece(number) = piece;
        if self.manifest_pieces().contains(&number) {
            return Some(Where::Manifest { offset: number * CHUNK as u64 });
        }
        if self.tree_pieces().contains(&number) {
            return Some(Where::Tree { offset: (number - self.tree_pieces().start) * CHUNK as u64 });
        }
        if !self.file_pieces().contains(&number) {
            return None;
        }
        let number = number - self.file_pieces().start;
        let entry = self.files.partition_point(|start| start.chunks <= number) - 1;
        let chunk = number - self.files[entry].chunks;
        Some(Where::File { entry, offset: chunk * CHUNK as u64, chunk })
    }

    /// Bytes of `piece`, 1..=[`CHUNK`]; `None` past the end.
    pub fn piece_len(&self, piece: Piece) -> Option<usize> {
        let left = match self.what(piece)? {
            Where::Manifest { offset } => self.manifest_len - offset,
            Where::Tree { offset } => self.trees_len - offset,
            Where::File { entry, offset, .. } => self.sizes[entry] - offset,
        };
        Some(left.min(CHUNK as u64) as usize)
    }

    /// The pieces of a manifest entry.
    pub fn entry_pieces(&self, entry: usize) -> Range<u64> {
        let start = self.file_pieces().start;
        start + self.files[entry].chunks..start + self.files[entry + 1].chunks
    }

    /// The bytes of an entry's tree among all trees; empty for a file of one chunk or none.
    pub fn tree_range(&self, entry: usize) -> Range<u64> {
        self.files[entry].tree..self.files[entry + 1].tree
    }
}

fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::RelPath;

    fn manifest(sizes: &[u64]) -> Manifest {
        let entry = |(number, &size): (usize, &u64)| Entry {
            path: RelPath::new(format!("{number:04}").as_bytes()).unwrap(),
            mode: Mode::of(0o644),
            kind: Kind::File { size, id: ObjectId([0; 32]) },
        };
        Manifest::new(sizes.iter().enumerate().map(entry).collect()).unwrap()
    }

    fn sizes() -> impl Strategy<Value = Vec<u64>> {
        let chunk = CHUNK as u64;
        let edge =
            prop_oneof![Just(0), Just(1), Just(chunk - 1), Just(chunk), Just(chunk + 1), 0..5 * chunk, Just(1 << 36)];
        prop::collection::vec(edge, 1..20)
    }

    proptest! {
        #[test]
        fn pieces_cover_every_byte_once_and_in_order(sizes in sizes(), manifest_len in 1..3 * CHUNK as u64) {
            let layout = Layout::new(&Root::Set { manifest_len }).with_manifest(&manifest(&sizes));
            let (mut next_manifest, mut next_tree) = (0, 0);
            let mut written = vec![0u64; sizes.len()];
            // Large files are looked at only around their edges.
            let all = layout.total_pieces();
            prop_assume!(all < 1 << 21);
            for number in (0..all).filter(|number| number % 97 == 0 || all < 4096 || all - number < 64) {
                let len = layout.piece_len(Piece(number)).unwrap() as u64;
                prop_assert!((1..=CHUNK as u64).contains(&len));
                match layout.what(Piece(number)).unwrap() {
                    Where::Manifest { offset } => {
                        prop_assert_eq!(offset, next_manifest);
                        next_manifest += len;
                    }
                    Where::Tree { offset } => {
                        prop_assert!(next_tree == offset || all >= 4096);
                        next_tree = offset + len;
                    }
                    Where::File { entry, offset, chunk } => {
                        prop_assert_eq!(offset, chunk * CHUNK as u64);
                        prop_assert_eq!(layout.entry_pieces(entry).start + chunk, number);
                        prop_assert!(written[entry] == offset || all >= 4096);
                        prop_assert!(entry + 1 == sizes.len() || written[entry + 1] == 0);
                        written[entry] = offset + len;
                    }
                }
            }
            if all < 4096 {
                prop_assert_eq!(next_manifest, manifest_len);
                prop_assert_eq!(next_tree, manifest(&sizes).trees_len());
                prop_assert_eq!(written, sizes);
            }
            prop_assert_eq!(layout.what(Piece(all)), None);
            prop_assert_eq!(layout.piece_len(Piece(u64::MAX)), None);
        }
    }

    #[test]
    fn trees_lie_back_to_back_and_small_files_have_none() {
        let chunk = CHUNK as u64;
        let layout =
            Layout::new(&Root::Set { manifest_len: 9 }).with_manifest(&manifest(&[chunk, 2 * chunk, 0, chunk + 1]));
        assert_eq!([0, 1, 2, 3].map(|entry| layout.tree_range(entry)), [0..0, 0..64, 64..64, 64..128]);
        assert_eq!([0, 1, 2, 3].map(|entry| layout.entry_pieces(entry)), [2..3, 3..5, 5..5, 5..7]);
        assert_eq!((layout.manifest_pieces(), layout.tree_pieces(), layout.file_pieces()), (0..1, 1..2, 2..7));
    }

    #[test]
    fn a_single_file_has_no_manifest_and_a_set_has_nothing_else_at_first() {
        let root = Root::File { name: Name::new("a").unwrap(), size: 2 * CHUNK as u64, mode: Mode::of(0o600) };
        let layout = Layout::new(&root);
        assert_eq!((layout.manifest_pieces(), layout.tree_pieces(), layout.total_pieces()), (0..0, 0..1, 3));
        assert_eq!(layout.piece_len(Piece(0)), Some(64));
        assert_eq!(Layout::new(&Root::Set { manifest_len: CHUNK as u64 + 1 }).total_pieces(), 2);
    }
}
