//! Packet memory: one slab, filled with packets that lie back to back.
//!
//! A packet is built in its slot, sealed there and sent from there; a batch received by one system call is opened
//! where the kernel put it. No cryptography and no I/O here. The whole crate is this file and its one type, [`Lane`].

use std::ops::Range;

/// A slab of bytes and the packets in it.
///
/// Slots are contiguous and in order of age, so equal packets can leave in one segmented send ([`Lane::bytes`]).
/// All memory is taken when the lane is made.
///
/// ```
/// let mut lane = sealane_lane::Lane::new(4096, 8);
/// lane.push(1200).expect("empty lane")[0] = 7;
/// assert_eq!(lane.packet(0)[0], 7);
/// ```
pub struct Lane {
    slab: Box<[u8]>,
    slots: Vec<Range<usize>>,
    max_slots: usize,
}

impl Lane {
    /// A lane of `bytes` bytes for at most `max_slots` packets.
    pub fn new(bytes: usize, max_slots: usize) -> Self {
        Self { slab: vec![0; bytes].into(), slots: Vec::with_capacity(max_slots), max_slots }
    }

    /// Forgets the packets; their bytes stay until they are written over.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// Packets held.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no packet is held.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The largest packet that [`Lane::push`] would still take, in bytes.
    pub fn room(&self) -> usize {
        if self.slots.len() == self.max_slots { 0 } else { self.slab.len() - self.end() }
    }

    /// Appends a packet of `len` bytes and returns it to be filled, or `None` when it does not fit.
    /// The bytes are what the slab held before.
    pub fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.slots.len() == self.max_slots || len > self.room() {
            return None;
        }
        let slot = self.end()..self.end() + len;
        self.slots.push(slot.clone());
        Some(&mut self.slab[slot])
    }

    /// Shortens the newest packet to `len` bytes; zero takes it away.
    ///
    /// # Panics
    /// When there is no packet or `len` is more than its length.
    pub fn shrink_last(&mut self, len: usize) {
        let last = self.slots.last_mut().expect("a packet to shorten");
        assert!(len <= last.len(), "a packet cannot grow");
        last.end = last.start + len;
        if len == 0 {
            self.slots.pop();
        }
    }

    /// Packet `index`, oldest first.
    ///
    /// # Panics
    /// When `index` is not below [`Lane::len`].
    pub fn packet(&self, index: usize) -> &[u8] {
        &self.slab[self.slots[index].clone()]
    }

    /// All packets at once, oldest first, each to be changed in place.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let mut rest = &mut self.slab[..];
        self.slots.iter().map(move |slot| {
            let (packet, tail) = std::mem::take(&mut rest).split_at_mut(slot.len());
            rest = tail;
            packet
        })
    }

    /// The bytes of all packets, back to back.
    pub fn bytes(&self) -> &[u8] {
        &self.slab[..self.end()]
    }

    /// Unused memory behind the packets, for a receive call to fill; then [`Lane::commit`].
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let end = self.end();
        &mut self.slab[end..]
    }

    /// Makes packets of the first `len` bytes of [`Lane::spare_mut`], each of `stride` bytes, the last what remains.
    /// Returns their indices. Bytes beyond the slab or the slots are left out.
    pub fn commit(&mut self, len: usize, stride: usize) -> Range<usize> {
        let first = self.slots.len();
        let mut left = len.min(self.slab.len() - self.end());
        while left > 0 && self.slots.len() < self.max_slots {
            let start = self.end();
            let size = left.min(stride.max(1));
            self.slots.push(start..start + size);
            left -= size;
        }
        first..self.slots.len()
    }

    fn end(&self) -> usize {
        self.slots.last().map_or(0, |slot| slot.end)
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use proptest::prelude::*;

    #[test]
    fn a_full_lane_takes_no_more() {
        let mut lane = Lane::new(10, 2);
        assert!(lane.push(11).is_none());
        assert_eq!(lane.push(4).unwrap().len(), 4);
        assert_eq!(lane.room(), 6);
        assert!(lane.push(6).is_some());
        assert_eq!((lane.room(), lane.len()), (0, 2));
    }

    #[test]
    fn an_emptied_slot_disappears_and_its_room_returns() {
        let mut lane = Lane::new(10, 2);
        lane.push(8).unwrap();
        lane.shrink_last(3);
        assert_eq!(lane.bytes().len(), 3);
        lane.shrink_last(0);
        assert!(lane.is_empty());
        assert_eq!(lane.room(), 10);
    }

    proptest! {
        #[test]
        fn received_bytes_are_cut_by_stride_and_lie_in_order(len in 0usize..300, stride in 1usize..80, before in 0usize..20) {
            let mut lane = Lane::new(256, 64);
            lane.push(before).unwrap().fill(0xee);
            let first = lane.len();
            for (i, byte) in lane.spare_mut().iter_mut().enumerate() {
                *byte = i as u8;
            }
            let taken = lane.commit(len, stride);
            prop_assert_eq!(taken.start, first);
            let packets: Vec<Vec<u8>> = lane.packets_mut().skip(first).map(|p| p.to_vec()).collect();
            prop_assert!(packets.iter().rev().skip(1).all(|p| p.len() == stride));
            let whole: Vec<u8> = packets.concat();
            let expect = len.min(256 - before).min(stride * (64 - first));
            prop_assert!(whole.iter().enumerate().all(|(i, b)| *b == i as u8));
            prop_assert_eq!(whole.len(), expect);
        }
    }
}
