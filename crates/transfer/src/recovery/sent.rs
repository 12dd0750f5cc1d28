//! Packets that left, in the order of their numbers.

use std::collections::{VecDeque, vec_deque::Drain};
use std::ops::RangeInclusive;
use std::time::Instant;

/// Lost packets that are remembered in case they arrive after all; older ones stay lost.
const LOST_MEMORY: usize = 1024;

/// One packet.
pub(super) struct Record<T> {
    pub(super) at: Instant,
    pub(super) size: u32,
    pub(super) state: State<T>,
}

/// What is known about a packet.
pub(super) enum State<T> {
    /// On its way; the peer must acknowledge it.
    Eliciting(T),
    /// On its way; the peer need not acknowledge it, and it counts nowhere.
    Quiet(T),
    /// On its way, to see whether packets of its size pass.
    MtuProbe,
    /// Acked; its contents were given back.
    Acked,
}

/// The undecided packets and those between them: each is found by its number, none is moved.
pub(super) struct Ring<T> {
    first: u64,
    records: VecDeque<Record<T>>,
}

impl<T> Ring<T> {
    pub(super) fn new() -> Self {
        Self { first: 0, records: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// One more than the largest number that was pushed.
    pub(super) fn next(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// # Panics
    /// When `number` does not follow the one before.
    pub(super) fn push(&mut self, number: u64, record: Record<T>) {
        if self.records.is_empty() && number > self.first {
            self.first = number;
        }
        assert_eq!(number, self.next(), "packet numbers rise by one");
        self.records.push_back(record);
    }

    pub(super) fn front(&self) -> Option<(u64, &Record<T>)> {
        self.records.front().map(|record| (self.first, record))
    }

    pub(super) fn pop_front(&mut self) -> Option<(u64, Record<T>)> {
        let record = self.records.pop_front()?;
        self.first += 1;
        Some((self.first - 1, record))
    }

    /// The packets of `numbers` that are still here, in rising order.
    pub(super) fn of(&mut self, numbers: &RangeInclusive<u64>) -> impl Iterator<Item = (u64, &mut Record<T>)> {
        let start = (*numbers.start()).clamp(self.first, self.next());
        let end = numbers.end().saturating_add(1).clamp(start, self.next());
        let indices = (start - self.first) as usize..(end - self.first) as usize;
        (start..end).zip(self.records.range_mut(indices))
    }
}

/// Numbers of packets that were declared lost, rising.
pub(super) struct LostMemory(VecDeque<u64>);

impl LostMemory {
    pub(super) fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(super) fn push(&mut self, number: u64) {
        if self.0.len() == LOST_MEMORY {
            self.0.pop_front();
        }
        self.0.push_back(number);
    }

    /// Takes out those among `numbers`.
    pub(super) fn take(&mut self, numbers: &RangeInclusive<u64>) -> Drain<'_, u64> {
        let start = self.0.partition_point(|number| number < numbers.start());
        let end = self.0.partition_point(|number| number <= numbers.end());
        self.0.drain(start..end.max(start))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
