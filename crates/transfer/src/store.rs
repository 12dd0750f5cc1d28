//! The getter's disk: verified pieces go in, whole files under their final names come out (spec 10).
//!
//! [`Store::open`], then [`Store::set_manifest`] if [`Store::needs_manifest`], [`Store::set_trees`] if
//! [`Store::needs_trees`], [`Store::write`] for what is [`Store::missing`], and [`Store::finish`]. A store dropped on the
//! way is taken up again by the next `open`. The journal is in `store/journal.rs`, the files in `store/staged.rs`.

mod journal;
mod staged;

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use self::journal::Journal;
use self::staged::Staged;
use crate::error::Error;
use crate::layout::{Layout, Piece, Root, Where};
use crate::manifest::{Entry, Kind, Manifest};
use crate::name::STAGING_PREFIX;
use crate::tree::{CHUNK, ChainingValue, ObjectId, chunk_value, verify_tree};

/// One transfer's place on disk, locked against other processes.
pub struct Store {
    dir: PathBuf,
    staging: PathBuf,
    _lock: File,
    id: ObjectId,
    /// Tells this transfer from any other with the same staging folder.
    identity: [u8; 32],
    layout: Layout,
    /// Of one entry for a single file.
    manifest: Option<Manifest>,
    /// The verified trees, on disk: 32 bytes a chunk are read when it arrives.
    trees: Option<File>,
    staged: Staged,
    journal: Option<Journal>,
    /// One a chunk of the files.
    have: Vec<bool>,
    bytes_done: u64,
    /// Top-level names that an interrupted [`Store::finish`] has moved to their final place.
    released: HashSet<String>,
    /// Whether nothing worth keeping was or has been staged, chunks apart.
    fresh: bool,
}

impl Store {
    /// Takes up the transfer of `id` into the folder `dir` (made if missing), or begins it.
    ///
    /// Chunks that an earlier run wrote count; they are hashed again first if the machine was started anew since.
    /// Fails with [`Error::Exists`] when a final name is taken, [`Error::Busy`] when another process has the lock,
    /// [`Error::OutOfSpace`], or [`Error::Io`], as when `dir` cannot be written to.
    pub fn open(dir: &Path, id: ObjectId, root: &Root) -> Result<Self, Error> {
        Self::open_booted(dir, id, root, journal::boot())
    }

    fn open_booted(dir: &Path, id: ObjectId, root: &Root, boot: Option<[u8; 32]>) -> Result<Self, Error> {
        fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
        let dir = fs::canonicalize(dir).map_err(Error::io("find", dir))?;
        let staging = dir.join(format!("{STAGING_PREFIX}{}", &id.to_string()[..16]));
        let lock = take_staging(&staging)?;
        let identity = *blake3::Hasher::new().update(&id.0).update(&root.encode()).finalize().as_bytes();
        let fresh = match find_journal(&staging, identity, boot)? {
            journal::Found::Claims { .. } => false,
            journal::Found::Nothing => true,
            journal::Found::Foreign => {
                clear(&staging)?;
                true
            }
        };
        let staged = staging.join("tree");
        let staged = Staged::open(staged.clone()).map_err(Error::io("create", staged))?;
        let layout = Layout::new(root);
        let mut store = Self {
            dir,
            staging,
            _lock: lock,
            id,
            identity,
            layout,
            manifest: None,
            trees: None,
            staged,
            journal: None,
            have: Vec::new(),
            bytes_done: 0,
            released: HashSet::new(),
            fresh,
        };
        if let Some(single) = root.single(id) {
            store.adopt(single, boot)?;
        } else if let Some(bytes) = store.saved("manifest", store.layout.manifest_len())
            && ObjectId::of(&bytes) == id
        {
            store.adopt(Manifest::decode(&bytes)?, boot)?;
        }
        Ok(store)
    }

    /// The pieces, as far as they are known.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What will be there in the end, once known; for a single file, its one entry.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Whether [`Store::set_manifest`] comes next.
    pub fn needs_manifest(&self) -> bool {
        self.journal.is_none()
    }

    /// Whether [`Store::set_trees`] comes next (after the manifest, if that is needed too).
    pub fn needs_trees(&self) -> bool {
        self.trees.is_none() && self.layout.trees_len() > 0
    }

    /// Takes the manifest's bytes: verifies, decodes, checks that names are free and space suffices, and saves it.
    pub fn set_manifest(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.set_manifest_booted(bytes, journal::boot())
    }

    fn set_manifest_booted(&mut self, bytes: &[u8], boot: Option<[u8; 32]>) -> Result<(), Error> {
        if ObjectId::of(bytes) != self.id || bytes.len() as u64 != self.layout.manifest_len() {
            return Err(Error::ManifestMismatch);
        }
        if self.journal.is_some() {
            return Ok(());
        }
        self.adopt(Manifest::decode(bytes)?, boot)?;
        self.fresh = false;
        self.save("manifest", bytes)
    }

    /// Takes all trees, one after the other in the manifest's order; verifies each and saves them.
    pub fn set_trees(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check_trees(bytes)?;
        self.save("trees", bytes)?;
        self.open_trees()
    }

    /// Whether a chunk of a file has been written. False for other pieces.
    pub fn have(&self, piece: Piece) -> bool {
        self.index(piece).is_some_and(|index| self.have[index])
    }

    /// The chunks of files that are still to be fetched, by piece number; empty until the manifest is known.
    pub fn missing(&self) -> Vec<Range<u64>> {
        let mut next = self.layout.file_pieces().start;
        let runs = self.have.chunk_by(|a, b| a == b).map(|run| {
            next += run.len() as u64;
            (run[0], next - run.len() as u64..next)
        });
        runs.filter_map(|(have, range)| (!have).then_some(range)).collect()
    }

    /// Bytes of files written and verified.
    pub fn bytes_done(&self) -> u64 {
        self.bytes_done
    }

    /// Bytes of all files; 0 until the manifest is known.
    pub fn bytes_total(&self) -> u64 {
        self.manifest.as_ref().map_or(0, Manifest::total_bytes)
    }

    /// Number of files; 0 until the manifest is known.
    pub fn files_total(&self) -> usize {
        self.manifest.as_ref().map_or(0, Manifest::files)
    }

    /// Verifies `bytes` as the chunk `piece` and, only then, writes them in their place. A chunk that is there already is
    /// left as it is.
    ///
    /// Fails with [`Error::Mismatch`] when they are not that chunk, [`Error::NoSuchPiece`] when `piece` is not a chunk of a
    /// file or has another length, [`Error::TooEarly`] before [`Store::set_trees`], [`Error::OutOfSpace`], [`Error::Io`].
    pub fn write(&mut self, piece: Piece, bytes: &[u8]) -> Result<(), Error> {
        let no_such = || Error::NoSuchPiece(piece);
        let index = self.index(piece).ok_or_else(no_such)?;
        let Some(Where::File { entry: number, offset, .. }) = self.layout.what(piece) else { return Err(no_such()) };
        if self.layout.piece_len(piece) != Some(bytes.len()) {
            return Err(no_such());
        }
        if self.have[index] {
            return Ok(());
        }
        let genuine = self.verify(number, offset, bytes)?;
        let entry = &self.manifest.as_ref().ok_or(Error::TooEarly)?.entries()[number];
        if !genuine {
            return Err(Error::Mismatch { piece, path: entry.path.as_path().into() });
        }
        let written = if entry.size() <= CHUNK as u64 {
            self.staged.write_whole(entry, bytes)
        } else {
            self.staged.write_chunk(number, entry, offset, bytes)
        };
        let journal = self.journal.as_mut().ok_or(Error::TooEarly)?;
        if let Err(error) = written.and_then(|()| journal.append(index as u64)) {
            return Err(self.failed_write(self.staged.place(&entry.path), error));
        }
        self.have[index] = true;
        self.bytes_done += bytes.len() as u64;
        Ok(())
    }

    /// Gives all files their modes and final names, and removes what else was written. Returns the top-level paths.
    ///
    /// Fails with [`Error::TooEarly`] when something is missing, [`Error::Exists`] when a final name was taken meanwhile
    /// (what is not yet in its place stays staged), [`Error::Io`].
    pub fn finish(mut self) -> Result<Vec<PathBuf>, Error> {
        let Some(manifest) = self.manifest.take().filter(|_| self.have.iter().all(|have| *have)) else {
            return Err(Error::TooEarly);
        };
        self.fresh = false;
        for entry in manifest.entries().iter().filter(|entry| !self.released.contains(entry.path.top())) {
            let Kind::File { size, .. } = entry.kind else { continue };
            let empty = if size == 0 { self.staged.write_whole(entry, &[]) } else { Ok(()) };
            let done = empty.and_then(|()| self.staged.finish_mode(entry));
            done.map_err(Error::io("finish", self.staged.place(&entry.path)))?;
        }
        self.save("finishing", &[])?;
        let dir = File::open(&self.dir).map_err(Error::io("open", &self.dir))?;
        let mut finals = Vec::new();
        for Entry { path, .. } in manifest.entries().iter().filter(|entry| entry.path.split().0.is_none()) {
            let to = self.dir.join(path.as_path());
            if !self.released.contains(path.as_str()) {
                self.staged.release(path.as_str(), &dir).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => Error::Exists { path: to.clone() },
                    _ => Error::io("create", &to)(error),
                })?;
            }
            finals.push(to);
        }
        dir.sync_all().map_err(Error::io("save", &self.dir))?;
        fs::remove_dir_all(&self.staging).map_err(Error::io("remove", &self.staging))?;
        Ok(finals)
    }

    /// Makes everything ready for the files of `manifest`, and counts what is on disk already.
    fn adopt(&mut self, manifest: Manifest, boot: Option<[u8; 32]>) -> Result<(), Error> {
        self.check_names(&manifest)?;
        self.layout = self.layout.clone().with_manifest(&manifest);
        let pieces = self.layout.file_pieces();
        let mut claimed = vec![false; (pieces.end - pieces.start) as usize];
        let mut trusted = false;
        if let journal::Found::Claims { chunks, trusted: same_boot } = find_journal(&self.staging, self.identity, boot)?
        {
            trusted = same_boot;
            for chunk in chunks {
                if let Some(claim) = usize::try_from(chunk).ok().and_then(|chunk| claimed.get_mut(chunk)) {
                    *claim = true;
                }
            }
        }
        self.have = vec![false; claimed.len()];
        self.manifest = Some(manifest);
        if let Some(bytes) = self.saved("trees", self.layout.trees_len())
            && self.check_trees(&bytes).is_ok()
        {
            self.open_trees()?;
        }
        self.make_folders()?;
        let on_disk = self.take_claims(&claimed, trusted)?;
        let needed = self.bytes_total().saturating_sub(on_disk);
        let available = self.available()?;
        if needed > available {
            return Err(Error::OutOfSpace { path: self.dir.clone(), needed, available });
        }
        let have = self.have.iter().enumerate().filter_map(|(chunk, have)| have.then_some(chunk as u64));
        let journal = Journal::create(&self.staging, self.identity, boot, have);
        self.journal = Some(journal.map_err(|error| self.failed_write(journal::path(&self.staging), error))?);
        Ok(())
    }

    /// Refuses final names that are taken, except by what an interrupted `finish` put there.
    fn check_names(&mut self, manifest: &Manifest) -> Result<(), Error> {
        let finishing = self.staging.join("finishing").exists();
        for Entry { path, .. } in manifest.entries().iter().filter(|entry| entry.path.split().0.is_none()) {
            let to = self.dir.join(path.as_path());
            if to.symlink_metadata().is_err() {
                continue;
            }
            if !finishing || self.staged.place(path).symlink_metadata().is_ok() {
                return Err(Error::Exists { path: to });
            }
            self.released.insert(path.as_str().into());
        }
        Ok(())
    }

    fn make_folders(&mut self) -> Result<(), Error> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        for entry in manifest.entries() {
            if entry.kind == Kind::Directory && !self.released.contains(entry.path.top()) {
                let path = self.staged.place(&entry.path);
                self.staged.make_folder(entry).map_err(Error::io("create", path))?;
            }
        }
        Ok(())
    }

    /// Counts the claimed chunks that are really there. Returns how many bytes of the files have their blocks on disk.
    fn take_claims(&mut self, claimed: &[bool], trusted: bool) -> Result<u64, Error> {
        let Some(manifest) = self.manifest.take() else { return Ok(0) };
        let (mut on_disk, mut buf) = (0, vec![0; CHUNK]);
        for (number, entry) in manifest.entries().iter().enumerate() {
            let first = self.layout.file_pieces().start;
            let pieces = self.layout.entry_pieces(number);
            let chunks = (pieces.start - first) as usize..(pieces.end - first) as usize;
            let released = self.released.contains(entry.path.top());
            let found = if released { None } else { self.staged.find(&entry.path) };
            on_disk += if released { entry.size() } else { 0 };
            on_disk += found.as_ref().map_or(0, |found| found.blocks.min(entry.size()));
            if released || (trusted && found.is_some_and(|found| found.size == entry.size())) {
                for chunk in chunks {
                    self.count(chunk, released || claimed[chunk]);
                }
            } else if claimed[chunks.clone()].contains(&true)
                && let Ok(file) = self.staged.read(&entry.path)
            {
                for (chunk, offset) in chunks.zip((0..).step_by(CHUNK)).filter(|(chunk, _)| claimed[*chunk]) {
                    let bytes = &mut buf[..(entry.size() - offset).min(CHUNK as u64) as usize];
                    let intact = file.read_exact_at(bytes, offset).is_ok()
                        && self.verify_entry(number, entry, offset, bytes).is_ok_and(|genuine| genuine);
                    self.count(chunk, intact);
                }
            }
        }
        self.manifest = Some(manifest);
        Ok(on_disk)
    }

    fn count(&mut self, chunk: usize, have: bool) {
        let piece = Piece(self.layout.file_pieces().start + chunk as u64);
        if have && !std::mem::replace(&mut self.have[chunk], true) {
            self.bytes_done += self.layout.piece_len(piece).unwrap_or(0) as u64;
        }
    }

    fn verify(&self, number: usize, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        let manifest = self.manifest.as_ref().ok_or(Error::TooEarly)?;
        self.verify_entry(number, &manifest.entries()[number], offset, bytes)
    }

    fn verify_entry(&self, number: usize, entry: &Entry, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        let Kind::File { size, id } = entry.kind else { return Ok(false) };
        if size <= CHUNK as u64 {
            return Ok(ObjectId::of(bytes) == id);
        }
        let trees = self.trees.as_ref().ok_or(Error::TooEarly)?;
        let mut value: ChainingValue = [0; 32];
        let at = self.layout.tree_range(number).start + 32 * (offset / CHUNK as u64);
        trees.read_exact_at(&mut value, at).map_err(Error::io("read", self.staging.join("trees")))?;
        Ok(chunk_value(offset, bytes) == value)
    }

    fn check_trees(&self, bytes: &[u8]) -> Result<(), Error> {
        let manifest = self.manifest.as_ref().ok_or(Error::TooEarly)?;
        for (number, entry) in manifest.entries().iter().enumerate() {
            let Kind::File { size, id } = entry.kind else { continue };
            let range = self.layout.tree_range(number);
            let tree = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
            if !range.is_empty() && !verify_tree(id, size, tree.as_chunks().0) {
                return Err(Error::TreeMismatch { path: entry.path.as_path().into() });
            }
        }
        if bytes.len() as u64 == self.layout.trees_len() { Ok(()) } else { Err(Error::Root) }
    }

    fn open_trees(&mut self) -> Result<(), Error> {
        let path = self.staging.join("trees");
        self.trees = Some(File::open(&path).map_err(Error::io("open", path))?);
        Ok(())
    }

    /// A file of the staging folder, if it has the length that it must have.
    fn saved(&self, name: &str, len: u64) -> Option<Vec<u8>> {
        let path = self.staging.join(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        (len > 0 && metadata.is_file() && metadata.len() == len).then(|| fs::read(path).ok())?
    }

    /// Writes a file of the staging folder, whole or not at all.
    fn save(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let (path, new) = (self.staging.join(name), self.staging.join(format!("{name}.new")));
        fs::write(&new, bytes).and_then(|()| fs::rename(new, &path)).map_err(|error| self.failed_write(path, error))
    }

    fn index(&self, piece: Piece) -> Option<usize> {
        let pieces = self.layout.file_pieces();
        pieces.contains(&piece.0).then(|| (piece.0 - pieces.start) as usize)
    }

    fn available(&self) -> Result<u64, Error> {
        let stat = rustix::fs::statvfs(&self.dir).map_err(|errno| Error::io("examine", &self.dir)(errno.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn failed_write(&self, path: PathBuf, error: io::Error) -> Error {
        if error.kind() == ErrorKind::StorageFull {
            let (needed, available) = (self.bytes_total() - self.bytes_done, self.available().unwrap_or(0));
            return Error::OutOfSpace { path: self.dir.clone(), needed, available };
        }
        Error::io("write", path)(error)
    }
}

/// A transfer that got nowhere leaves nothing.
impl Drop for Store {
    fn drop(&mut self) {
        if self.fresh && self.bytes_done == 0 {
            // A folder that cannot be removed is taken up, or shown in an error, by the next `open`.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

/// Makes or enters the staging folder, sees that it is ours alone, and locks it.
fn take_staging(staging: &Path) -> Result<File, Error> {
    match DirBuilder::new().mode(0o700).create(staging) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::io("create", staging)(error)),
        _ => {}
    }
    let metadata = fs::symlink_metadata(staging).map_err(Error::io("examine", staging))?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
    if !metadata.is_dir() || !ours {
        return Err(Error::ForeignStaging { path: staging.into() });
    }
    let path = staging.join("lock");
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(&path);
    let lock = lock.map_err(Error::io("create", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::Busy { path: staging.into() }),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

fn find_journal(staging: &Path, identity: [u8; 32], boot: Option<[u8; 32]>) -> Result<journal::Found, Error> {
    Journal::find(staging, identity, boot).map_err(Error::io("read", journal::path(staging)))
}

/// Removes all but the lock, which is held.
fn clear(staging: &Path) -> Result<(), Error> {
    for item in fs::read_dir(staging).map_err(Error::io("list", staging))? {
        let path = item.map_err(Error::io("list", staging))?.path();
        let removed = match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            _ if path.ends_with("lock") => Ok(()),
            _ => fs::remove_file(&path),
        };
        removed.map_err(Error::io("remove", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
