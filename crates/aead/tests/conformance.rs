//! The engine beside implementations that are not ours, and against Wycheproof.

#![expect(clippy::unwrap_used, reason = "an oracle that fails is a test that fails")]

use sealane_aead::conformance::{Packet, Vector};
use sealane_aead::{Cipher, Engine, Error, Job, Key, conformance};
use wycheproof::{
    TestResult,
    aead::{TestName, TestSet},
};

fn engines() -> [Engine; 2] {
    [Engine::portable(), Engine::new()]
}

#[test]
fn every_engine_agrees_with_ring_and_rust_crypto() {
    for (engine, seed) in engines().iter().zip(1..) {
        let report = conformance::check(engine, seed, |packet| ring(packet).or_else(|| rust_crypto(packet)));
        println!("{report}");
        assert!(report.compared.iter().all(|packets| *packets > 1200), "{report}");
        assert!(report.forged > 5000, "{report}");
    }
}

#[test]
fn every_engine_agrees_with_aws_lc() {
    for (engine, seed) in engines().iter().zip(101..) {
        let report = conformance::check(engine, seed, aws_lc);
        println!("{report}");
        let lacks = Cipher::ALL.iter().zip(report.compared).filter(|(_, packets)| *packets == 0);
        assert!(lacks.map(|(cipher, _)| *cipher).eq([Cipher::XChaCha20Poly1305]), "{report}");
    }
}

#[test]
fn an_oracle_that_differs_is_noticed_with_the_seed() {
    let wrong = |packet: &Packet| (packet.text.len() == 77).then(|| vec![0; 93]);
    let failure = std::panic::catch_unwind(|| conformance::check(&Engine::portable(), 4711, wrong)).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    assert!(message.contains("of 77 bytes") && message.contains("seed 4711"), "{message}");
}

fn ring(packet: &Packet) -> Option<Vec<u8>> {
    use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
    let algorithm = match packet.cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        Cipher::XChaCha20Poly1305 => return None,
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &packet.secret).unwrap());
    let mut sealed = packet.text.clone();
    let nonce = Nonce::try_assume_unique_for_key(&packet.nonce).unwrap();
    key.seal_in_place_append_tag(nonce, Aad::from(&packet.aad), &mut sealed).unwrap();
    Some(sealed)
}

/// RustCrypto's XChaCha20, which the other two lack.
fn rust_crypto(packet: &Packet) -> Option<Vec<u8>> {
    use chacha20poly1305::{
        KeyInit, XChaCha20Poly1305,
        aead::{Aead, Payload},
    };
    if packet.cipher != Cipher::XChaCha20Poly1305 {
        return None;
    }
    let key = XChaCha20Poly1305::new_from_slice(&packet.secret).unwrap();
    let nonce = packet.nonce[..].try_into().unwrap();
    Some(key.encrypt(nonce, Payload { msg: &packet.text, aad: &packet.aad }).unwrap())
}

fn aws_lc(packet: &Packet) -> Option<Vec<u8>> {
    use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
    let algorithm = match packet.cipher {
        Cipher::Aes128Gcm => &AES_128_GCM,
        Cipher::Aes256Gcm => &AES_256_GCM,
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        Cipher::XChaCha20Poly1305 => return None,
    };
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &packet.secret).unwrap());
    let mut sealed = packet.text.clone();
    let nonce = Nonce::try_assume_unique_for_key(&packet.nonce).unwrap();
    key.seal_in_place_append_tag(nonce, Aad::from(&packet.aad), &mut sealed).unwrap();
    Some(sealed)
}

/// Cases run, and cases that no key or nonce of ours can express.
#[derive(Debug, Default, PartialEq)]
struct Count {
    run: usize,
    other_key: usize,
    other_nonce: usize,
}

fn wycheproof(set: TestName, cipher_of: impl Fn(usize) -> Option<Cipher>) -> Count {
    let mut count = Count::default();
    let mut vectors = Vec::new();
    for group in TestSet::load(set).unwrap().test_groups {
        assert_eq!(group.tag_size, 128);
        for test in group.tests {
            let Some(cipher) = cipher_of(group.key_size) else {
                count.other_key += 1;
                continue;
            };
            let packet = Packet {
                cipher,
                secret: test.key.to_vec(),
                nonce: test.nonce.to_vec(),
                aad: test.aad.to_vec(),
                text: test.pt.to_vec(),
            };
            if packet.nonce.len() != cipher.nonce_len() {
                assert_refused(&packet);
                count.other_nonce += 1;
                continue;
            }
            assert!(test.result != TestResult::Acceptable, "{}", test.tc_id);
            let sealed = [&test.ct[..], &test.tag[..]].concat();
            let name = format!("Wycheproof {cipher} {}", test.tc_id);
            vectors.push(Vector { name, packet, sealed, valid: test.result == TestResult::Valid });
        }
    }
    count.run = vectors.len();
    assert!(vectors.iter().any(|vector| vector.valid) && vectors.iter().any(|vector| !vector.valid));
    for engine in engines() {
        conformance::check_vectors(&engine, &vectors);
    }
    count
}

/// No nonce has this length, or the key's cipher refuses it.
fn assert_refused(packet: &Packet) {
    if let Some(nonce) = conformance::nonce(packet) {
        let key = Key::new(packet.cipher, &packet.secret).unwrap();
        let refused = Error::NonceLength { cipher: packet.cipher, got: packet.nonce.len() };
        assert_eq!(Job::new(&key, nonce, &[], &mut [0; 16]).err(), Some(refused));
    }
}

#[test]
fn every_wycheproof_case_of_aes_gcm() {
    let count = wycheproof(TestName::AesGcm, |bits| match bits {
        128 => Some(Cipher::Aes128Gcm),
        256 => Some(Cipher::Aes256Gcm),
        _ => None,
    });
    assert_eq!(count, Count { run: 133, other_key: 103, other_nonce: 80 });
}

#[test]
fn every_wycheproof_case_of_chacha20_poly1305() {
    let count = wycheproof(TestName::ChaCha20Poly1305, |_| Some(Cipher::ChaCha20Poly1305));
    assert_eq!(count, Count { run: 316, other_key: 0, other_nonce: 9 });
}

#[test]
fn every_wycheproof_case_of_xchacha20_poly1305() {
    let count = wycheproof(TestName::XChaCha20Poly1305, |_| Some(Cipher::XChaCha20Poly1305));
    assert_eq!(count, Count { run: 306, other_key: 0, other_nonce: 9 });
}
