//! The provider's side of the disk: hashes what is offered once, then serves pieces of it.

use std::collections::VecDeque;
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;

use crate::error::Error;
use crate::layout::{Layout, Piece, Root, Where};
use crate::manifest::{Entry, Kind, MAX_ENTRIES, MAX_MANIFEST, Manifest, ManifestFault, Mode};
use crate::name::{Name, RelPath, STAGING_PREFIX};
use crate::tree::{ObjectId, hash_file};

/// Files kept open; well below the usual limit of 1024 descriptors.
const MAX_OPEN: usize = 64;

/// How far [`Offer::from_paths`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashProgress {
    /// Files hashed.
    pub files: usize,
    /// Files to hash.
    pub files_total: usize,
    /// Bytes hashed.
    pub bytes: u64,
    /// Bytes to hash.
    pub bytes_total: u64,
}

/// Files and folders, hashed and ready to be served.
///
/// Shared by all sessions: reading takes `&self` and keeps at most 64 files open.
pub struct Offer {
    id: ObjectId,
    root: Root,
    layout: Layout,
    manifest: Manifest,
    manifest_bytes: Vec<u8>,
    trees: Vec<u8>,
    /// One an entry of the manifest.
    sources: Vec<Source>,
    skipped: Vec<PathBuf>,
    open: Mutex<VecDeque<(usize, Arc<File>)>>,
}

/// A file or folder as the walk found it.
struct Source {
    path: PathBuf,
    stamp: Stamp,
}

/// What tells that a file is still the one that was hashed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    mtime: (i64, i64),
    inode: (u64, u64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

impl crate::Content for Offer {
    fn id(&self) -> ObjectId {
        self.id
    }

    fn root(&self) -> &Root {
        &self.root
    }

    fn piece_len(&self, piece: Piece) -> Option<usize> {
        self.piece_len(piece)
    }

    fn read(&self, piece: Piece, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        self.read(piece, offset, buf)
    }
}

impl Offer {
    /// Walks and hashes `paths`. One regular file is offered as itself, everything else as a set under the last
    /// components of `paths`. A path given here may be a symbolic link; links found in folders are left out.
    pub fn from_paths(paths: &[PathBuf], progress: &mut dyn FnMut(HashProgress)) -> Result<Self, Error> {
        let mut walk = Walk::default();
        for path in paths {
            walk.start(path)?;
        }
        walk.found.sort_unstable_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        if let Some(pair) = walk.found.windows(2).find(|pair| pair[0].0.path == pair[1].0.path) {
            return Err(Error::SameName { path: pair[1].1.path.clone() });
        }
        let (mut entries, sources): (Vec<_>, Vec<_>) = walk.found.into_iter().unzip();
        let trees = hash_all(&mut entries, &sources, progress)?;

        let (id, root, manifest, manifest_bytes) = match &entries[..] {
            [] => return Err(Error::NothingOffered),
            [Entry { path, mode, kind: Kind::File { size, id } }] => {
                let root = Root::File { name: Name::new(path.as_str())?, size: *size, mode: *mode };
                (*id, root, Manifest::new(entries)?, Vec::new())
            }
            _ => {
                let manifest = Manifest::new(entries)?;
                let bytes = manifest.encode();
                if bytes.len() > MAX_MANIFEST {
                    return Err(ManifestFault::TooLong.into());
                }
                (ObjectId::of(&bytes), Root::Set { manifest_len: bytes.len() as u64 }, manifest, bytes)
            }
        };
        let layout = Layout::new(&root).with_manifest(&manifest);
        let (skipped, open) = (walk.skipped, Mutex::default());
        Ok(Self { id, root, layout, manifest, manifest_bytes, trees, sources, skipped, open })
    }

    /// The id that the ticket names.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// What the OFFER message says.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Which pieces there are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.manifest.total_bytes()
    }

    /// Number of files.
    pub fn files(&self) -> usize {
        self.manifest.files()
    }

    /// What lies in the offered folders and is not offered: links, devices, sockets, and staging folders.
    pub fn skipped(&self) -> &[PathBuf] {
        &self.skipped
    }

    /// Bytes of `piece`; `None` when there is no such piece.
    pub fn piece_len(&self, piece: Piece) -> Option<usize> {
        self.layout.piece_len(piece)
    }

    /// Fills `buf` with the bytes of `piece` from `offset`.
    ///
    /// Fails with [`Error::NoSuchPiece`] when they are not all within the piece, and with [`Error::FileChanged`] when
    /// the file is no longer the one that was hashed. (A change that this misses is caught by the getter.)
    pub fn read(&self, piece: Piece, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        let no_such = || Error::NoSuchPiece(piece);
        let len = self.piece_len(piece).ok_or_else(no_such)?;
        if offset.checked_add(buf.len()).is_none_or(|end| end > len) {
            return Err(no_such());
        }
        let copy =
            |buf: &mut [u8], from: &[u8], at: u64| buf.copy_from_slice(&from[at as usize + offset..][..buf.len()]);
        match self.layout.what(piece).ok_or_else(no_such)? {
            Where::Manifest { offset: at } => copy(buf, &self.manifest_bytes, at),
            Where::Tree { offset: at } => copy(buf, &self.trees, at),
            Where::File { entry, offset: at, .. } => {
                let changed = |_| Error::FileChanged { path: self.sources[entry].path.clone() };
                self.file(entry)?.read_exact_at(buf, at + offset as u64).map_err(changed)?;
            }
        }
        Ok(())
    }

    /// The open file of an entry, unchanged since it was hashed.
    fn file(&self, entry: usize) -> Result<Arc<File>, Error> {
        let source = &self.sources[entry];
        let cached = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let place = open.iter().position(|(held, _)| *held == entry);
            place.and_then(|place| open.remove(place)).map(|held| {
                open.push_back(held.clone());
                held.1
            })
        };
        let file = match cached {
            Some(file) => file,
            None => {
                let file = Arc::new(open_regular(&source.path)?);
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                if open.len() == MAX_OPEN {
                    open.pop_front();
                }
                open.push_back((entry, Arc::clone(&file)));
                file
            }
        };
        let now = file.metadata().map_err(Error::io("read", &source.path))?;
        if Stamp::of(&now) == source.stamp { Ok(file) } else { Err(Error::FileChanged { path: source.path.clone() }) }
    }
}

#[derive(Default)]
struct Walk {
    found: Vec<(Entry, Source)>,
    skipped: Vec<PathBuf>,
}

impl Walk {
    fn start(&mut self, given: &Path) -> Result<(), Error> {
        let real = fs::canonicalize(given).map_err(Error::io("find", given))?;
        // `.` and `..` have no name of their own.
        let name = given.file_name().or(real.file_name()).ok_or_else(|| Error::NotAFile { path: given.into() })?;
        let path = RelPath::from(Name::new(name).map_err(naming(&real))?);
        let metadata = fs::metadata(&real).map_err(Error::io("read", &real))?;
        if !self.add(path.clone(), &real, &metadata)? {
            return Err(Error::NotAFile { path: given.into() });
        }
        let mut folders = vec![(path, real)];
        while let Some((path, real)) = folders.pop() {
            if !fs::metadata(&real).map_err(Error::io("read", &real))?.is_dir() {
                continue;
            }
            for item in fs::read_dir(&real).map_err(Error::io("list", &real))? {
                let item = item.map_err(Error::io("list", &real))?;
                if item.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
                    self.skipped.push(item.path());
                    continue;
                }
                let name = Name::new(item.file_name());
                let path = name.and_then(|name| path.join(&name)).map_err(naming(&item.path()))?;
                let metadata = item.metadata().map_err(Error::io("read", item.path()))?;
                if !self.add(path.clone(), &item.path(), &metadata)? {
                    self.skipped.push(item.path());
                } else if metadata.is_dir() {
                    folders.push((path, item.path()));
                }
            }
        }
        Ok(())
    }

    /// Whether it is something to offer. Ids are still to be filled in.
    fn add(&mut self, path: RelPath, real: &Path, metadata: &Metadata) -> Result<bool, Error> {
        let kind = if metadata.is_dir() {
            Kind::Directory
        } else if metadata.is_file() {
            Kind::File { size: metadata.len(), id: ObjectId([0; 32]) }
        } else {
            return Ok(false);
        };
        if self.found.len() == MAX_ENTRIES {
            return Err(ManifestFault::TooManyEntries.into());
        }
        let source = Source { path: real.into(), stamp: Stamp::of(metadata) };
        self.found.push((Entry { path, mode: Mode::of(metadata.mode()), kind }, source));
        Ok(true)
    }
}

/// Fills in the ids; returns all trees, one after the other.
fn hash_all(
    entries: &mut [Entry],
    sources: &[Source],
    progress: &mut dyn FnMut(HashProgress),
) -> Result<Vec<u8>, Error> {
    let mut state = HashProgress { files: 0, files_total: 0, bytes: 0, bytes_total: 0 };
    for entry in &*entries {
        state.files_total += usize::from(entry.kind != Kind::Directory);
        state.bytes_total = state.bytes_total.saturating_add(entry.size());
    }
    let mut trees = Vec::new();
    for (entry, source) in entries.iter_mut().zip(sources) {
        let Kind::File { size, id } = &mut entry.kind else { continue };
        let file = open_regular(&source.path)?;
        let hashed = hash_file(&file, &mut |len| {
            state.bytes += len;
            progress(state);
        })
        .map_err(Error::io("read", &source.path))?;
        let now = file.metadata().map_err(Error::io("read", &source.path))?;
        if Stamp::of(&now) != source.stamp || hashed.size != *size {
            return Err(Error::FileChanged { path: source.path.clone() });
        }
        *id = hashed.id;
        trees.extend(hashed.tree.iter().flatten());
        state.files += 1;
        progress(state);
    }
    Ok(trees)
}

/// For `map_err`: where the file is whose name is not safe.
fn naming(path: &Path) -> impl FnOnce(Error) -> Error {
    move |error| match error {
        Error::Name { fault, .. } => Error::Name { name: path.into(), fault },
        other => other,
    }
}

/// Opens a file that the walk saw as a regular one: should a link or a pipe have taken its place, this neither follows
/// nor waits.
fn open_regular(path: &Path) -> Result<File, Error> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(Error::io("open", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::name::NameFault;
    use crate::tree::CHUNK;

    fn offer(paths: &[&Path]) -> Result<Offer, Error> {
        Offer::from_paths(&paths.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>(), &mut |_| ())
    }

    #[test]
    fn one_file_is_offered_as_itself_also_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, b"content").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4751)).unwrap();
        symlink(&file, &link).unwrap();
        for (path, name) in [(&file, "file"), (&link, "link")] {
            let offer = offer(&[path]).unwrap();
            assert_eq!(offer.id(), ObjectId::of(b"content"));
            let expected = Root::File { name: Name::new(name).unwrap(), size: 7, mode: Mode::of(0o751) };
            assert_eq!((offer.root(), offer.files(), offer.total_bytes()), (&expected, 1, 7));
            let mut buf = [0; 4];
            offer.read(Piece(0), 3, &mut buf).unwrap();
            assert_eq!(&buf, b"tent");
            assert!(matches!(offer.read(Piece(0), 4, &mut buf), Err(Error::NoSuchPiece(_))));
            assert!(matches!(offer.read(Piece(0), usize::MAX, &mut buf), Err(Error::NoSuchPiece(_))));
            assert!(matches!(offer.read(Piece(1), 0, &mut []), Err(Error::NoSuchPiece(_))));
        }
    }

    #[test]
    fn links_and_staging_folders_are_left_out_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir_all(folder.join(".sealane-0123456789abcdef")).unwrap();
        symlink("/etc/passwd", folder.join("link")).unwrap();
        symlink(".", folder.join("loop")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        fs::write(folder.join("file"), b"1").unwrap();
        let offer = offer(&[&folder]).unwrap();
        let mut skipped: Vec<_> = offer.skipped().iter().filter_map(|path| path.file_name()).collect();
        skipped.sort();
        assert_eq!(skipped, [".sealane-0123456789abcdef", "link", "loop", "socket"]);
        assert_eq!(offer.files(), 1);
        assert!(matches!(super::tests::offer(&[&folder.join("socket")]), Err(Error::NotAFile { .. })));
    }

    #[test]
    fn a_folder_may_be_named_by_dots() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("outer/inner")).unwrap();
        let offer = offer(&[&dir.path().join("outer/inner/..")]).unwrap();
        let paths: Vec<_> = offer.manifest.entries().iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["outer", "outer/inner"]);
    }

    #[test]
    fn what_cannot_be_offered_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/same")).unwrap();
        fs::create_dir_all(dir.path().join("b/same")).unwrap();
        let twice = offer(&[&dir.path().join("a/same"), &dir.path().join("b/same")]);
        assert!(matches!(twice, Err(Error::SameName { path }) if path.ends_with("same")));
        assert!(matches!(offer(&[]), Err(Error::NothingOffered)));
        assert!(matches!(offer(&[&dir.path().join("none")]), Err(Error::Io { doing: "find", .. })));
        fs::write(dir.path().join("a/same/back\\slash"), b"").unwrap();
        let unsafe_name = offer(&[&dir.path().join("a")]);
        assert!(matches!(
            unsafe_name,
            Err(Error::Name { fault: NameFault::Separator, name }) if name.ends_with("a/same/back\\slash")
        ));
    }

    #[test]
    fn a_changed_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let changes: [fn(&Path) -> std::io::Result<()>; 4] = [
            |file| File::options().write(true).open(file)?.set_len(5),
            |file| fs::write(file, vec![1; 2 * CHUNK + 1]),
            |file| File::options().write(true).open(file)?.set_modified(std::time::SystemTime::UNIX_EPOCH),
            |file| fs::remove_file(file).and_then(|()| symlink("/etc/passwd", file)),
        ];
        for change in changes {
            let _ = fs::remove_file(&file);
            fs::write(&file, vec![0; 2 * CHUNK]).unwrap();
            let offer = offer(&[&file]).unwrap();
            change(&file).unwrap();
            assert!(offer.read(Piece(1), 0, &mut [0; 9]).is_err());
            let mut tree = [0; 64];
            offer.read(Piece(0), 0, &mut tree).unwrap();
            assert_ne!(tree, [0; 64]);
        }
    }

    #[test]
    fn more_files_than_may_be_open_are_read_in_any_order() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("many");
        fs::create_dir(&folder).unwrap();
        for number in 0..3 * MAX_OPEN {
            fs::write(folder.join(format!("{number:04}")), number.to_be_bytes()).unwrap();
        }
        let mut last = None;
        let paths = [folder];
        let offer = Offer::from_paths(&paths, &mut |progress| last = Some(progress)).unwrap();
        let all = 3 * MAX_OPEN;
        assert_eq!(
            last,
            Some(HashProgress { files: all, files_total: all, bytes: 8 * all as u64, bytes_total: 8 * all as u64 })
        );
        let first = offer.layout().file_pieces().start;
        for number in (0..all).rev().chain([all / 2, 0, all - 1]) {
            let mut buf = [0; 8];
            offer.read(Piece(first + number as u64), 0, &mut buf).unwrap();
            assert_eq!(usize::from_be_bytes(buf), number);
            assert!(offer.open.lock().unwrap().len() <= MAX_OPEN);
        }
    }
}
