//! ChaCha20 (RFC 8439) and HChaCha20 (draft-irtf-cfrg-xchacha-03), several blocks at once.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Blocks computed together, one a column of the state: a row then fills one SSE2 or NEON register.
const LANES: usize = 4;
const BLOCK: usize = 64;
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

type Row = [u32; LANES];

/// A key as the words of the state.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key([u32; 8]);

impl Key {
    /// The key of 32 bytes, `None` for another length.
    pub(crate) fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() == 32).then(|| Self(words(secret)))
    }
}

/// The keystream's first blocks: Poly1305's key, and what encrypts the first bytes.
pub(crate) struct Head([u8; LANES * BLOCK]);

impl Head {
    pub(crate) fn new(key: &Key, nonce: &[u8; 12]) -> Self {
        Self(keystream(key, 0, nonce))
    }

    pub(crate) fn poly1305_key(&self) -> &[u8; 32] {
        self.0.first_chunk().expect("32 of 256 bytes")
    }

    /// XORs the keystream from block 1 on over `text`, of at most 2^32 - 1 blocks.
    pub(crate) fn xor(&self, key: &Key, nonce: &[u8; 12], text: &mut [u8]) {
        let (start, rest) = text.split_at_mut(text.len().min((LANES - 1) * BLOCK));
        xor(start, &self.0[BLOCK..]);
        let mut counter = LANES as u32;
        for chunk in rest.chunks_mut(LANES * BLOCK) {
            xor(chunk, &keystream(key, counter, nonce));
            counter = counter.wrapping_add(LANES as u32);
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        // The rest is worth no more than the text beside it.
        self.0[..32].zeroize();
    }
}

#[inline(always)]
fn xor(text: &mut [u8], stream: &[u8]) {
    for (byte, key) in text.iter_mut().zip(stream) {
        *byte ^= key;
    }
}

/// The key that HChaCha20 makes of a key and a nonce's first 16 bytes (draft-irtf-cfrg-xchacha-03, section 2.2).
pub(crate) fn hchacha20(key: &Key, nonce: &[u8; 16]) -> Key {
    let mut state = [[0; LANES]; 16];
    let nonce: [u32; 4] = words(nonce);
    for (row, word) in state.iter_mut().zip(CONSTANTS.iter().chain(&key.0).chain(&nonce)) {
        row[0] = *word;
    }
    rounds(&mut state);
    let subkey = Key(std::array::from_fn(|i| state[if i < 4 { i } else { i + 8 }][0]));
    state.zeroize();
    subkey
}

/// Blocks `counter` to `counter + LANES - 1`.
fn keystream(key: &Key, counter: u32, nonce: &[u8; 12]) -> [u8; LANES * BLOCK] {
    let mut start = [[0; LANES]; 16];
    let nonce: [u32; 3] = words(nonce);
    for (row, word) in start.iter_mut().zip(CONSTANTS.iter().chain(&key.0).chain(&[counter]).chain(&nonce)) {
        *row = [*word; LANES];
    }
    for (lane, word) in start[12].iter_mut().enumerate() {
        *word = word.wrapping_add(lane as u32);
    }
    let mut state = start;
    rounds(&mut state);
    let mut bytes = [0; LANES * BLOCK];
    for (i, (row, first)) in state.iter().zip(&start).enumerate() {
        let sum = add(*row, *first);
        for (lane, word) in sum.iter().enumerate() {
            bytes[lane * BLOCK + i * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

#[inline(always)]
fn rounds(state: &mut [Row; 16]) {
    for _ in 0..10 {
        quarter(state, 0, 4, 8, 12);
        quarter(state, 1, 5, 9, 13);
        quarter(state, 2, 6, 10, 14);
        quarter(state, 3, 7, 11, 15);
        quarter(state, 0, 5, 10, 15);
        quarter(state, 1, 6, 11, 12);
        quarter(state, 2, 7, 8, 13);
        quarter(state, 3, 4, 9, 14);
    }
}

#[inline(always)]
fn quarter(state: &mut [Row; 16], a: usize, b: usize, c: usize, d: usize) {
    state[a] = add(state[a], state[b]);
    state[d] = xor_rotate::<16>(state[d], state[a]);
    state[c] = add(state[c], state[d]);
    state[b] = xor_rotate::<12>(state[b], state[c]);
    state[a] = add(state[a], state[b]);
    state[d] = xor_rotate::<8>(state[d], state[a]);
    state[c] = add(state[c], state[d]);
    state[b] = xor_rotate::<7>(state[b], state[c]);
}

#[inline(always)]
fn add(a: Row, b: Row) -> Row {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

#[inline(always)]
fn xor_rotate<const BITS: u32>(a: Row, b: Row) -> Row {
    std::array::from_fn(|i| (a[i] ^ b[i]).rotate_left(BITS))
}

/// Little-endian words; `bytes` is as long as they are.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (chunks, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(chunks[i]))
}
