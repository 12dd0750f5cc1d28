//! What must hold of the private parsers and state machines for any bytes; the targets of the crate `sealane-fuzz` call it.

mod sessions;

pub use sessions::{getter, provider};

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sealane_aead::Cipher;

use crate::handshake::{Ciphers, Identity, Initiator, Responder};
use crate::message::{Message, MessageReader};
use crate::recovery::{Recovery, Sent};
use crate::wire::{Datagram, Frame, Malformed, NOISE_1, SessionId, Writer, frames};

/// A datagram that is accepted is the datagram that would be sent.
pub fn datagram(bytes: &[u8]) {
    match Datagram::parse(bytes) {
        Some(data @ Datagram::Data { .. }) => assert!(bytes.starts_with(&data.encode())),
        Some(datagram) => assert_eq!(Datagram::parse(&datagram.encode()), Some(datagram)),
        None => {}
    }
}

/// Frames that are accepted, written again, are the same frames and no longer.
pub fn payload(bytes: &[u8]) {
    let read: Vec<Frame> = frames(bytes).map_while(Result::ok).collect();
    let mut again = vec![0; bytes.len()];
    let mut writer = Writer::new(&mut again);
    for frame in &read {
        assert!(write(&mut writer, frame), "{frame:?} grew");
    }
    let len = writer.finish();
    let again: Result<Vec<Frame>, Malformed> = frames(&again[..len]).collect();
    assert!(read.is_empty() || again == Ok(read));
}

fn write(writer: &mut Writer, frame: &Frame) -> bool {
    match frame {
        Frame::Padding => writer.padding(1),
        Frame::Ping => return writer.ping(),
        Frame::Ack(ack) => return writer.ack(ack),
        Frame::Control { offset, bytes } => return writer.control(*offset, bytes),
        Frame::Data { piece, offset, bytes } => match writer.data(*piece, *offset, bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => return false,
        },
        Frame::Challenge(bytes) => return writer.challenge(bytes),
        Frame::Answer(bytes) => return writer.answer(bytes),
        Frame::Key { epoch, public } => return writer.key(*epoch, public),
        Frame::Close(code) => return writer.close(*code),
    }
    true
}

/// A stranger's message 1 of 32 bytes, then pairs of place and change: no altered message is taken, and none keeps the
/// real one out.
pub fn handshake(bytes: &[u8]) {
    let Some((stranger, changes)) = bytes.split_first_chunk::<NOISE_1>() else { return };
    let (getter, provider) = (Identity::from_secret([1; 32]), Identity::from_secret([2; 32]));
    let (id, own_id, ciphers) = (SessionId([3; 8]), SessionId([4; 8]), Ciphers::only(Cipher::Aes256Gcm));
    let respond = |message_1: &_| Responder::respond(&provider, id, own_id, ciphers, [5; 32], message_1);
    if let Ok((mut responder, message_2)) = respond(stranger) {
        assert!(responder.finish(message_2.first_chunk().expect("message 3 is shorter")).is_err());
    }

    let (mut initiator, message_1) = Initiator::start(&getter, provider.public(), id, [6; 32]);
    let (mut responder, message_2) = respond(&message_1).expect("the initiator's own message");
    for [place, change] in changes.as_chunks().0.iter().filter(|[_, change]| *change != 0) {
        let mut altered = message_2;
        altered[usize::from(*place) % message_2.len()] ^= change;
        assert!(initiator.finish(&altered, ciphers).is_err());
    }
    let (established, message_3) = initiator.finish(&message_2, ciphers).expect("the responder's own message");
    assert!(established.peer == provider.public() && established.peer_id == own_id);
    for [place, change] in changes.as_chunks().0.iter().filter(|[_, change]| *change != 0) {
        let mut altered = message_3;
        altered[usize::from(*place) % message_3.len()] ^= change;
        assert!(responder.finish(&altered).is_err());
    }
    let established = responder.finish(&message_3).expect("the initiator's own message");
    assert!(established.peer == getter.public() && established.cipher == Cipher::Aes256Gcm);
}

/// Commands of three bytes: whatever the peer acknowledges and whenever, what a packet carried comes back at most once,
/// and if the peer must acknowledge it, once.
pub fn recovery(bytes: &[u8]) {
    let mut now = Instant::now();
    let mut recovery = Recovery::new(now);
    let (mut next, mut carried) = (0_u64, BTreeMap::new());
    for [command, a, b] in bytes.as_chunks().0.iter().chain(&[ACK_ALL]) {
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        match command % 6 {
            0 if recovery.allowance(now) > 0 => {
                let ack_eliciting = a % 4 > 0;
                carried.insert(next, ack_eliciting);
                recovery.on_sent(now, next, Sent { size: recovery.mtu(), ack_eliciting, contents: next });
                next += 1;
            }
            1 if next > 0 => {
                let end = (next - 1).saturating_sub((*a).into());
                let start = if *b == u8::MAX { 0 } else { end.saturating_sub((b % 16).into()) };
                let delay = Duration::from_millis((*b).into());
                let (acked, lost) = (&mut |n| acked.push(n), &mut |n| lost.push(n));
                assert!(recovery.on_ack(now, &[start..=end], delay, (b / 16).into(), acked, lost).is_ok());
            }
            2 => now += Duration::from_micros(u64::from(*a) << (b % 16)),
            3 => _ = recovery.on_timeout(now, &mut |n| lost.push(n)),
            4 => {
                if let Some(size) = recovery.mtu_probe(now) {
                    recovery.on_sent_mtu_probe(now, next, size);
                    next += 1;
                }
            }
            5 if a == b => recovery.on_path_change(now),
            _ => {}
        }
        assert!(acked.iter().chain(&lost).all(|number| carried.remove(number).is_some()), "came back twice");
        assert!(recovery.window() >= recovery.mtu());
    }
    assert!(recovery.in_flight() == 0 && carried.into_values().all(|ack_eliciting| !ack_eliciting));
}

/// The command that acknowledges every packet sent.
const ACK_ALL: [u8; 3] = [1, 0, u8::MAX];

/// A control stream yields the same messages however it is cut, and each is read as it would be written.
pub fn control_stream(bytes: &[u8]) {
    let whole = messages(std::iter::once(bytes));
    assert_eq!(whole, messages(bytes.chunks(3)));
    for message in whole.0.into_iter().filter(|message| *message != Message::Request(Vec::new())) {
        let mut written = Vec::new();
        message.encode(&mut written);
        let (read, end) = messages(std::iter::once(&*written));
        let same = match &message {
            Message::Request(ranges) => {
                let read = read.into_iter().filter_map(|m| if let Message::Request(r) = m { Some(r) } else { None });
                read.flatten().eq(ranges.iter().cloned())
            }
            _ => read == [message],
        };
        assert!(same && end.is_ok());
    }
}

/// The messages of a stream that comes in `parts`, and how it ends.
fn messages<'a>(parts: impl Iterator<Item = &'a [u8]>) -> (Vec<Message>, Result<(), Malformed>) {
    let mut reader = MessageReader::default();
    let mut found = Vec::new();
    for part in parts {
        reader.push(part);
        loop {
            match reader.next() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(error) => return (found, Err(error)),
            }
        }
    }
    (found, Ok(()))
}
