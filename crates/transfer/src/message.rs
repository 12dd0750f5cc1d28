//! The messages of the control stream (spec/transfer.md, section 6): bytes in stream order go into `MessageReader`,
//! `Message` comes out.

use std::ops::Range;

use crate::wire::{Malformed, Reader, push_varint};

/// The largest body of a message.
pub(crate) const BODY_MAX: usize = 65_536;

/// One message. Who may send which, and when, is not checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The id of the wanted object.
    Want([u8; 32]),
    /// The root of the offer, at most [`BODY_MAX`] bytes.
    Offer(Vec<u8>),
    /// Pieces, none of the ranges empty, ends below 2^63.
    Request(Vec<Range<u64>>),
    Failed(Reason),
    Done,
}

/// Why a provider does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoSuchObject = 0,
    Unreadable = 1,
}

impl Message {
    /// Appends the message; a request of more ranges than one message holds becomes several.
    ///
    /// # Panics
    /// If an offer is longer than [`BODY_MAX`], or a range begins or counts from 2^62 on.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Message::Want(id) => put(out, 1, id),
            Message::Offer(root) => put(out, 2, root),
            Message::Request(ranges) => {
                // A pair of varints is at most 16 bytes.
                for ranges in ranges.chunks(BODY_MAX / 16) {
                    let mut body = Vec::new();
                    for range in ranges {
                        push_varint(&mut body, range.start);
                        push_varint(&mut body, range.end - range.start);
                    }
                    put(out, 3, &body);
                }
            }
            Message::Failed(reason) => put(out, 4, &[*reason as u8]),
            Message::Done => put(out, 5, &[]),
        }
    }
}

fn put(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    assert!(body.len() <= BODY_MAX, "a message of {} bytes", body.len());
    out.push(kind);
    push_varint(out, body.len() as u64);
    out.extend_from_slice(body);
}

/// Cuts the control stream into messages. Holds what was pushed and not yet taken: after `next` said `None`, less than
/// one message.
#[derive(Default)]
pub(crate) struct MessageReader {
    buf: Vec<u8>,
    taken: usize,
}

impl MessageReader {
    /// Appends the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buf.drain(..self.taken);
        self.taken = 0;
        self.buf.extend_from_slice(bytes);
    }

    /// The next whole message of a known type; `None` until more bytes come. An error stays.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let mut rest = Reader(&self.buf[self.taken..]);
        while let Some((kind, body)) = split(&mut rest)? {
            let message = parse(kind, body)?;
            self.taken = self.buf.len() - rest.0.len();
            if message.is_some() {
                return Ok(message);
            }
        }
        Ok(None)
    }
}

/// The next message's type and body; `None` if it is not whole.
fn split<'a>(bytes: &mut Reader<'a>) -> Result<Option<(u8, &'a [u8])>, Malformed> {
    let (Some(kind), Some(len)) = (bytes.byte(), bytes.varint()) else {
        return Ok(None);
    };
    if len > BODY_MAX as u64 {
        return Err(Malformed);
    }
    Ok(bytes.take(len as usize).map(|body| (kind, body)))
}

/// `None` for an unknown type.
fn parse(kind: u8, body: &[u8]) -> Result<Option<Message>, Malformed> {
    Ok(Some(match (kind, body) {
        (1, id) => Message::Want(id.try_into().map_err(|_| Malformed)?),
        (2, root) => Message::Offer(root.to_vec()),
        (3, pairs) => Message::Request(ranges(pairs)?),
        (4, [0]) => Message::Failed(Reason::NoSuchObject),
        (4, [1]) => Message::Failed(Reason::Unreadable),
        (5, []) => Message::Done,
        (4 | 5, _) => return Err(Malformed),
        _ => return Ok(None),
    }))
}

fn ranges(pairs: &[u8]) -> Result<Vec<Range<u64>>, Malformed> {
    let mut pairs = Reader(pairs);
    let mut ranges = Vec::new();
    while !pairs.0.is_empty() {
        let (Some(first), Some(count @ 1..)) = (pairs.varint(), pairs.varint()) else {
            return Err(Malformed);
        };
        ranges.push(first..first + count);
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Message> {
        let range = (0..1_u64 << 62, 1..1_u64 << 62).prop_map(|(first, count)| first..first + count);
        prop_oneof![
            any::<[u8; 32]>().prop_map(Message::Want),
            vec(any::<u8>(), 0..200).prop_map(Message::Offer),
            vec(range, 0..20)
                .prop_map(Message::Request)
                .prop_filter("an empty one is not sent", |message| { *message != Message::Request(Vec::new()) }),
            prop_oneof![Just(Reason::NoSuchObject), Just(Reason::Unreadable)].prop_map(Message::Failed),
            Just(Message::Done),
        ]
    }

    fn read_all(reader: &mut MessageReader, stream: &[u8], chunk: usize) -> Result<Vec<Message>, Malformed> {
        let mut messages = Vec::new();
        for bytes in stream.chunks(chunk) {
            reader.push(bytes);
            while let Some(message) = reader.next()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn messages_come_back_however_the_stream_is_cut(all in vec(message(), 0..10), chunk in 1..100_usize) {
            let mut stream = Vec::new();
            all.iter().for_each(|message| message.encode(&mut stream));
            let mut reader = MessageReader::default();
            prop_assert_eq!(read_all(&mut reader, &stream, chunk)?, all);
        }

        #[test]
        fn random_streams_end_in_messages_or_an_error(stream in vec(prop_oneof![0..7_u8, any::<u8>()], 0..300)) {
            let mut reader = MessageReader::default();
            let read = read_all(&mut reader, &stream, 7);
            prop_assert_eq!(read.is_err(), reader.next().is_err(), "an error stays");
            prop_assert!(read.map_or(0, |messages| messages.len()) <= stream.len() / 2);
        }
    }

    #[test]
    fn a_request_too_long_for_one_message_becomes_several() -> Result<(), Malformed> {
        let ranges: Vec<_> = (0..20_000).map(|i| (1 << 61) + i..(1 << 61) + (1 << 40) + i).collect();
        let mut stream = Vec::new();
        Message::Request(ranges.clone()).encode(&mut stream);
        let read = read_all(&mut MessageReader::default(), &stream, 1000)?;
        let read: Vec<_> = read
            .into_iter()
            .flat_map(|message| match message {
                Message::Request(ranges) => ranges,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(read, ranges);
        Ok(())
    }

    #[test]
    fn the_largest_body_is_read_and_one_byte_more_is_malformed() -> Result<(), Malformed> {
        let mut stream = Vec::new();
        Message::Offer(vec![1; BODY_MAX]).encode(&mut stream);
        assert_eq!(read_all(&mut MessageReader::default(), &stream, 4096)?, [Message::Offer(vec![1; BODY_MAX])]);

        let mut header = vec![2];
        push_varint(&mut header, BODY_MAX as u64 + 1);
        assert_eq!(read_all(&mut MessageReader::default(), &header, 9), Err(Malformed));
        Ok(())
    }

    #[test]
    fn unknown_types_are_skipped() -> Result<(), Malformed> {
        let mut reader = MessageReader::default();
        assert_eq!(read_all(&mut reader, &[0, 0, 99, 3, 1, 2, 3, 5, 0, 6, 0], 1)?, [Message::Done]);
        Ok(())
    }
}
