use sealane_aead::Engine;

use super::*;
use crate::keys::{Answer, KeyError};

const ID: SessionId = SessionId(*b"getter01");
const OWN: SessionId = SessionId(*b"provider");

fn getter() -> Identity {
    Identity::from_secret([1; 32])
}

fn provider() -> Identity {
    Identity::from_secret([2; 32])
}

fn begin(ours: Ciphers) -> (Initiator, Responder, [u8; NOISE_2]) {
    let (initiator, message_1) = Initiator::start(&getter(), provider().public(), ID, [3; 32]);
    let (responder, message_2) = Responder::respond(&provider(), ID, OWN, ours, [4; 32], &message_1).unwrap();
    (initiator, responder, message_2)
}

fn shake(getter: Ciphers, provider: Ciphers) -> Result<(Established, Established), HandshakeError> {
    let (mut initiator, mut responder, message_2) = begin(provider);
    let (ours, message_3) = initiator.finish(&message_2, getter)?;
    Ok((ours, responder.finish(&message_3)?))
}

/// Seals packet `number` with the keys of one side and says whether those of the other open it.
fn carries(from: &Keys, to: &Keys, number: u64) -> bool {
    let sealer = from.sealer(number);
    let mut packet = *b"frames..0123456789abcdef";
    let minted = sealer.mint().unwrap();
    assert_eq!(minted.get(), number, "numbers go on over epochs");
    let engine = Engine::portable();
    engine.seal(&mut [sealer.job(minted, b"header", &mut packet).unwrap()]);
    let opener = to.opener();
    let mut jobs = [opener.job(number, b"header", &mut packet).unwrap()];
    engine.open(&mut jobs);
    jobs[0].verdict() == sealane_aead::Verdict::Authentic
}

#[track_caller]
fn agree(a: &Keys, b: &Keys, number: u64) {
    assert!(carries(a, b, number) && carries(b, a, number));
    assert!(!carries(a, a, number), "a reflected packet opens");
}

#[test]
fn both_sides_agree_on_peers_ids_cipher_and_keys() -> Result<(), HandshakeError> {
    let slow = Ciphers { offered: 0b1111, fast: 0b1100 };
    let fast = Ciphers { offered: 0b1111, fast: 0b1111 };
    let cases = [
        (fast, fast, Cipher::Aes128Gcm),
        (fast, slow, Cipher::XChaCha20Poly1305),
        (slow, fast, Cipher::XChaCha20Poly1305),
        (slow, slow, Cipher::XChaCha20Poly1305),
        (Ciphers { offered: 0b0111, ..slow }, slow, Cipher::ChaCha20Poly1305),
        (Ciphers { offered: 0b0011, ..slow }, slow, Cipher::Aes128Gcm),
        (Ciphers::only(Cipher::Aes128Gcm), slow, Cipher::Aes128Gcm),
        (Ciphers::only(Cipher::Aes256Gcm), fast, Cipher::Aes256Gcm),
        (fast, Ciphers::only(Cipher::ChaCha20Poly1305), Cipher::ChaCha20Poly1305),
        (fast, Ciphers { offered: 0b1000, fast: 0b0001 }, Cipher::XChaCha20Poly1305),
        (fast, Ciphers { offered: 0xf8, fast: 0xff }, Cipher::XChaCha20Poly1305),
    ];
    for (ours, theirs, cipher) in cases {
        let (getter_side, provider_side) = shake(ours, theirs)?;
        assert_eq!((getter_side.cipher, provider_side.cipher), (cipher, cipher), "{ours:?} {theirs:?}");
        assert_eq!((getter_side.peer, getter_side.peer_id), (provider().public(), OWN));
        assert_eq!((provider_side.peer, provider_side.peer_id), (getter().public(), ID));
        agree(&getter_side.keys, &provider_side.keys, 0);
    }
    Ok(())
}

#[test]
fn this_machine_offers_all_ciphers() {
    let ours = Ciphers::of_this_machine();
    assert_eq!((ours.offered, ours.fast & 0b1100), (0b1111, 0b1100));
    for cipher in NUMBERS {
        assert_eq!(ours.choose(Ciphers::only(cipher)), Some(cipher));
        assert_eq!(NUMBERS[usize::from(number(cipher))], cipher);
    }
}

#[test]
fn without_a_common_cipher_the_handshake_fails() {
    let aes = Ciphers::only(Cipher::Aes128Gcm);
    assert_eq!(shake(Ciphers::only(Cipher::Aes256Gcm), aes).err(), Some(HandshakeError::NoCommonCipher));
    assert_eq!(shake(aes, Ciphers { offered: 0xf0, fast: 0xff }).err(), Some(HandshakeError::NoCommonCipher));
}

#[test]
fn a_choice_that_was_not_offered_fails_the_handshake() {
    for chosen in [1, 4, 255] {
        let (mut initiator, mut responder, message_2) = begin(Ciphers::only(Cipher::Aes128Gcm));
        read::<10>(&mut initiator.state, &message_2).unwrap();
        let message_3 = write(&mut initiator.state, &[chosen]).unwrap();
        assert_eq!(responder.finish(&message_3).err(), Some(HandshakeError::NoCommonCipher), "{chosen}");
    }
}

#[test]
fn another_key_than_the_pinned_one_fails_before_message_3_and_the_right_one_may_follow() {
    let ciphers = Ciphers::of_this_machine();
    let (mut initiator, message_1) = Initiator::start(&getter(), provider().public(), ID, [3; 32]);
    let mallory = Identity::from_secret([9; 32]);
    let (_, forged) = Responder::respond(&mallory, ID, OWN, ciphers, [8; 32], &message_1).unwrap();
    for _ in 0..2 {
        assert_eq!(initiator.finish(&forged, ciphers).err(), Some(HandshakeError::WrongPeer));
    }
    let (mut responder, message_2) = Responder::respond(&provider(), ID, OWN, ciphers, [4; 32], &message_1).unwrap();
    let (ours, message_3) = initiator.finish(&message_2, ciphers).unwrap();
    agree(&ours.keys, &responder.finish(&message_3).unwrap().keys, 0);
}

/// Every bit of messages 2 and 3 counts, and after all those forgeries the real message still does.
#[test]
fn a_flipped_bit_anywhere_fails_and_leaves_the_state_usable() {
    let ciphers = Ciphers::of_this_machine();
    let (mut initiator, mut responder, message_2) = begin(ciphers);
    for bit in 0..8 * NOISE_2 {
        let mut forged = message_2;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(initiator.finish(&forged, ciphers).err(), Some(HandshakeError::Forged), "message 2, bit {bit}");
    }
    let (ours, message_3) = initiator.finish(&message_2, ciphers).unwrap();
    for bit in 0..8 * NOISE_3 {
        let mut forged = message_3;
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(responder.finish(&forged).err(), Some(HandshakeError::Forged), "message 3, bit {bit}");
    }
    agree(&ours.keys, &responder.finish(&message_3).unwrap().keys, 0);
}

#[test]
fn a_flipped_bit_in_message_1_or_another_session_id_fails() {
    let ciphers = Ciphers::of_this_machine();
    let (mut initiator, message_1) = Initiator::start(&getter(), provider().public(), ID, [3; 32]);
    // Bit 255 of an X25519 key does not count for the secret, but does for the hash.
    for bit in [0, 77, 255] {
        let mut forged = message_1;
        forged[bit / 8] ^= 1 << (bit % 8);
        let (_, message_2) = Responder::respond(&provider(), ID, OWN, ciphers, [4; 32], &forged).unwrap();
        assert_eq!(initiator.finish(&message_2, ciphers).err(), Some(HandshakeError::Forged), "bit {bit}");
    }
    let (_, message_2) = Responder::respond(&provider(), OWN, OWN, ciphers, [4; 32], &message_1).unwrap();
    assert_eq!(initiator.finish(&message_2, ciphers).err(), Some(HandshakeError::Forged));
}

#[test]
fn keys_of_low_order_are_refused() {
    let ciphers = Ciphers::of_this_machine();
    for low in [0, 1] {
        let mut message_1 = [0; NOISE_1];
        message_1[0] = low;
        let result = Responder::respond(&provider(), ID, OWN, ciphers, [4; 32], &message_1);
        assert_eq!(result.err(), Some(HandshakeError::Forged));
    }
}

#[test]
fn keys_are_text_and_back() {
    let key = provider().public();
    assert_eq!(key.to_string().parse(), Ok(key));
    assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
    for text in ["", "+1", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
        assert_eq!(text.parse::<PeerKey>(), Err(NotAKey), "{text}");
    }
}

/// RFC 7748, section 6.1.
#[test]
fn alice_has_the_public_key_of_rfc_7748() {
    let alice: PeerKey = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a".parse().unwrap();
    assert_eq!(
        Identity::from_secret(alice.0).public().to_string(),
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    );
}

fn pair() -> (Keys, Keys) {
    let all = Ciphers::of_this_machine();
    let (ours, theirs) = shake(all, all).unwrap();
    (ours.keys, theirs.keys)
}

#[test]
fn three_hundred_renewals_agree_and_leave_old_keys_behind() -> Result<(), KeyError> {
    let (mut ours, mut theirs) = pair();
    for epoch in 1..=300_u64 {
        let old = ours.opener();
        let (proposed, public) = ours.propose([epoch as u8; 32]);
        assert_eq!(proposed, epoch);
        assert_eq!(ours.propose([99; 32]), (epoch, public), "one renewal at a time");
        let Answer::Advanced(answer) = theirs.answer(epoch, &public, [!epoch as u8; 32])? else {
            panic!("epoch {epoch} is due");
        };
        assert_eq!(theirs.answer(epoch, &public, [0; 32])?, Answer::Repeat(answer));
        assert!(!carries(&ours, &theirs, epoch), "epoch {epoch} opens the one before");
        assert!(ours.complete(epoch, &answer)?);
        assert!(!ours.complete(epoch, &answer)?, "a repeated answer is nothing new");
        assert_eq!((ours.epoch(), theirs.epoch()), (epoch, epoch));
        agree(&ours, &theirs, epoch << 22);

        let sealer = theirs.sealer(0);
        let mut packet = [0; 20];
        Engine::portable().seal(&mut [sealer.job(sealer.mint().unwrap(), &[], &mut packet).unwrap()]);
        let mut jobs = [old.job(0, &[], &mut packet).unwrap()];
        Engine::portable().open(&mut jobs);
        assert_eq!(jobs[0].verdict(), sealane_aead::Verdict::Forged, "epoch {epoch} has the keys before it");
    }
    assert_eq!(theirs.answer(299, &[7; 32], [7; 32])?, Answer::Stale);
    Ok(())
}

#[test]
fn keys_that_are_not_due_are_refused_and_change_nothing() -> Result<(), KeyError> {
    let (mut ours, mut theirs) = pair();
    let public = x25519_public(&[5; 32]);
    assert_eq!(ours.complete(1, &public), Err(KeyError::NotDue), "nothing was proposed");
    assert_eq!(ours.answer(1, &public, [1; 32]), Err(KeyError::NotDue), "an initiator does not answer");
    assert_eq!(theirs.complete(1, &public), Err(KeyError::NotDue), "a responder does not propose");
    for epoch in [0, 2, 257, u64::MAX] {
        assert_eq!(theirs.answer(epoch, &public, [1; 32]), Err(KeyError::NotDue), "{epoch}");
    }
    let (epoch, proposed) = ours.propose([6; 32]);
    assert_eq!(ours.complete(2, &public), Err(KeyError::NotDue));
    let Answer::Advanced(answer) = theirs.answer(epoch, &proposed, [7; 32])? else { panic!("due") };
    assert_eq!(theirs.answer(epoch, &public, [7; 32]), Err(KeyError::NotDue), "two keys for one epoch");
    assert!(ours.complete(epoch, &answer)?);
    agree(&ours, &theirs, 1);
    Ok(())
}

#[test]
fn a_null_secret_ends_a_renewal() {
    let (mut ours, mut theirs) = pair();
    let (epoch, _) = ours.propose([6; 32]);
    assert_eq!(ours.complete(epoch, &[0; 32]), Err(KeyError::NullSecret));
    assert_eq!(theirs.answer(epoch, &[0; 32], [7; 32]), Err(KeyError::NullSecret));
    agree(&ours, &theirs, 0);
}
