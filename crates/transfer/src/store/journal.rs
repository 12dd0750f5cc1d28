//! Which chunks are on disk: records that are believed only as far as they can be (spec 10.4).

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const MAGIC: [u8; 16] = *b"sealane journal1";
const HEADER: usize = 16 + 32 + 32;
const RECORD: usize = 8 + 8;

/// What a journal found on disk says.
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// It is damaged at its head, or of another transfer.
    Foreign,
    /// Numbers of chunks. `trusted`: the kernel that took the chunks still runs, so it still has them; otherwise a
    /// crash may have lost any of them.
    Claims { chunks: Vec<u64>, trusted: bool },
}

/// An append-only file of records, open for writing.
pub(super) struct Journal {
    file: File,
    end: u64,
    key: [u8; 32],
}

impl Journal {
    /// Reads the journal of the transfer `identity` from `folder`; damaged records are left out.
    pub(super) fn find(folder: &Path, identity: [u8; 32], boot: Option<[u8; 32]>) -> io::Result<Found> {
        let bytes = match fs::read(path(folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            other => other?,
        };
        if bytes.len() < HEADER || bytes[..16] != MAGIC || bytes[16..48] != identity {
            return Ok(Found::Foreign);
        }
        let key = record_key(identity);
        let records = bytes[HEADER..].as_chunks::<RECORD>().0.iter();
        let chunk = |record: &[u8; RECORD]| record.first_chunk().map(|chunk| u64::from_be_bytes(*chunk));
        let chunks = records.filter_map(|bytes| chunk(bytes).filter(|&chunk| record(&key, chunk) == *bytes)).collect();
        Ok(Found::Claims { chunks, trusted: boot.is_some_and(|boot| bytes[48..HEADER] == boot) })
    }

    /// Replaces whatever journal there is by one that has `chunks`.
    pub(super) fn create(
        folder: &Path,
        identity: [u8; 32],
        boot: Option<[u8; 32]>,
        chunks: impl Iterator<Item = u64>,
    ) -> io::Result<Self> {
        let new = folder.join("journal.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let key = record_key(identity);
        let mut bytes = [&MAGIC[..], &identity, &boot.unwrap_or_default()].concat();
        bytes.extend(chunks.flat_map(|chunk| record(&key, chunk)));
        file.write_all(&bytes)?;
        fs::rename(new, path(folder))?;
        Ok(Self { file, end: bytes.len() as u64, key })
    }

    /// Records that `chunk` was written.
    pub(super) fn append(&mut self, chunk: u64) -> io::Result<()> {
        self.file.write_all_at(&record(&self.key, chunk), self.end)?;
        self.end += RECORD as u64;
        Ok(())
    }
}

/// Where the journal in `folder` is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("journal")
}

/// What tells one run of the kernel from the next; `None` where there is no telling.
pub(super) fn boot() -> Option<[u8; 32]> {
    let id = fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    Some(*blake3::hash(&id).as_bytes())
}

fn record_key(identity: [u8; 32]) -> [u8; 32] {
    blake3::derive_key("sealane journal 1 record", &identity)
}

fn record(key: &[u8; 32], chunk: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&chunk.to_be_bytes());
    record[8..].copy_from_slice(&blake3::keyed_hash(key, &chunk.to_be_bytes()).as_bytes()[..8]);
    record
}
