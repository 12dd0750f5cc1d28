//! `sealane keygen`, and the key files of the other verbs: 64 hexadecimal digits that only their owner may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use directories::ProjectDirs;
use sealane_transfer::Identity;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::events::print;
use crate::progress::tell;

/// Digits of a key.
const DIGITS: usize = 64;

pub(crate) fn keygen(file: Option<PathBuf>) -> Result<(), Error> {
    let file = match file {
        Some(file) => file,
        None => default_file()?,
    };
    let identity = make(&file)?;
    tell!("wrote {file:?}; its public key:");
    print(identity.public())
}

/// The key of a user who names none.
pub(crate) fn default_file() -> Result<PathBuf, Error> {
    let dirs = ProjectDirs::from("", "", "sealane").ok_or(Error::NoDataDir)?;
    Ok(dirs.data_dir().join("key"))
}

/// The key in `file`, or a new one that is written there.
pub(crate) fn load_or_make(file: &Path) -> Result<Identity, Error> {
    match load(file) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let identity = make(file)?;
            tell!("note: made a new key, {file:?}");
            Ok(identity)
        }
        other => other,
    }
}

/// A key that nobody saves.
pub(crate) fn generate() -> Result<Identity, Error> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut secret[..]).map_err(|_| Error::NoRandomness)?;
    Ok(Identity::from_secret(*secret))
}

fn load(path: &Path) -> Result<Identity, Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mode = file.metadata().map_err(Error::io("read", path))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::KeyExposed { path: path.into(), mode });
    }
    // One byte more than fits shows a file that is too long. With its capacity it never moves and leaves no copy.
    let mut text = Zeroizing::new(Vec::with_capacity(DIGITS + 4));
    file.take(DIGITS as u64 + 3).read_to_end(&mut text).map_err(Error::io("read", path))?;
    let secret = decode(text.trim_ascii()).ok_or_else(|| Error::NotAKeyFile { path: path.into() })?;
    Ok(Identity::from_secret(*secret))
}

fn make(path: &Path) -> Result<Identity, Error> {
    let identity = generate()?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::KeyExists { path: path.into() });
        }
        file => file.map_err(Error::io("create", path))?,
    };
    let text = encode(identity.secret());
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(Error::io("write", path))?;
    Ok(identity)
}

fn encode(secret: &[u8; 32]) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(Vec::with_capacity(DIGITS + 1));
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
    text.extend(secret.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    text.push(b'\n');
    text
}

fn decode(text: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    if text.len() != DIGITS {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let mut secret = Zeroizing::new([0; 32]);
    for (byte, pair) in secret.iter_mut().zip(text.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let secret = std::array::from_fn(|i| (i * 37 + 5) as u8);
        let text = encode(&secret);
        assert_eq!(decode(text.trim_ascii()).as_deref(), Some(&secret));
        assert_eq!(decode(&text[1..64]), None);
        assert_eq!(decode(&[b'g'; 64]), None);
    }
}
