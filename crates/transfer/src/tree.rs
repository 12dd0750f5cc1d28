//! Ids and the hash tree: plain BLAKE3, cut at 1 MiB (spec 7).

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes that are verified, written and requested as one. A power of two, so that a chunk is a BLAKE3 subtree.
pub const CHUNK: usize = 1 << 20;

/// The chaining value of one chunk's BLAKE3 subtree.
pub type ChainingValue = [u8; 32];

/// The plain BLAKE3 hash of a file's bytes or of a manifest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectId(pub [u8; 32]);

impl ObjectId {
    /// The id of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl FromStr for ObjectId {
    type Err = blake3::HexError;

    fn from_str(hex: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(hex).map(|hash| Self(*hash.as_bytes()))
    }
}

/// What one pass over a file's bytes tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// BLAKE3 of all bytes.
    pub id: ObjectId,
    /// Bytes read.
    pub size: u64,
    /// A value for each chunk; empty for a file of one chunk or none, which its id alone verifies.
    pub tree: Vec<ChainingValue>,
}

/// Hashes all that `reader` gives; `progress` hears of every chunk's length in bytes.
pub fn hash_file(mut reader: impl Read, progress: &mut dyn FnMut(u64)) -> io::Result<Hashed> {
    let mut hashed = Hashed { id: ObjectId::of(&[]), size: 0, tree: Vec::new() };
    let mut chunk = Vec::new();
    loop {
        chunk.clear();
        let len = reader.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
        if len == 0 {
            break;
        }
        let mut hasher = Hasher::new();
        hasher.set_input_offset(hashed.size).update(&chunk);
        if hashed.size == 0 {
            hashed.id = ObjectId(*hasher.finalize().as_bytes());
        }
        hashed.tree.push(hasher.finalize_non_root());
        hashed.size += len as u64;
        progress(len as u64);
    }
    match root(&hashed.tree, hashed.size) {
        Some(id) => hashed.id = id,
        None => hashed.tree.clear(),
    }
    Ok(hashed)
}

/// The chaining value of a chunk that begins at byte `offset` of a file of more than one chunk.
///
/// # Panics
/// When `bytes` is empty or longer than a chunk, or `offset` is not a multiple of [`CHUNK`].
pub fn chunk_value(offset: u64, bytes: &[u8]) -> ChainingValue {
    assert!(!bytes.is_empty() && bytes.len() <= CHUNK && offset.is_multiple_of(CHUNK as u64), "not a chunk");
    Hasher::new().set_input_offset(offset).update(bytes).finalize_non_root()
}

/// Whether `tree` is the list of chaining values of the file `id` of `size` bytes.
pub fn verify_tree(id: ObjectId, size: u64, tree: &[ChainingValue]) -> bool {
    tree.len() as u64 == tree_len(size) && root(tree, size) == Some(id)
}

/// Chaining values in the tree of a file of `size` bytes.
pub fn tree_len(size: u64) -> u64 {
    if size <= CHUNK as u64 { 0 } else { size.div_ceil(CHUNK as u64) }
}

/// `None` when the file has one chunk or none.
fn root(tree: &[ChainingValue], size: u64) -> Option<ObjectId> {
    if size <= CHUNK as u64 {
        return None;
    }
    let (left, right) = children(tree, size);
    Some(ObjectId(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes()))
}

fn children(tree: &[ChainingValue], size: u64) -> (ChainingValue, ChainingValue) {
    let left = left_subtree_len(size);
    let (left_tree, right_tree) = tree.split_at((left / CHUNK as u64) as usize);
    (subtree(left_tree, left), subtree(right_tree, size - left))
}

fn subtree(tree: &[ChainingValue], size: u64) -> ChainingValue {
    if size <= CHUNK as u64 {
        return tree[0];
    }
    let (left, right) = children(tree, size);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 12] =
        [0, 1, 1023, 1024, 1025, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5, 4 * CHUNK + 1024, 17 * CHUNK];

    fn bytes(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        Hasher::new().update(b"tree test").finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn the_id_is_plain_blake3_at_every_edge() {
        for size in SIZES {
            let bytes = bytes(size);
            let mut seen = 0;
            let hashed = hash_file(&bytes[..], &mut |len| seen += len).unwrap();
            assert_eq!(hashed.id, ObjectId::of(&bytes), "{size} bytes");
            assert_eq!((hashed.size, seen), (size as u64, size as u64));
            assert_eq!(hashed.tree.len() as u64, tree_len(size as u64));
            assert_eq!(verify_tree(hashed.id, hashed.size, &hashed.tree), size > CHUNK);
        }
    }

    #[test]
    fn a_tree_is_for_one_file_and_one_size() {
        let bytes = bytes(3 * CHUNK + 5);
        let Hashed { id, size, tree } = hash_file(&bytes[..], &mut |_| ()).unwrap();
        for wrong in 0..tree.len() {
            let mut altered = tree.clone();
            altered[wrong][31] ^= 1;
            assert!(!verify_tree(id, size, &altered), "value {wrong}");
        }
        assert!(!verify_tree(id, size, &tree[..3]));
        assert!(!verify_tree(id, size + CHUNK as u64, &tree));
        assert!(!verify_tree(id, 0, &[]));
        let mut swapped = tree.clone();
        swapped.swap(0, 1);
        assert!(!verify_tree(id, size, &swapped));
        assert_ne!(chunk_value(0, &bytes[..CHUNK]), chunk_value(CHUNK as u64, &bytes[..CHUNK]));
    }

    #[test]
    fn ids_read_and_print_as_hex() {
        let id = ObjectId::of(b"x");
        assert_eq!(id.to_string().parse::<ObjectId>().unwrap(), id);
        assert!("xyz".parse::<ObjectId>().is_err());
    }
}
