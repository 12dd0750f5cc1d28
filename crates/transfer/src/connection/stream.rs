//! The control stream: ordered, reliable bytes, one half for each direction (spec 5.4).

use std::collections::VecDeque;
use std::ops::Range;

use crate::ranges::RangeSet;
use crate::wire::Malformed;

/// Bytes that may be unacknowledged, so also those that may wait for a gap to close.
pub(super) const WINDOW: u64 = 256 << 10;

/// Bytes that a probe carries: what fits a packet.
const PROBE: u64 = 1024;

/// What is to be sent and what was not acknowledged.
#[derive(Default)]
pub(super) struct SendHalf {
    /// The bytes from `base` on.
    bytes: VecDeque<u8>,
    base: u64,
    /// Not in any packet that may still arrive.
    pending: RangeSet,
    acked: RangeSet,
}

impl SendHalf {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.base + self.bytes.len() as u64;
        self.bytes.extend(bytes);
        self.pending.insert(end..end + bytes.len() as u64);
    }

    /// Whether bytes may leave now.
    pub(super) fn can_send(&self) -> bool {
        self.pending.as_slice().first().is_some_and(|range| range.start < self.base + WINDOW)
    }

    /// Whether the peer has all of it.
    pub(super) fn is_flushed(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next bytes to send, at most `max`.
    pub(super) fn take(&mut self, max: usize) -> Option<(Range<u64>, Vec<u8>)> {
        let room = (self.base + WINDOW).checked_sub(self.pending.as_slice().first()?.start)?;
        let max = room.min(max as u64);
        let range = self.pending.pop(max).filter(|range| !range.is_empty())?;
        let start = (range.start - self.base) as usize;
        let end = (range.end - self.base) as usize;
        Some((range, self.bytes.range(start..end).copied().collect()))
    }

    pub(super) fn on_lost(&mut self, range: Range<u64>) {
        self.pending.insert(range.start.max(self.base)..range.end.max(self.base));
        for acked in self.acked.as_slice() {
            self.pending.remove(acked.clone());
        }
    }

    /// Nothing was heard for long: the first bytes that are not acked leave again before they are known to be lost.
    pub(super) fn on_silence(&mut self) {
        self.on_lost(self.base..self.base + (self.bytes.len() as u64).min(PROBE));
    }

    pub(super) fn on_acked(&mut self, range: Range<u64>) {
        self.pending.remove(range.clone());
        self.acked.insert(range.start.max(self.base)..range.end.max(self.base));
        if let Some(first) = self.acked.as_slice().first().filter(|first| first.start <= self.base).cloned() {
            self.bytes.drain(..(first.end - self.base) as usize);
            self.base = first.end;
            self.acked.remove(first);
        }
    }
}

/// What arrived and waits for the bytes before it.
#[derive(Default)]
pub(super) struct ReceiveHalf {
    /// The bytes from `base` on, with holes.
    bytes: VecDeque<u8>,
    base: u64,
    have: RangeSet,
}

impl ReceiveHalf {
    /// Takes bytes from anywhere in the window and returns those that are now in order.
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Malformed)?;
        if end > self.base + WINDOW {
            return Err(Malformed);
        }
        let start = offset.max(self.base);
        if start >= end {
            return Ok(Vec::new());
        }
        let (from, to) = ((start - self.base) as usize, (end - self.base) as usize);
        if self.bytes.len() < to {
            self.bytes.resize(to, 0);
        }
        for (slot, byte) in self.bytes.range_mut(from..to).zip(&bytes[(start - offset) as usize..]) {
            *slot = *byte;
        }
        self.have.insert(start..end);
        let Some(first) = self.have.as_slice().first().filter(|first| first.start == self.base).cloned() else {
            return Ok(Vec::new());
        };
        self.have.remove(first.clone());
        self.base = first.end;
        Ok(self.bytes.drain(..(first.end - first.start) as usize).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_beyond_the_window_are_an_error() {
        let mut half = ReceiveHalf::default();
        assert_eq!(half.insert(WINDOW - 1, &[1]), Ok(vec![]));
        assert_eq!(half.insert(WINDOW, &[1]), Err(Malformed));
        assert_eq!(half.insert(u64::MAX, &[1]), Err(Malformed));
    }

    #[test]
    fn no_more_than_the_window_is_unacknowledged() {
        let mut half = SendHalf::default();
        half.push(&vec![7; WINDOW as usize + 1]);
        assert_eq!(half.take(usize::MAX).unwrap().0, 0..WINDOW);
        assert!(!half.can_send());
        assert!(half.take(10).is_none());
        half.on_acked(0..1);
        assert_eq!(half.take(10).unwrap().0, WINDOW..WINDOW + 1);
    }

    #[test]
    fn what_is_not_acked_leaves_again_after_silence() {
        let mut half = SendHalf::default();
        half.on_silence();
        assert!(!half.can_send());
        half.push(&[7; 10]);
        assert_eq!(half.take(8).unwrap().0, 0..8);
        half.on_acked(0..4);
        half.on_silence();
        assert_eq!(half.take(100).unwrap().0, 4..10);
        half.on_acked(4..10);
        half.on_acked(0..8);
        half.on_silence();
        assert!(!half.can_send() && half.is_flushed());
    }

    proptest! {
        #[test]
        fn every_byte_arrives_once_and_in_order(
            text in prop::collection::vec(any::<u8>(), 1..3000),
            fates in prop::collection::vec((1usize..400, 0u8..4), 400),
        ) {
            let (mut send, mut receive) = (SendHalf::default(), ReceiveHalf::default());
            send.push(&text);
            let mut out = Vec::new();
            let mut late: Vec<(Range<u64>, Vec<u8>)> = Vec::new();
            let mut fates = fates.into_iter().chain(std::iter::repeat((400, 3)));
            while !send.is_flushed() {
                let (max, fate) = fates.next().expect("endless");
                if let Some((range, bytes)) = send.take(max) {
                    match fate {
                        0 => send.on_lost(range),
                        1 => late.push((range, bytes)),
                        _ => {
                            out.extend(receive.insert(range.start, &bytes).unwrap());
                            send.on_acked(range);
                        }
                    }
                } else if let Some((range, bytes)) = late.pop() {
                    out.extend(receive.insert(range.start, &bytes).unwrap());
                    out.extend(receive.insert(range.start, &bytes).unwrap());
                    send.on_acked(range.clone());
                    send.on_lost(range);
                }
            }
            prop_assert_eq!(out, text);
        }
    }
}
