//! The engine against implementations that are not ours.

use ring::aead as r;
use sealane_aead::{Cipher, Engine, Job, Key, Verdict};

#[test]
fn agrees_with_ring() {
    let engine = Engine::new();
    for (cipher, alg) in [
        (Cipher::Aes128Gcm, &r::AES_128_GCM),
        (Cipher::Aes256Gcm, &r::AES_256_GCM),
        (Cipher::ChaCha20Poly1305, &r::CHACHA20_POLY1305),
    ] {
        let secret: Vec<u8> = (0..cipher.key_len() as u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
        let key = Key::new(cipher, &secret).unwrap();
        let theirs = r::LessSafeKey::new(r::UnboundKey::new(alg, &secret).unwrap());
        for len in 0..=1100usize {
            let text: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let nonce = [len as u8; 12];
            let aad = &text[..len.min(33)];
            let mut expect = text.clone();
            theirs
                .seal_in_place_append_tag(r::Nonce::assume_unique_for_key(nonce), r::Aad::from(aad), &mut expect)
                .unwrap();
            let mut buf = text.clone();
            buf.extend([0xaa; 16]);
            engine.seal(&mut [Job::new(&key, nonce.into(), aad, &mut buf).unwrap()]);
            assert_eq!(buf, expect, "{cipher} {len}");
            let mut jobs = [Job::new(&key, nonce.into(), aad, &mut buf).unwrap()];
            engine.open(&mut jobs);
            assert_eq!(jobs[0].verdict(), Verdict::Authentic);
            assert_eq!(&buf[..len], text);
        }
    }
}
