//! One rule broken by a peer that keeps all others, and what follows.

use sealane_aead::{Opener, Verdict};

use super::*;
use crate::Closed;
use crate::message::{Message, MessageReader};
use crate::provider::Visit;
use crate::tree::CHUNK;
use crate::wire::{Frame, Writer, frames};

/// The other end of a session with a machine.
struct Peer {
    established: Established,
    sealer: Sealer,
    opener: Opener,
    engine: Engine,
    said: u64,
    reader: MessageReader,
}

impl Peer {
    fn new(established: Established) -> Self {
        let (sealer, opener) = (established.keys.sealer(0), established.keys.opener());
        Self { established, sealer, opener, engine: Engine::portable(), said: 0, reader: MessageReader::default() }
    }

    fn frames(&self, machine: &mut impl Machine, now: Instant, payload: &[u8]) {
        deliver(machine, now, ADDRESSES[0], &seal(&self.sealer, &self.engine, self.established.peer_id, payload));
    }

    fn say(&mut self, machine: &mut impl Machine, now: Instant, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        for bytes in bytes.chunks(30_000) {
            let mut payload = vec![0; bytes.len() + 32];
            assert!(Writer::new(&mut payload).control(self.said, bytes));
            self.said += bytes.len() as u64;
            self.frames(machine, now, &payload);
        }
    }

    /// What the machine has to say now: messages and the code of a CLOSE.
    fn hear(&mut self, machine: &mut impl Machine, now: Instant) -> (Vec<Message>, Option<u64>) {
        let (mut messages, mut code) = (Vec::new(), None);
        let mut lane = Lane::new(1 << 16, 64);
        while machine.poll_transmit(now, &mut lane).is_some() {
            for packet in lane.packets_mut() {
                let Some(Datagram::Data { number, .. }) = Datagram::parse(packet) else { panic!("not a packet") };
                let (header, body) = packet.split_at_mut(DATA_HEADER);
                let mut job = [self.opener.job(number, header, body).unwrap()];
                self.engine.open(&mut job);
                assert_eq!(job[0].verdict(), Verdict::Authentic);
                for frame in frames(&body[..body.len() - TAG]) {
                    match frame.unwrap() {
                        Frame::Control { bytes, .. } => self.reader.push(bytes),
                        Frame::Close(why) => assert_eq!(code.replace(why), None, "said once"),
                        _ => {}
                    }
                }
            }
            lane.clear();
            while let Some(message) = self.reader.next().unwrap() {
                messages.push(message);
            }
        }
        (messages, code)
    }
}

/// What a provider of `Zeros` answers to `messages` and then to the frames of `payload`.
fn told(messages: &[Message], payload: &[u8]) -> (Vec<Message>, Option<u64>) {
    let now = Instant::now();
    let (mut provider, established) = met_provider(now);
    let mut peer = Peer::new(established);
    messages.iter().for_each(|message| peer.say(&mut provider, now, message));
    if !payload.is_empty() {
        peer.frames(&mut provider, now, payload);
    }
    let heard = peer.hear(&mut provider, now);
    let left = std::iter::from_fn(|| provider.poll_visit())
        .any(|visit| matches!(visit, Visit::Left { why: Closed::Misbehaved, .. }));
    assert_eq!(left, heard.1 == Some(1), "what it says is what it does");
    heard
}

const WANT: Message = Message::Want([0; 32]);

#[test]
fn a_provider_closes_on_a_getter_that_breaks_a_rule() {
    let request = |pieces| Message::Request(vec![pieces]);
    assert_eq!(told(&[WANT], &[]).1, None);
    assert_eq!(told(&[WANT, request(0..5), request(4..5)], &[1]).1, None);
    assert_eq!(told(&[WANT, Message::Done], &[]).1, None);
    assert_eq!(told(&[WANT], &data(0, 0, &[1])).1, None, "DATA that nobody requested is dropped");
    for messages in [
        &[request(0..1)][..],
        &[Message::Done],
        &[WANT, WANT],
        &[Message::Want([1; 32]), Message::Want([1; 32])],
        &[Message::Want([1; 32]), request(0..1)],
        &[WANT, request(0..6)],
        &[WANT, request(1 << 61..(1 << 61) + 1)],
        &[WANT, Message::Done, Message::Done],
        &[WANT, Message::Offer(vec![])],
        &[WANT, Message::Failed(crate::message::Reason::Unreadable)],
    ] {
        assert_eq!(told(messages, &[]).1, Some(1), "{messages:?}");
    }
    let beyond_the_window = [&[3, 0x80, 5, 0, 0][..], &[1, 9]].concat();
    let ack_of_a_packet_never_sent = [2, 40, 0, 0, 0, 0];
    for frames in [&[99][..], &ack_of_a_packet_never_sent, &[8], &beyond_the_window] {
        assert_eq!(told(&[WANT], frames).1, Some(1), "{frames:?}");
    }
}

#[test]
fn a_provider_remembers_so_many_requests_and_closes_beyond() {
    let requests = |count| Message::Request(vec![0..1; count]);
    assert_eq!(told(&[WANT, requests(8192)], &[]).1, None);
    assert_eq!(told(&[WANT, requests(8193)], &[]).1, Some(1));
}

/// A getter to which a provider of `root` has said what it offers, and what it requests.
fn offered(root: &Root) -> (Getter, Peer, Option<Layout>, Vec<Message>) {
    let now = Instant::now();
    let (mut getter, established) = met_getter(now, matches!(root, Root::Set { .. }));
    let (mut peer, mut layout) = (Peer::new(established), None);
    peer.say(&mut getter, now, &Message::Offer(root.encode()));
    work_disk(&mut getter, now, &mut layout);
    let (said, code) = peer.hear(&mut getter, now);
    assert_eq!((&said[0], code), (&WANT, None));
    (getter, peer, layout, said)
}

fn file(size: u64) -> Root {
    Root::File { name: Name::new("file").unwrap(), size, mode: Mode::of(0o600) }
}

fn data(piece: u64, offset: u32, bytes: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; bytes.len() + 24];
    Writer::new(&mut payload).data(piece, offset, bytes.len()).unwrap().copy_from_slice(bytes);
    payload
}

/// What the getter says at its end.
fn outcome(getter: &mut Getter, peer: &mut Peer, now: Instant) -> (Option<u64>, Option<Error>) {
    let (_, code) = peer.hear(getter, now);
    let outcome = getter.poll_outcome(now + Duration::from_secs(2));
    (code, outcome.and_then(Result::err))
}

#[test]
fn a_getter_takes_no_crumbs_and_nothing_beyond_a_piece() {
    let now = Instant::now();
    let (mut getter, mut peer, ..) = offered(&file(CHUNK as u64));
    for n in 0..1024 {
        peer.frames(&mut getter, now, &data(0, 2 * n, &[7]));
    }
    assert_eq!(peer.hear(&mut getter, now).1, None);
    peer.frames(&mut getter, now, &data(7, 0, &[7]));
    assert_eq!(peer.hear(&mut getter, now).1, None, "what was not requested is dropped");
    peer.frames(&mut getter, now, &data(0, 4096, &[7]));
    assert!(matches!(outcome(&mut getter, &mut peer, now), (Some(1), Some(Error::Misbehaved))));

    let (mut getter, mut peer, ..) = offered(&file(10));
    peer.frames(&mut getter, now, &data(0, 9, &[7, 7]));
    assert!(matches!(outcome(&mut getter, &mut peer, now), (Some(1), Some(Error::Misbehaved))));
}

#[test]
fn a_getter_hears_the_same_offer_as_often_as_it_comes_and_another_never() {
    let now = Instant::now();
    let (mut getter, mut peer, ..) = offered(&file(10));
    for _ in 0..1000 {
        peer.say(&mut getter, now, &Message::Offer(file(10).encode()));
    }
    assert_eq!(peer.hear(&mut getter, now), (vec![], None));
    assert!(getter.poll_action().is_none());
    peer.say(&mut getter, now, &Message::Offer(file(11).encode()));
    assert!(matches!(outcome(&mut getter, &mut peer, now), (Some(1), Some(Error::Root))));
}

#[test]
fn a_getter_asks_for_no_more_of_a_huge_manifest_than_it_has_memory_for() {
    let pieces = |said: &[Message]| -> u64 {
        let ranges = said.iter().flat_map(|message| if let Message::Request(r) = message { &r[..] } else { &[] });
        ranges.map(|range| range.end - range.start).sum()
    };
    let (mut getter, mut peer, _, said) = offered(&Root::Set { manifest_len: 1 << 26 });
    assert_eq!(pieces(&said), 24);
    let now = Instant::now();
    for piece in 0..24 {
        peer.frames(&mut getter, now, &data(piece, 0, &[7]));
    }
    assert_eq!(pieces(&peer.hear(&mut getter, now).0), 0, "nothing more before what came is on disk");
}

#[test]
fn a_provider_lets_so_many_handshakes_wait_and_for_ten_seconds() {
    let (start, own) = (Instant::now(), Identity::from_secret(OWN_SECRET));
    let (_, noise) = Initiator::start(&Identity::from_secret(HOSTILE_SECRET), own.public(), HOSTILE, SEED);
    let mut provider = Provider::new(start, own, Ciphers::of_this_machine(), Zeros::new(), SEED);
    let mut init = |now, number: u64, cookie: &[u8; 20]| {
        let id = SessionId(number.to_be_bytes());
        deliver(&mut provider, now, ADDRESSES[0], &Datagram::Init { id, cookie, noise: &noise }.encode());
        provider.handle_timeout(now);
        provider.poll_datagram(now).map(|(_, answer)| answer)
    };
    let cookies: Vec<[u8; 20]> = (0..1025)
        .map(|number| match Datagram::parse(&init(start, number, &[0; 20]).unwrap()) {
            Some(Datagram::Retry { cookie, .. }) => *cookie,
            other => panic!("{other:?}"),
        })
        .collect();
    let responses: Vec<_> = (0..1024).map(|number| init(start, number, &cookies[number as usize]).unwrap()).collect();
    assert!(responses.iter().all(|response| response[0] == 3));
    assert_eq!(init(start, 1024, &cookies[1024]), None);
    assert_eq!(init(start, 7, &cookies[7]).as_ref(), Some(&responses[7]), "what comes again is answered as before");
    let later = start + Duration::from_secs(10);
    init(later, 2000, &[0; 20]);
    assert_eq!(init(later, 1024, &cookies[1024]).unwrap()[0], 3);
    let answer = init(start + Duration::from_secs(16), 3, &cookies[3]).unwrap();
    assert_eq!(answer[0], 2, "a cookie is good for 15 seconds");
}
