use crate::Error;

/// Packets behind the newest that may still arrive: more than reordering on a 10 Gbit/s path of 10 ms moves one.
pub(crate) const WINDOW: u64 = 16_384;

/// One word more than the window, so that the word of the newest packet never holds one that may still arrive.
const WORDS: u64 = WINDOW / 64 + 1;

/// Which of the newest packet numbers were accepted: a ring of bits (RFC 6479).
pub(crate) struct Window {
    newest: u64,
    bits: Box<[u64; WORDS as usize]>,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { newest: 0, bits: Box::new([0; WORDS as usize]) }
    }

    /// Whether packet `n` is new and not too old.
    pub(crate) fn check(&self, n: u64) -> Result<(), Error> {
        let (word, bit) = place(n);
        let too_old = self.newest.saturating_sub(n) >= WINDOW;
        let seen = n <= self.newest && self.bits[word] & bit != 0;
        if too_old || seen { Err(Error::Replayed(n)) } else { Ok(()) }
    }

    /// Marks packet `n`, moving the window when it is the newest.
    pub(crate) fn accept(&mut self, n: u64) -> Result<(), Error> {
        self.check(n)?;
        if n > self.newest {
            let passed = (n / 64 - self.newest / 64).min(WORDS);
            for step in 0..passed {
                let (word, _) = place(n - step * 64);
                self.bits[word] = 0;
            }
            self.newest = n;
        }
        let (word, bit) = place(n);
        self.bits[word] |= bit;
        Ok(())
    }
}

fn place(n: u64) -> (usize, u64) {
    ((n / 64 % WORDS) as usize, 1 << (n % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Every number ever accepted.
    #[derive(Default)]
    struct Model {
        accepted: HashSet<u64>,
        newest: u64,
    }

    impl Model {
        fn accept(&mut self, n: u64) -> Result<(), Error> {
            if self.newest.saturating_sub(n) >= WINDOW || !self.accepted.insert(n) {
                return Err(Error::Replayed(n));
            }
            self.newest = self.newest.max(n);
            Ok(())
        }
    }

    #[test]
    fn the_window_ends_where_it_says() {
        let mut window = Window::new();
        window.accept(WINDOW).unwrap();
        assert_eq!(window.accept(0), Err(Error::Replayed(0)));
        assert_eq!(window.accept(1), Ok(()));
        assert_eq!(window.accept(1), Err(Error::Replayed(1)));
        assert_eq!(window.accept(u64::MAX), Ok(()));
        assert_eq!(window.accept(u64::MAX), Err(Error::Replayed(u64::MAX)));
        assert_eq!(window.accept(u64::MAX - WINDOW + 1), Ok(()));
        assert_eq!(window.check(u64::MAX - WINDOW), Err(Error::Replayed(u64::MAX - WINDOW)));
    }

    #[test]
    fn a_leap_forgets_what_the_ring_held() {
        for leap in [WORDS * 64 - 1, WORDS * 64, 10 * WINDOW, u64::MAX / 2] {
            let mut window = Window::new();
            (0..WORDS * 64).for_each(|n| window.accept(n).unwrap());
            let newest = WORDS * 64 + leap;
            window.accept(newest).unwrap();
            (newest - WINDOW + 1..newest).for_each(|n| window.accept(n).unwrap());
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(
            start in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - WINDOW)],
            steps in prop::collection::vec(
                prop_oneof![4 => -80i64..80, 2 => -70i64..200, 1 => -20_000i64..20_000, 1 => -17_000i64..-16_000], 1..400),
        ) {
            let (mut window, mut model, mut n) = (Window::new(), Model::default(), start);
            for step in steps {
                n = n.saturating_add_signed(step);
                let expected = model.accept(n);
                prop_assert_eq!(window.check(n), expected);
                prop_assert_eq!(window.accept(n), expected);
            }
        }
    }
}
