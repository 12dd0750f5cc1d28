//! Plain Rust, the specification of the other backends, one packet at a time. ChaCha20 and Poly1305 are ours; AES and
//! GHASH are RustCrypto's, which use the processor's instructions where it has them and are constant time without.

pub(crate) mod aes_gcm;
pub(crate) mod chacha20;
mod poly1305;

use crate::{Job, Nonce, TAG, key::Schedule};
use chacha20::{Head, hchacha20};
use poly1305::Poly1305;
use subtle::ConstantTimeEq;

/// Encrypts the job's text and writes its tag.
pub(crate) fn seal(job: &mut Job<'_>) {
    let aad = job.aad;
    let (text, tag) = job.buf.split_last_chunk_mut::<TAG>().expect("Job::new saw room for the tag");
    *tag = match (&job.key.schedule, &job.nonce) {
        (Schedule::Aes128Gcm(key), Nonce::Short(nonce)) => key.seal(nonce, aad, text),
        (Schedule::Aes256Gcm(key), Nonce::Short(nonce)) => key.seal(nonce, aad, text),
        (Schedule::ChaCha20Poly1305(key), Nonce::Short(nonce)) => chacha_seal(key, nonce, aad, text),
        (Schedule::XChaCha20Poly1305(key), Nonce::Long(nonce)) => {
            let (subkey, nonce) = extended(key, nonce);
            chacha_seal(&subkey, &nonce, aad, text)
        }
        _ => unreachable!("Job::new checked the nonce's length"),
    };
}

/// Decrypts the job's text when its tag is right, and says whether.
pub(crate) fn open(job: &mut Job<'_>) -> bool {
    let aad = job.aad;
    let (text, tag) = job.buf.split_last_chunk_mut::<TAG>().expect("Job::new saw room for the tag");
    match (&job.key.schedule, &job.nonce) {
        (Schedule::Aes128Gcm(key), Nonce::Short(nonce)) => key.open(nonce, aad, text, tag),
        (Schedule::Aes256Gcm(key), Nonce::Short(nonce)) => key.open(nonce, aad, text, tag),
        (Schedule::ChaCha20Poly1305(key), Nonce::Short(nonce)) => chacha_open(key, nonce, aad, text, tag),
        (Schedule::XChaCha20Poly1305(key), Nonce::Long(nonce)) => {
            let (subkey, nonce) = extended(key, nonce);
            chacha_open(&subkey, &nonce, aad, text, tag)
        }
        _ => unreachable!("Job::new checked the nonce's length"),
    }
}

/// The key and nonce under which XChaCha20 is ChaCha20 (draft-irtf-cfrg-xchacha-03, section 2.3).
fn extended(key: &chacha20::Key, nonce: &[u8; 24]) -> (chacha20::Key, [u8; 12]) {
    let (fixed, last) = nonce.split_first_chunk::<16>().expect("16 of 24 bytes");
    let mut short = [0; 12];
    short[4..].copy_from_slice(last);
    (hchacha20(key, fixed), short)
}

/// RFC 8439, section 2.8.
fn chacha_seal(key: &chacha20::Key, nonce: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG] {
    let head = Head::new(key, nonce);
    head.xor(key, nonce, text);
    chacha_tag(&head, aad, text)
}

fn chacha_open(key: &chacha20::Key, nonce: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG]) -> bool {
    let head = Head::new(key, nonce);
    let authentic = chacha_tag(&head, aad, text).ct_eq(tag).into();
    if authentic {
        head.xor(key, nonce, text);
    }
    authentic
}

fn chacha_tag(head: &Head, aad: &[u8], text: &[u8]) -> [u8; TAG] {
    let mut lengths = [0; 16];
    lengths[..8].copy_from_slice(&(aad.len() as u64).to_le_bytes());
    lengths[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
    let mut poly = Poly1305::new(head.poly1305_key());
    poly.update_padded(aad);
    poly.update_padded(text);
    poly.update_padded(&lengths);
    poly.finish()
}
