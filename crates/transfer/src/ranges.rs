//! A set of numbers kept as ranges: what arrived of a stream, of a piece, of the packets of a session.

use std::ops::Range;

/// Disjoint ranges in rising order, none empty, none touching the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Adds `range`. Returns how many of its numbers were not in the set.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // What arrives in order extends the last range.
        if let Some(last) = self.0.last_mut().filter(|last| last.end == range.start) {
            last.end = range.end;
            return range.end - range.start;
        }
        let first = self.0.partition_point(|r| r.end < range.start);
        let after = first + self.0[first..].partition_point(|r| r.start <= range.end);
        let old: u64 = self.0[first..after].iter().map(|r| r.end - r.start).sum();
        let merged = match &self.0[first..after] {
            [] => range,
            [head, ..] => head.start.min(range.start)..self.0[after - 1].end.max(range.end),
        };
        let new = merged.end - merged.start - old;
        self.0.splice(first..after, [merged]);
        new
    }

    /// Takes away every number of `range`.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|r| r.end <= range.start);
        let after = first + self.0[first..].partition_point(|r| r.start < range.end);
        if first == after {
            return;
        }
        let left = self.0[first].start..range.start.max(self.0[first].start);
        let right = range.end.min(self.0[after - 1].end)..self.0[after - 1].end;
        self.0.splice(first..after, [left, right].into_iter().filter(|r| !r.is_empty()));
    }

    /// Takes the lowest range away, at most `max` numbers of it.
    pub(crate) fn pop(&mut self, max: u64) -> Option<Range<u64>> {
        let first = self.0.first()?.clone();
        let taken = first.start..first.end.min(first.start.saturating_add(max));
        self.remove(taken.clone());
        Some(taken)
    }

    /// The ranges, lowest first.
    pub(crate) fn as_slice(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| {
            set.insert(range);
        });
        set
    }
}

#[cfg(test)]
mod tests {
    use super::RangeSet;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_the_set_it_stands_for(ops in prop::collection::vec((0u8..3, 0u64..60, 0u64..20), 1..40)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (op, start, len) in ops {
                let range = start..start + len;
                match op {
                    0 => {
                        let new = range.clone().filter(|n| model.insert(*n)).count() as u64;
                        prop_assert_eq!(set.insert(range), new);
                    }
                    1 => {
                        set.remove(range.clone());
                        range.for_each(|n| { model.remove(&n); });
                    }
                    _ => match set.pop(len.max(1)) {
                        None => prop_assert!(model.is_empty()),
                        Some(taken) => for n in taken {
                            prop_assert_eq!(model.pop_first(), Some(n));
                        },
                    },
                }
                let numbers: Vec<u64> = set.as_slice().iter().cloned().flatten().collect();
                prop_assert!(numbers.iter().eq(model.iter()));
                prop_assert!(set.as_slice().windows(2).all(|w| w[0].end < w[1].start));
            }
        }
    }
}
