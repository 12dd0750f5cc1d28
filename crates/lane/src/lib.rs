//! Packet memory: one slab, filled with packets in order of age.
//!
//! A packet is built in its slot, sealed there and sent from there; a batch received by one system call is opened
//! where the kernel put it. No cryptography and no I/O here. The whole crate is this file and its one type, [`Lane`].

use std::ops::Range;

/// A slab of bytes and the packets in it.
///
/// Pushed packets lie back to back, so equal ones leave in one segmented send ([`Lane::train`]). Between received ones
/// there may be gaps, because one receive call fills several buffers. All memory is taken when the lane is made.
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
        if self.free_slots() == 0 { 0 } else { self.slab.len() - self.used() }
    }

    /// Packets that still find a slot.
    pub fn free_slots(&self) -> usize {
        self.max_slots - self.slots.len()
    }

    /// Bytes from the start of the slab to the end of the newest packet, gaps included.
    pub fn used(&self) -> usize {
        self.slots.last().map_or(0, |slot| slot.end)
    }

    /// Appends a packet of `len` bytes and returns it to be filled, or `None` when it does not fit.
    /// The bytes are what the slab held before.
    pub fn push(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.free_slots() == 0 || len > self.room() {
            return None;
        }
        let slot = self.used()..self.used() + len;
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
        let mut passed = 0;
        self.slots.iter().map(move |slot| {
            let (before, tail) = std::mem::take(&mut rest).split_at_mut(slot.end - passed);
            rest = tail;
            let gap = slot.start - passed;
            passed = slot.end;
            &mut before[gap..]
        })
    }

    /// The longest train that starts at packet `first`: packets back to back and of equal length, of which the last may
    /// be shorter, at most `max_packets` and `max_bytes` but always one. Returns their number and their bytes.
    ///
    /// # Panics
    /// When `first` is not below [`Lane::len`].
    pub fn train(&self, first: usize, max_packets: usize, max_bytes: usize) -> (usize, &[u8]) {
        let head = self.slots[first].clone();
        let mut end = head.end;
        let mut count = 1;
        for slot in self.slots[first + 1..].iter().take(max_packets.saturating_sub(1)) {
            let fits = slot.len() <= head.len() && !slot.is_empty() && slot.end - head.start <= max_bytes;
            if slot.start != end || !fits {
                break;
            }
            end = slot.end;
            count += 1;
            if slot.len() < head.len() {
                break;
            }
        }
        (count, &self.slab[head.start..end])
    }

    /// Unused memory behind the packets, from byte [`Lane::used`] of the slab on, for a receive call to fill; then
    /// [`Lane::commit`].
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let used = self.used();
        &mut self.slab[used..]
    }

    /// Makes packets of the bytes `filled` of the slab, each of `stride` bytes, the last what remains. Returns their
    /// indices. Bytes of earlier packets, beyond the slab or without a slot are left out.
    pub fn commit(&mut self, filled: Range<usize>, stride: usize) -> Range<usize> {
        let first = self.slots.len();
        let mut start = filled.start.max(self.used());
        let end = filled.end.min(self.slab.len());
        while start < end && self.free_slots() > 0 {
            let size = stride.clamp(1, end - start);
            self.slots.push(start..start + size);
            start += size;
        }
        first..self.slots.len()
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
        assert_eq!(lane.used(), 3);
        lane.shrink_last(0);
        assert!(lane.is_empty());
        assert_eq!(lane.room(), 10);
    }

    #[test]
    fn a_train_ends_at_a_longer_packet_after_a_shorter_one_and_at_a_gap() {
        let mut lane = Lane::new(100, 20);
        for len in [4, 4, 4, 3, 4, 5] {
            lane.push(len).unwrap().fill(len as u8);
        }
        assert_eq!(lane.train(0, 64, 100), (4, &[4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3][..]));
        assert_eq!(lane.train(4, 64, 100).0, 1);
        assert_eq!(lane.train(0, 2, 100).0, 2);
        assert_eq!(lane.train(0, 64, 14).0, 3);
        assert_eq!(lane.train(5, 0, 0).0, 1, "one packet is always a train");
        let end = lane.used();
        lane.commit(end..end + 10, 5);
        lane.commit(end + 11..end + 16, 5);
        assert_eq!(lane.train(5, 64, 100).0, 3);
        lane.push(0).unwrap();
        assert_eq!(lane.train(8, 64, 100).0, 1, "an empty packet travels alone");
        assert_eq!(lane.train(9, 64, 100), (1, &[][..]));
    }

    proptest! {
        #[test]
        fn received_bytes_are_cut_by_stride_and_lie_in_order(
            len in 0usize..300, stride in 1usize..80, before in 0usize..20, gap in 0usize..20,
        ) {
            let mut lane = Lane::new(256, 64);
            lane.push(before).unwrap().fill(0xee);
            let first = lane.len();
            for (i, byte) in lane.spare_mut().iter_mut().enumerate() {
                *byte = i as u8;
            }
            let start = lane.used() + gap;
            let taken = lane.commit(start..start + len, stride);
            prop_assert_eq!(taken.clone(), first..lane.len());
            let packets: Vec<Vec<u8>> = lane.packets_mut().skip(first).map(|p| p.to_vec()).collect();
            for (index, packet) in taken.zip(&packets) {
                prop_assert_eq!(lane.packet(index), &packet[..]);
            }
            prop_assert!(packets.iter().rev().skip(1).all(|p| p.len() == stride));
            let whole: Vec<u8> = packets.concat();
            let expect = len.min(256 - before - gap).min(stride * (64 - first));
            prop_assert!(whole.iter().enumerate().all(|(i, b)| *b == (gap + i) as u8));
            prop_assert_eq!(whole.len(), expect);
        }

        #[test]
        fn committed_packets_never_overlap(runs in prop::collection::vec((0usize..200, 0usize..80, 0usize..30), 0..8)) {
            let mut lane = Lane::new(128, 10);
            for (start, len, stride) in runs {
                lane.commit(start..start + len, stride);
            }
            let total: usize = lane.packets_mut().map(|p| p.len()).sum();
            let lens: usize = (0..lane.len()).map(|i| lane.packet(i).len()).sum();
            prop_assert_eq!(total, lens);
            prop_assert!(total <= lane.used() && lane.used() <= 128 && lane.len() <= 10);
        }
    }
}
