//! ChaCha20 (RFC 8439) and HChaCha20 (draft-irtf-cfrg-xchacha-03), several blocks at once.

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Blocks computed together, one a column of the state, so that a row fills one SSE2 or NEON register.
const LANES: usize = 4;
const BLOCK: usize = 64;
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

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
    let mut state = start::<1>(key, &words(nonce));
    rounds(&mut state);
    let subkey = Key(std::array::from_fn(|i| state[if i < 4 { i } else { i + 8 }][0]));
    state.zeroize();
    subkey
}

/// Blocks `counter` to `counter + LANES - 1`.
fn keystream(key: &Key, counter: u32, nonce: &[u8; 12]) -> [u8; LANES * BLOCK] {
    let [n0, n1, n2] = words(nonce);
    let mut first = start::<LANES>(key, &[counter, n0, n1, n2]);
    for (lane, word) in first[12].iter_mut().enumerate() {
        *word = word.wrapping_add(lane as u32);
    }
    let mut state = first;
    rounds(&mut state);
    let mut bytes = [0; LANES * BLOCK];
    for (i, (row, first)) in state.iter().zip(&first).enumerate() {
        for lane in 0..LANES {
            let word = row[lane].wrapping_add(first[lane]);
            bytes[lane * BLOCK + i * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

/// The same state in every column.
fn start<const N: usize>(key: &Key, last: &[u32; 4]) -> [[u32; N]; 16] {
    let mut words = CONSTANTS.iter().chain(&key.0).chain(last);
    std::array::from_fn(|_| [*words.next().expect("16 words"); N])
}

/// Twenty rounds on every column.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "compilers turn this loop over columns into vector instructions")]
fn rounds<const N: usize>(state: &mut [[u32; N]; 16]) {
    for _ in 0..10 {
        for lane in 0..N {
            let mut column: [u32; 16] = std::array::from_fn(|i| state[i][lane]);
            quarter(&mut column, 0, 4, 8, 12);
            quarter(&mut column, 1, 5, 9, 13);
            quarter(&mut column, 2, 6, 10, 14);
            quarter(&mut column, 3, 7, 11, 15);
            quarter(&mut column, 0, 5, 10, 15);
            quarter(&mut column, 1, 6, 11, 12);
            quarter(&mut column, 2, 7, 8, 13);
            quarter(&mut column, 3, 4, 9, 14);
            for i in 0..16 {
                state[i][lane] = column[i];
            }
        }
    }
}

#[inline(always)]
fn quarter(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(16);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(12);
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(8);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(7);
}

/// Little-endian words; `bytes` is as long as they are.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (chunks, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(chunks[i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting_key() -> Key {
        Key::new(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap()
    }

    /// RFC 8439, section 2.3.2.
    #[test]
    fn the_block_of_the_specification() {
        let stream = keystream(&counting_key(), 1, &[0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0]);
        let expected = [
            0xe4e7_f110,
            0x1559_3bd1,
            0x1fdd_0f50,
            0xc471_20a3,
            0xc7f4_d1c7,
            0x0368_c033,
            0x9aaa_2204,
            0x4e6c_d4c3,
            0x4664_82d2,
            0x09aa_9f07,
            0x05d7_c214,
            0xa202_8bd9,
            0xd19c_12b5,
            0xb94e_16de,
            0xe883_d0cb,
            0x4e3c_50a2,
        ];
        assert_eq!(words::<16>(&stream), expected);
    }

    /// draft-irtf-cfrg-xchacha-03, section 2.2.1.
    #[test]
    fn the_subkey_of_the_specification() {
        let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0, 0x31, 0x41, 0x59, 0x27];
        let expected =
            [0x423b_4182, 0xfe7b_b227, 0x5042_0ed3, 0x737d_878a, 0xd5e4_f9a0, 0x53a8_748a, 0x13c4_2ec1, 0xdcec_d326];
        assert_eq!(hchacha20(&counting_key(), &nonce).0, expected);
    }

    #[test]
    fn every_lane_is_the_block_of_its_counter() {
        let (key, nonce) = (counting_key(), [7; 12]);
        for counter in [0, 1, u32::MAX - 2] {
            let stream = keystream(&key, counter, &nonce);
            for lane in 1..LANES {
                let alone = keystream(&key, counter.wrapping_add(lane as u32), &nonce);
                assert_eq!(stream[lane * BLOCK..][..BLOCK], alone[..BLOCK], "lane {lane} from {counter}");
            }
        }
    }
}
