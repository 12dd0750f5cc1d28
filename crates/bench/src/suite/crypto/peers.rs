//! The libraries that Sealane is measured against, each called as its documentation says: in place, one packet a call.

use std::sync::Arc;

use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, Tag};
use sealane_aead::{Cipher, TAG};

use super::{AAD, Input, Keys};
use crate::Error;
use crate::runner::Subject;

/// All of them; those that lack the cipher as absent.
pub(super) fn all(input: &Arc<Input>) -> [Subject; 3] {
    let rustcrypto = match input.spec.cipher {
        Cipher::Aes128Gcm => subject::<RustCrypto<aes_gcm::Aes128Gcm>>,
        Cipher::Aes256Gcm => subject::<RustCrypto<aes_gcm::Aes256Gcm>>,
        Cipher::ChaCha20Poly1305 => subject::<RustCrypto<chacha20poly1305::ChaCha20Poly1305>>,
        Cipher::XChaCha20Poly1305 => subject::<RustCrypto<chacha20poly1305::XChaCha20Poly1305>>,
    };
    [subject::<Ring>(input), subject::<AwsLc>(input), rustcrypto(input)]
}

/// A library and a key set up in it.
trait Library: Sized + 'static {
    const NAME: &'static str;

    /// `None` when the library lacks the cipher.
    fn key(cipher: Cipher, key: &[u8]) -> Option<Self>;
    /// `packet` ends in room for the tag. `None` when the library refuses, here as in `open`.
    fn seal(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()>;
    /// `packet` ends in the tag.
    fn open(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()>;
}

fn subject<L: Library>(input: &Arc<Input>) -> Subject {
    let Some(one) = L::key(input.spec.cipher, input.key(0)) else {
        return Subject::absent(L::NAME, "does not offer this cipher");
    };
    let work = move |input: &Input, packets: &mut [u8]| {
        for (index, packet) in packets.chunks_exact_mut(input.stride()).enumerate() {
            let fresh = match input.spec.keys {
                Keys::One => None,
                Keys::Each => L::key(input.spec.cipher, input.key(index)),
            };
            let key = fresh.as_ref().unwrap_or(&one);
            let nonce = input.nonce(index);
            if input.spec.open {
                key.open(nonce, packet).ok_or(Error::Rejected { subject: L::NAME, step: "open" })?;
            } else {
                key.seal(nonce, packet).ok_or(Error::Rejected { subject: L::NAME, step: "seal" })?;
            }
        }
        Ok(())
    };
    super::subject(L::NAME.to_owned(), input, work)
}

/// ring and aws-lc-rs have the same interface.
macro_rules! ring_alike {
    ($type:ident, $library:ident, $name:literal) => {
        struct $type($library::aead::LessSafeKey);

        impl Library for $type {
            const NAME: &'static str = $name;

            fn key(cipher: Cipher, key: &[u8]) -> Option<Self> {
                use $library::aead;
                let algorithm = match cipher {
                    Cipher::Aes128Gcm => &aead::AES_128_GCM,
                    Cipher::Aes256Gcm => &aead::AES_256_GCM,
                    Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
                    Cipher::XChaCha20Poly1305 => return None,
                };
                Some(Self(aead::LessSafeKey::new(aead::UnboundKey::new(algorithm, key).ok()?)))
            }

            fn seal(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()> {
                use $library::aead::{Aad, Nonce};
                let (text, room) = packet.split_last_chunk_mut::<TAG>()?;
                let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
                let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(AAD), text).ok()?;
                room.copy_from_slice(tag.as_ref());
                Some(())
            }

            fn open(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()> {
                use $library::aead::{Aad, Nonce};
                let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
                self.0.open_in_place(nonce, Aad::from(AAD), packet).ok().map(|_| ())
            }
        }
    };
}

ring_alike!(Ring, ring, "ring");
ring_alike!(AwsLc, aws_lc_rs, "aws-lc-rs");

struct RustCrypto<A>(A);

impl<A: AeadInOut + KeyInit + 'static> Library for RustCrypto<A> {
    const NAME: &'static str = "rustcrypto";

    fn key(_: Cipher, key: &[u8]) -> Option<Self> {
        A::new_from_slice(key).ok().map(Self)
    }

    fn seal(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()> {
        let (text, room) = packet.split_last_chunk_mut::<TAG>()?;
        let nonce = <&Nonce<A>>::try_from(nonce).ok()?;
        room.copy_from_slice(&self.0.encrypt_inout_detached(nonce, AAD, text.into()).ok()?);
        Some(())
    }

    fn open(&self, nonce: &[u8], packet: &mut [u8]) -> Option<()> {
        let (text, tag) = packet.split_last_chunk_mut::<TAG>()?;
        let nonce = <&Nonce<A>>::try_from(nonce).ok()?;
        let tag = <&Tag<A>>::try_from(tag.as_slice()).ok()?;
        self.0.decrypt_inout_detached(nonce, AAD, text.into(), tag).ok()
    }
}
