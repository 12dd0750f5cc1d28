//! `spec/vectors/handshake.json`: from fixed keys to every byte that two sides exchange, with each cipher. To change it,
//! copy what the failing test prints.

use std::net::SocketAddr;

use sealane_aead::{Engine, Verdict};
use serde_json::{Value, json};

use super::*;
use crate::cookie::CookieJar;
use crate::handshake::{Ciphers, Established, Identity, Initiator, Responder};
use crate::wire::{DATA_HEADER, Datagram, Frame, SessionId, Writer, frames, write_data_header};

const VECTORS: &str = include_str!("../../../../spec/vectors/handshake.json");

const GETTER: SessionId = SessionId(*b"getter01");
const PROVIDER: SessionId = SessionId(*b"provider");
const TIME: u32 = 1000;
const ADDRESS: &str = "192.0.2.1:7000";
/// Getter's and provider's private keys: static, ephemeral, of the renewal.
const STATIC: [[u8; 32]; 2] = [[0x11; 32], [0x21; 32]];
const EPHEMERAL: [[u8; 32]; 2] = [[0x12; 32], [0x22; 32]];
const RENEWED: [[u8; 32]; 2] = [[0x13; 32], [0x23; 32]];
const COOKIE_SECRET: [u8; 32] = [0x24; 32];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_byte_of_a_session_is_as_written_down() {
    let cases: Vec<_> = Cipher::ALL.iter().map(|cipher| case(*cipher)).collect();
    let got = json!({
        "about": "Every byte of a session that renews its keys once, with each cipher. Bytes in hexadecimal; an init is \
                  followed by zeros up to 1200 bytes.",
        "getter": {
            "id": hex(&GETTER.0), "address": ADDRESS, "static_private": hex(&STATIC[0]),
            "ephemeral_private": hex(&EPHEMERAL[0]), "renewal_private": hex(&RENEWED[0]),
        },
        "provider": {
            "id": hex(&PROVIDER.0), "static_private": hex(&STATIC[1]), "ephemeral_private": hex(&EPHEMERAL[1]),
            "renewal_private": hex(&RENEWED[1]), "cookie_secret": hex(&COOKIE_SECRET), "cookie_time": TIME,
        },
        "sessions": cases,
    });
    let written: Value = serde_json::from_str(VECTORS).unwrap_or_default();
    assert!(got == written, "{got:#}");
}

fn case(cipher: Cipher) -> Value {
    let [getter, provider] = STATIC.map(Identity::from_secret);
    let (mut initiator, message_1) = Initiator::start(&getter, provider.public(), GETTER, EPHEMERAL[0]);
    let address: SocketAddr = ADDRESS.parse().unwrap();
    let cookie = CookieJar::new(COOKIE_SECRET).bake(TIME, address, GETTER);
    let only = Ciphers::only(cipher);
    let (mut responder, message_2) =
        Responder::respond(&provider, GETTER, PROVIDER, only, EPHEMERAL[1], &message_1).unwrap();
    let (ours, message_3) = initiator.finish(&message_2, Ciphers::of_this_machine()).unwrap();
    let theirs = responder.finish(&message_3).unwrap();
    json!({
        "cipher": cipher.name(),
        "first_init": hex(&Datagram::Init { id: GETTER, cookie: &[0; 20], noise: &message_1 }.encode()[..62]),
        "retry": hex(&Datagram::Retry { id: GETTER, cookie: &cookie }.encode()),
        "second_init": hex(&Datagram::Init { id: GETTER, cookie: &cookie, noise: &message_1 }.encode()[..62]),
        "response": hex(&Datagram::Response { id: GETTER, noise: &message_2 }.encode()),
        "finish": hex(&Datagram::Finish { id: PROVIDER, noise: &message_3 }.encode()),
        "handshake_hash": hex(&*ours.keys.hash),
        "epochs": renewed(ours, theirs),
    })
}

/// Epoch 0 carries a KEY each way as packets 0, epoch 1 a PING each way as packets 1.
fn renewed(ours: Established, theirs: Established) -> Value {
    let (mut ours, mut theirs) = (ours.keys, theirs.keys);
    let (answer_sealer, answer_opener) = (theirs.sealer(0), ours.opener());
    let [mut from_getter, mut from_provider] = [&ours, &theirs].map(secrets);
    let (epoch, public) = ours.propose(RENEWED[0]);
    from_getter["packet"] = packet(ours.sealer(0), theirs.opener(), 0, PROVIDER, &key_frame(epoch, &public));
    let Ok(Answer::Advanced(answer)) = theirs.answer(epoch, &public, RENEWED[1]) else { panic!("a renewal is due") };
    from_provider["packet"] = packet(answer_sealer, answer_opener, 0, GETTER, &key_frame(epoch, &answer));
    let epoch_0 = json!({ "from_getter": from_getter, "from_provider": from_provider });

    assert_eq!(ours.complete(epoch, &answer), Ok(true));
    let [mut from_getter, mut from_provider] = [&ours, &theirs].map(secrets);
    from_getter["packet"] = packet(ours.sealer(1), theirs.opener(), 1, PROVIDER, &[1]);
    from_provider["packet"] = packet(theirs.sealer(1), ours.opener(), 1, GETTER, &[1]);
    json!([epoch_0, { "from_getter": from_getter, "from_provider": from_provider }])
}

fn secrets(keys: &Keys) -> Value {
    let (key, iv) = keys.material(&keys.seal);
    json!({
        "secret": hex(&*keys.seal),
        "key": hex(&key[..keys.cipher.key_len()]),
        "iv": hex(&iv[..keys.cipher.nonce_len()]),
    })
}

fn key_frame(epoch: u64, public: &[u8; 32]) -> Vec<u8> {
    let mut payload = vec![0; 34];
    assert!(Writer::new(&mut payload).key(epoch, public));
    assert_eq!(frames(&payload).next(), Some(Ok(Frame::Key { epoch, public: *public })));
    payload
}

/// The first packet of an epoch, whose number is the epoch's here.
fn packet(sealer: Sealer, opener: Opener, epoch: u8, to: SessionId, payload: &[u8]) -> Value {
    let number = sealer.mint().unwrap();
    let mut packet = [&[0; DATA_HEADER], payload, &[0; 16]].concat();
    write_data_header(&mut packet, epoch, to, number.get());
    let (header, sealed) = packet.split_at_mut(DATA_HEADER);
    let engine = Engine::portable();
    engine.seal(&mut [sealer.job(number, header, sealed).unwrap()]);
    let datagram = hex(&[&*header, &*sealed].concat());

    let mut jobs = [opener.job(epoch.into(), header, sealed).unwrap()];
    engine.open(&mut jobs);
    assert_eq!(jobs[0].verdict(), Verdict::Authentic);
    json!({ "frames": hex(payload), "datagram": datagram })
}
