//! The staged files. Reached folder by folder from an open one; a symbolic link on the way is never followed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as rfs, AtFlags, FallocateFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::manifest::Entry;
use crate::name::RelPath;
use crate::tree::CHUNK;

/// Files of more than one chunk kept open.
const MAX_OPEN: usize = 32;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Read and write for the owner, who must finish the file, whatever mode it gets in the end.
const OWNER: u16 = 0o600;

/// A folder of staged files and what is open in it.
pub(super) struct Staged {
    path: PathBuf,
    root: OwnedFd,
    /// The folder used last: files come in order, so it is mostly the next one's too.
    last: Option<(Box<str>, OwnedFd)>,
    open: VecDeque<(usize, File)>,
}

/// A staged file as it lies on disk.
pub(super) struct Found {
    /// Bytes long.
    pub(super) size: u64,
    /// Bytes that it takes on disk.
    pub(super) blocks: u64,
}

impl Staged {
    /// Opens `path`, or makes it.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        make_folder(rfs::CWD, &path, 0o700)?;
        let root = rfs::open(&path, FOLDER, Mode::empty())?;
        Ok(Self { path, root, last: None, open: VecDeque::new() })
    }

    /// Makes the folder of an entry; its parent is there.
    pub(super) fn make_folder(&mut self, entry: &Entry) -> io::Result<()> {
        let (parent, name) = entry.path.split();
        make_folder(self.folder(parent)?, Path::new(name), entry.mode.bits() | 0o700)
    }

    /// The staged file of `path`, if it is there and a regular file.
    pub(super) fn find(&mut self, path: &RelPath) -> Option<Found> {
        let (parent, name) = path.split();
        let stat = rfs::statat(self.folder(parent).ok()?, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let positive = |number: i64| u64::try_from(number).unwrap_or(0);
        let found = Found { size: positive(stat.st_size), blocks: positive(stat.st_blocks) * 512 };
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(found)
    }

    /// Opens the staged file of `path` for reading.
    pub(super) fn read(&mut self, path: &RelPath) -> io::Result<File> {
        let (parent, name) = path.split();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(rfs::openat(self.folder(parent)?, name, flags, Mode::empty())?.into())
    }

    /// Writes a file of one chunk or none, whole, in place of whatever there is.
    pub(super) fn write_whole(&mut self, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = entry.path.split();
        let folder = self.folder(parent)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode((entry.mode.bits() | OWNER).into());
        let file = match rfs::openat(folder, name, flags, mode) {
            Err(Errno::EXIST) => {
                rfs::unlinkat(folder, name, AtFlags::empty())?;
                rfs::openat(folder, name, flags, mode)?
            }
            other => other?,
        };
        File::from(file).write_all_at(bytes, 0)
    }

    /// Writes a chunk of a larger file.
    pub(super) fn write_chunk(&mut self, index: usize, entry: &Entry, offset: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(bytes.len() <= CHUNK && offset + bytes.len() as u64 <= entry.size());
        if let Some(place) = self.open.iter().position(|(held, _)| *held == index) {
            return self.open[place].1.write_all_at(bytes, offset);
        }
        let (parent, name) = entry.path.split();
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode((entry.mode.bits() | OWNER).into());
        let file = File::from(rfs::openat(self.folder(parent)?, name, flags, mode)?);
        if file.metadata()?.len() != entry.size() {
            reserve(&file, entry.size())?;
        }
        file.write_all_at(bytes, offset)?;
        if self.open.len() == MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back((index, file));
        Ok(())
    }

    /// Takes away the permissions that only the writing needed. The others went through the umask at creation.
    pub(super) fn finish_mode(&mut self, entry: &Entry) -> io::Result<()> {
        if entry.mode.bits() & OWNER == OWNER {
            return Ok(());
        }
        let (parent, name) = entry.path.split();
        let folder = self.folder(parent)?;
        let now = Mode::from_raw_mode(rfs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        let wanted = now & Mode::from_raw_mode(entry.mode.bits().into());
        if now != wanted {
            rfs::fchmod(self.read(&entry.path)?, wanted)?;
        }
        Ok(())
    }

    /// Moves a top-level entry to its final place; [`ErrorKind::AlreadyExists`] when that is taken.
    pub(super) fn release(&mut self, name: &str, to: &File) -> io::Result<()> {
        match rfs::renameat_with(&self.root, name, to, name, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                if rfs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
                Ok(rfs::renameat(&self.root, name, to, name)?)
            }
            other => Ok(other?),
        }
    }

    /// Where the file of `path` is, for messages.
    pub(super) fn place(&self, path: &RelPath) -> PathBuf {
        self.path.join(path.as_path())
    }

    fn folder(&mut self, parent: Option<&str>) -> io::Result<BorrowedFd<'_>> {
        let Some(parent) = parent else { return Ok(self.root.as_fd()) };
        if self.last.as_ref().is_none_or(|(path, _)| **path != *parent) {
            let mut folder: Option<OwnedFd> = None;
            for name in parent.split('/') {
                let within = folder.as_ref().map_or(self.root.as_fd(), AsFd::as_fd);
                folder = Some(rfs::openat(within, name, FOLDER, Mode::empty())?);
            }
            self.last = folder.map(|folder| (parent.into(), folder));
        }
        Ok(self.last.as_ref().map_or(self.root.as_fd(), |(_, folder)| folder.as_fd()))
    }
}

/// A folder that is there already is as good.
fn make_folder(within: BorrowedFd<'_>, name: &Path, mode: u16) -> io::Result<()> {
    match rfs::mkdirat(within, name, Mode::from_raw_mode(mode.into())) {
        Err(Errno::EXIST) => {
            let there = FileType::from_raw_mode(rfs::statat(within, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
            if there == FileType::Directory { Ok(()) } else { Err(Errno::NOTDIR.into()) }
        }
        other => Ok(other?),
    }
}

/// Gives a file its length at once, with blocks where the file system can: later writes are faster, and a full disk
/// shows before the transfer rather than in it.
fn reserve(file: &File, size: u64) -> io::Result<()> {
    match rfs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => file.set_len(size),
        Err(other) => Err(other.into()),
    }
}
