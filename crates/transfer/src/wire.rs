//! The bytes of datagrams and of the frames inside them (spec/transfer.md, sections 1 and 5).
//!
//! In: `Datagram::parse`, and `frames` for the payload of an opened Data packet. Out: `Datagram::encode`,
//! `write_data_header` and `Writer`. Messages inside the control stream are in `message.rs`.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use arrayvec::ArrayVec;

/// The protocol's version, in every datagram of the handshake.
const VERSION: u8 = 1;
/// Bytes of an Init, and of every Data packet until a larger size was probed.
pub(crate) const INIT_SIZE: usize = 1200;
/// Bytes of a Data packet before its sealed frames.
pub(crate) const DATA_HEADER: usize = 18;
/// Bytes of a cookie.
pub(crate) const COOKIE: usize = 20;
/// Bytes of Noise message 1: an ephemeral key.
pub(crate) const NOISE_1: usize = 32;
/// Bytes of Noise message 2: an ephemeral key, a sealed static key, ten sealed bytes.
pub(crate) const NOISE_2: usize = 32 + 48 + 10 + 16;
/// Bytes of Noise message 3: a sealed static key and one sealed byte.
pub(crate) const NOISE_3: usize = 48 + 1 + 16;
/// Ranges in an ACK (5.2). Below 64, so that the number of further ranges is one byte.
pub(crate) const ACK_RANGES: usize = 64;

const TAG: usize = 16;
const VARINT_MAX: u64 = (1 << 62) - 1;

/// Bytes from an authenticated peer that break the protocol: the session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent malformed bytes")]
pub(crate) struct Malformed;

/// A session as the side that receives its datagrams calls it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId(pub [u8; 8]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// A datagram as it came or will leave. In `Init`, `Retry` and `Response`, `id` is the initiator's, in `Finish` the
/// responder's, in `Data` the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    Init {
        id: SessionId,
        cookie: &'a [u8; COOKIE],
        noise: &'a [u8; NOISE_1],
    },
    Retry {
        id: SessionId,
        cookie: &'a [u8; COOKIE],
    },
    Response {
        id: SessionId,
        noise: &'a [u8; NOISE_2],
    },
    Finish {
        id: SessionId,
        noise: &'a [u8; NOISE_3],
    },
    /// The first 18 bytes of the datagram are its associated data, the rest is sealed.
    Data {
        epoch: u8,
        id: SessionId,
        number: u64,
    },
}

impl<'a> Datagram<'a> {
    /// `None` for what is to be dropped without effect (1.2).
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let size = bytes.len();
        let mut bytes = Reader(bytes);
        let kind = bytes.byte()?;
        let second = bytes.byte()?;
        let id = SessionId(*bytes.array()?);
        if kind == 5 {
            let number = u64::from_be_bytes(*bytes.array()?);
            return (size > DATA_HEADER + TAG).then_some(Datagram::Data { epoch: second, id, number });
        }
        let datagram = match kind {
            1 => Datagram::Init { id, cookie: bytes.array()?, noise: bytes.array()? },
            2 => Datagram::Retry { id, cookie: bytes.array()? },
            3 => Datagram::Response { id, noise: bytes.array()? },
            4 => Datagram::Finish { id, noise: bytes.array()? },
            _ => return None,
        };
        let right_size = if kind == 1 { size == INIT_SIZE } else { bytes.0.is_empty() };
        (second == VERSION && right_size).then_some(datagram)
    }

    /// The whole datagram; of `Data` the header alone.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, second, id, first, then): (_, _, _, &[u8], &[u8]) = match self {
            Datagram::Init { id, cookie, noise } => (1, VERSION, id, *cookie, *noise),
            Datagram::Retry { id, cookie } => (2, VERSION, id, *cookie, &[]),
            Datagram::Response { id, noise } => (3, VERSION, id, *noise, &[]),
            Datagram::Finish { id, noise } => (4, VERSION, id, *noise, &[]),
            Datagram::Data { epoch, id, number } => (5, *epoch, id, &number.to_be_bytes(), &[]),
        };
        let mut bytes = [&[kind, second], &id.0[..], first, then].concat();
        if matches!(self, Datagram::Init { .. }) {
            bytes.resize(INIT_SIZE, 0);
        }
        bytes
    }
}

/// Writes the first 18 bytes of a Data packet, which are also its associated data.
///
/// # Panics
/// If `buf` is shorter.
pub(crate) fn write_data_header(buf: &mut [u8], epoch: u8, id: SessionId, number: u64) {
    buf[0] = 5;
    buf[1] = epoch;
    buf[2..10].copy_from_slice(&id.0);
    buf[10..DATA_HEADER].copy_from_slice(&number.to_be_bytes());
}

/// One frame of a Data packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A run of any length.
    Padding,
    Ping,
    Ack(Box<Ack>),
    Control {
        offset: u64,
        bytes: &'a [u8],
    },
    /// `offset` plus the number of bytes fits a `u32`.
    Data {
        piece: u64,
        offset: u32,
        bytes: &'a [u8],
    },
    Challenge([u8; 8]),
    Answer([u8; 8]),
    Key {
        epoch: u64,
        public: [u8; 32],
    },
    Close(u64),
}

/// Which packets arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Packet numbers, highest first, with a gap between any two; not empty once parsed.
    pub ranges: ArrayVec<RangeInclusive<u64>, ACK_RANGES>,
    /// How long the highest had waited, in whole microseconds.
    pub delay: Duration,
    /// Packets with a congestion mark so far.
    pub ce: u64,
}

/// The frames of an opened packet. Ends after the first error; an empty packet is one.
pub(crate) fn frames(payload: &[u8]) -> impl Iterator<Item = Result<Frame<'_>, Malformed>> {
    let mut rest = Some(Reader(payload));
    let mut first = true;
    std::iter::from_fn(move || {
        let bytes = rest.as_mut()?;
        if bytes.0.is_empty() && !first {
            return None;
        }
        first = false;
        let frame = read_frame(bytes).ok_or(Malformed);
        if frame.is_err() {
            rest = None;
        }
        Some(frame)
    })
}

fn read_frame<'a>(bytes: &mut Reader<'a>) -> Option<Frame<'a>> {
    Some(match bytes.byte()? {
        0 => {
            let run = bytes.0.iter().take_while(|byte| **byte == 0).count();
            bytes.take(run)?;
            Frame::Padding
        }
        1 => Frame::Ping,
        2 => Frame::Ack(Box::new(read_ack(bytes)?)),
        3 => Frame::Control { offset: bytes.varint()?, bytes: bytes.prefixed()? },
        4 => {
            let (piece, offset) = (bytes.varint()?, u32::try_from(bytes.varint()?).ok()?);
            let bytes = bytes.prefixed()?;
            offset.checked_add(u32::try_from(bytes.len()).ok()?)?;
            Frame::Data { piece, offset, bytes }
        }
        5 => Frame::Challenge(*bytes.array()?),
        6 => Frame::Answer(*bytes.array()?),
        7 => Frame::Key { epoch: bytes.varint()?, public: *bytes.array()? },
        8 => Frame::Close(bytes.varint()?),
        _ => return None,
    })
}

fn read_ack(bytes: &mut Reader<'_>) -> Option<Ack> {
    let mut end = bytes.varint()?;
    let delay = Duration::from_micros(bytes.varint()?);
    let ce = bytes.varint()?;
    let more = bytes.varint()?;
    if more >= ACK_RANGES as u64 {
        return None;
    }
    let mut start = end.checked_sub(bytes.varint()?)?;
    let mut ranges = ArrayVec::new();
    ranges.push(start..=end);
    for _ in 0..more {
        // RFC 9000, section 19.3.1: a gap of 0 stands for one missing packet.
        end = start.checked_sub(bytes.varint()?.checked_add(2)?)?;
        start = end.checked_sub(bytes.varint()?)?;
        ranges.push(start..=end);
    }
    Some(Ack { ranges, delay, ce })
}

/// Writes frames into a buffer, from its start. A frame that does not fit is not written, and the answer is `false`.
///
/// Numbers must be below 2^62, or the method panics.
pub(crate) struct Writer<'a> {
    buf: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, written: 0 }
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.buf.len() - self.written
    }

    /// Undoes the newest `count` bytes.
    pub(crate) fn take_back(&mut self, count: usize) {
        self.written -= count;
    }

    /// Bytes written.
    pub(crate) fn finish(self) -> usize {
        self.written
    }

    /// As many bytes of padding as fit, at most `count`.
    pub(crate) fn padding(&mut self, count: usize) {
        let count = count.min(self.remaining());
        self.buf[self.written..][..count].fill(0);
        self.written += count;
    }

    pub(crate) fn ping(&mut self) -> bool {
        self.frame(1, &[], &[])
    }

    /// Writes the highest ranges, as many as fit; `false` when not even the first does, or there is none. The delay is
    /// rounded down to microseconds.
    pub(crate) fn ack(&mut self, ack: &Ack) -> bool {
        let Some(first) = ack.ranges.first() else {
            return false;
        };
        let delay = u64::try_from(ack.delay.as_micros()).map_or(VARINT_MAX, |delay| delay.min(VARINT_MAX));
        let count_at = self.written + 1 + varint_len(*first.end()) + varint_len(delay) + varint_len(ack.ce);
        if !self.frame(2, &[*first.end(), delay, ack.ce, 0, first.end() - first.start()], &[]) {
            return false;
        }
        for (above, range) in ack.ranges.iter().zip(&ack.ranges[1..]) {
            debug_assert!(*range.end() + 1 < *above.start(), "ranges descend with a gap between any two");
            let (gap, length) = (above.start() - range.end() - 2, range.end() - range.start());
            if varint_len(gap) + varint_len(length) > self.remaining() {
                break;
            }
            self.varint(gap);
            self.varint(length);
            self.buf[count_at] += 1;
        }
        true
    }

    pub(crate) fn control(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.frame(3, &[offset, bytes.len() as u64], bytes)
    }

    /// Begins a DATA frame and returns its `len` bytes, to be filled.
    pub(crate) fn data(&mut self, piece: u64, offset: u32, len: usize) -> Option<&mut [u8]> {
        if data_overhead(piece, offset, len) + len > self.remaining()
            || !self.frame(4, &[piece, offset.into(), len as u64], &[])
        {
            return None;
        }
        let start = self.written;
        self.written += len;
        Some(&mut self.buf[start..self.written])
    }

    pub(crate) fn challenge(&mut self, bytes: &[u8; 8]) -> bool {
        self.frame(5, &[], bytes)
    }

    pub(crate) fn answer(&mut self, bytes: &[u8; 8]) -> bool {
        self.frame(6, &[], bytes)
    }

    pub(crate) fn key(&mut self, epoch: u64, public: &[u8; 32]) -> bool {
        self.frame(7, &[epoch], public)
    }

    pub(crate) fn close(&mut self, code: u64) -> bool {
        self.frame(8, &[code], &[])
    }

    fn frame(&mut self, kind: u8, numbers: &[u64], bytes: &[u8]) -> bool {
        let size = 1 + numbers.iter().map(|number| varint_len(*number)).sum::<usize>() + bytes.len();
        if size > self.remaining() {
            return false;
        }
        self.put(&[kind]);
        numbers.iter().for_each(|number| self.varint(*number));
        self.put(bytes);
        true
    }

    fn varint(&mut self, number: u64) {
        let (bytes, len) = varint(number);
        self.put(&bytes[8 - len..]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.written..][..bytes.len()].copy_from_slice(bytes);
        self.written += bytes.len();
    }
}

/// Bytes of a CONTROL frame besides its `len` bytes.
pub(crate) fn control_overhead(offset: u64, len: usize) -> usize {
    1 + varint_len(offset) + varint_len(len as u64)
}

/// Bytes of a DATA frame besides its `len` bytes; fewer bytes never need more.
pub(crate) fn data_overhead(piece: u64, offset: u32, len: usize) -> usize {
    1 + varint_len(piece) + varint_len(offset.into()) + varint_len(len as u64)
}

/// Appends a varint.
///
/// # Panics
/// From 2^62 on.
pub(crate) fn push_varint(out: &mut Vec<u8>, number: u64) {
    let (bytes, len) = varint(number);
    out.extend_from_slice(&bytes[8 - len..]);
}

/// A varint is the last `len` of the bytes.
fn varint(number: u64) -> ([u8; 8], usize) {
    let len = varint_len(number);
    let mut bytes = number.to_be_bytes();
    bytes[8 - len] |= (len.ilog2() as u8) << 6;
    (bytes, len)
}

fn varint_len(number: u64) -> usize {
    match number {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        0x4000_0000..=VARINT_MAX => 8,
        _ => panic!("{number} is too large for a varint"),
    }
}

/// Takes values from the front; `None` when bytes are missing.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|byte| byte[0])
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.0.first()?;
        let mut bytes = [0; 8];
        let taken = self.take(1 << (first >> 6))?;
        bytes[8 - taken.len()..].copy_from_slice(taken);
        bytes[8 - taken.len()] &= 0x3f;
        Some(u64::from_be_bytes(bytes))
    }

    /// Bytes with their number before them, as a varint.
    pub(crate) fn prefixed(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).ok()?)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
