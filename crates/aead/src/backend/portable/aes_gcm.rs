//! AES-GCM with nonces of 96 bits (NIST SP 800-38D) on RustCrypto's AES and GHASH.

use crate::TAG;
use aes::{
    Block,
    cipher::{
        BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
        consts::U16,
    },
};
use ghash::{GHash, universal_hash::UniversalHash};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// The expanded key and the powers of H.
pub(crate) struct AesGcm<A> {
    aes: A,
    ghash: GHash,
}

impl<A: BlockCipherEncrypt<BlockSize = U16> + KeyInit> AesGcm<A> {
    /// The key, `None` when `secret` has not the cipher's length.
    pub(crate) fn new(secret: &[u8]) -> Option<Self> {
        let aes = A::new_from_slice(secret).ok()?;
        let mut h = Block::default();
        aes.encrypt_block(&mut h);
        let ghash = GHash::new(&h);
        h.zeroize();
        Some(Self { aes, ghash })
    }

    pub(super) fn seal(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG] {
        self.aes.encrypt_with_backend(Ctr { nonce, text });
        self.tag(nonce, aad, text)
    }

    pub(super) fn open(&self, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG]) -> bool {
        let authentic = self.tag(nonce, aad, text).ct_eq(tag).into();
        if authentic {
            self.aes.encrypt_with_backend(Ctr { nonce, text });
        }
        authentic
    }

    fn tag(&self, nonce: &[u8; 12], aad: &[u8], text: &[u8]) -> [u8; TAG] {
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(aad.len() as u64 * 8).to_be_bytes());
        lengths[8..].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
        let mut ghash = self.ghash.clone();
        ghash.update_padded(aad);
        ghash.update_padded(text);
        ghash.update(&[lengths.into()]);
        let mut mask = counter_block(nonce, 1);
        self.aes.encrypt_block(&mut mask);
        let hash = ghash.finalize();
        std::array::from_fn(|i| hash[i] ^ mask[i])
    }
}

/// XORs the keystream from block 2 on over a text; runs inside the code compiled for the AES instructions found.
struct Ctr<'a> {
    nonce: &'a [u8; 12],
    text: &'a mut [u8],
}

impl BlockSizeUser for Ctr<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Ctr<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut counter = 2;
        let mut stream = ParBlocks::<B>::default();
        for chunk in self.text.chunks_mut(stream.len() * 16) {
            let used = chunk.len().div_ceil(16);
            for block in &mut stream[..used] {
                *block = counter_block(self.nonce, counter);
                counter = counter.wrapping_add(1);
            }
            // All at once costs about a quarter of one by one.
            if used * 4 > stream.len() {
                backend.encrypt_par_blocks_inplace(&mut stream);
            } else {
                stream[..used].iter_mut().for_each(|block| backend.encrypt_block_inplace(block));
            }
            for (byte, key) in chunk.iter_mut().zip(stream.as_flattened()) {
                *byte ^= key;
            }
        }
    }
}

#[inline(always)]
fn counter_block(nonce: &[u8; 12], counter: u32) -> Block {
    let mut block = Block::default();
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&counter.to_be_bytes());
    block
}
