use crate::{Cipher, Error, Job, Key, backend::portable::chacha20, key::Schedule, window::Window};
use std::sync::atomic::{AtomicU64, Ordering};
use zeroize::Zeroize;

/// Seals one direction's packets under one key, each under a number of its own.
///
/// Order of calls for a packet: [`Sealer::mint`], write the number into the header, [`Sealer::job`],
/// [`crate::Engine::seal`].
///
/// ```compile_fail,E0277
/// fn printed<T: std::fmt::Debug>() {}
/// printed::<sealane_aead::Sealer>();
/// ```
/// ```compile_fail,E0277
/// fn copied<T: Clone>() {}
/// copied::<sealane_aead::Sealer>();
/// ```
pub struct Sealer {
    direction: Direction,
    next: AtomicU64,
    id: u64,
}

impl Sealer {
    /// The nonce of packet `n` is `iv` with its last 8 bytes XORed with `n`, big-endian (as RFC 8446, section 5.3). With
    /// XChaCha20-Poly1305 the first 16 bytes never change, so HChaCha20 runs here and not once a packet.
    ///
    /// # Errors
    /// [`Error::KeyLength`], or [`Error::NonceLength`] when `iv` is not of [`Cipher::nonce_len`] bytes.
    pub fn new(cipher: Cipher, secret: &[u8], iv: &[u8]) -> Result<Self, Error> {
        Self::starting_at(cipher, secret, iv, 0)
    }

    /// As [`new`](Self::new), with `first` as the first number: for a protocol whose numbers go on under a new key.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn starting_at(cipher: Cipher, secret: &[u8], iv: &[u8], first: u64) -> Result<Self, Error> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let direction = Direction::new(cipher, secret, iv)?;
        Ok(Self { direction, next: AtomicU64::new(first), id: IDS.fetch_add(1, Ordering::Relaxed) })
    }

    /// The next packet's number, from the first on. A number that no job uses is lost, and no harm.
    ///
    /// # Errors
    /// [`Error::Exhausted`] after 2^64 - 1 packets, for ever.
    pub fn mint(&self) -> Result<Number, Error> {
        let next = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        next.map(|value| Number { value, sealer: self.id }).map_err(|_| Error::Exhausted)
    }

    /// The job that seals packet `number`.
    ///
    /// # Errors
    /// [`Error::ForeignNumber`], and those of [`Job::new`]; the number is used up all the same.
    pub fn job<'a>(&'a self, number: Number, aad: &'a [u8], buf: &'a mut [u8]) -> Result<Job<'a>, Error> {
        if number.sealer != self.id {
            return Err(Error::ForeignNumber);
        }
        self.direction.job(number.value, aad, buf)
    }
}

/// A packet number that one [`Sealer::job`] may use.
///
/// ```compile_fail,E0277
/// fn copied<T: Clone>() {}
/// copied::<sealane_aead::Number>();
/// ```
#[derive(Debug)]
pub struct Number {
    value: u64,
    sealer: u64,
}

impl Number {
    /// The number, to be written into the packet's header.
    pub fn get(&self) -> u64 {
        self.value
    }
}

/// Opens one direction's packets and refuses those it accepted before.
///
/// Order of calls for a packet: [`Opener::job`], [`crate::Engine::open`], and when the verdict is authentic
/// [`Opener::accept`], whose success alone lets the plaintext be used.
///
/// ```compile_fail,E0277
/// fn printed<T: std::fmt::Debug>() {}
/// printed::<sealane_aead::Opener>();
/// ```
/// ```compile_fail,E0277
/// fn copied<T: Clone>() {}
/// copied::<sealane_aead::Opener>();
/// ```
pub struct Opener {
    direction: Direction,
    window: Window,
}

impl Opener {
    /// The other end of the [`Sealer`] made of the same arguments.
    ///
    /// # Errors
    /// Those of [`Sealer::new`].
    pub fn new(cipher: Cipher, secret: &[u8], iv: &[u8]) -> Result<Self, Error> {
        Ok(Self { direction: Direction::new(cipher, secret, iv)?, window: Window::new() })
    }

    /// The job that opens packet `n`, as its header claims.
    ///
    /// # Errors
    /// [`Error::Replayed`] when it was accepted before or is 16384 or more behind the newest; those of [`Job::new`].
    pub fn job<'a>(&'a self, n: u64, aad: &'a [u8], buf: &'a mut [u8]) -> Result<Job<'a>, Error> {
        self.window.check(n)?;
        self.direction.job(n, aad, buf)
    }

    /// Marks packet `n`, to be called after it proved authentic.
    ///
    /// # Errors
    /// [`Error::Replayed`] when it is marked already, as the second of two copies in one batch is.
    pub fn accept(&mut self, n: u64) -> Result<(), Error> {
        self.window.accept(n)
    }
}

/// One direction's key and the bytes that its nonces begin from.
struct Direction {
    key: Key,
    iv: [u8; 12],
}

impl Direction {
    fn new(cipher: Cipher, secret: &[u8], iv: &[u8]) -> Result<Self, Error> {
        let key = Key::new(cipher, secret)?;
        let wrong = Error::NonceLength { cipher, got: iv.len() };
        if let Schedule::XChaCha20Poly1305(key) = &key.schedule {
            let (fixed, last) = <&[u8; 24]>::try_from(iv).map_err(|_| wrong)?.split_first_chunk::<16>().ok_or(wrong)?;
            let mut short = [0; 12];
            short[4..].copy_from_slice(last);
            return Ok(Self {
                key: Key { schedule: Schedule::ChaCha20Poly1305(chacha20::hchacha20(key, fixed)) },
                iv: short,
            });
        }
        Ok(Self { key, iv: iv.try_into().map_err(|_| wrong)? })
    }

    fn job<'a>(&'a self, n: u64, aad: &'a [u8], buf: &'a mut [u8]) -> Result<Job<'a>, Error> {
        let mut nonce = self.iv;
        for (byte, n) in nonce[4..].iter_mut().zip(n.to_be_bytes()) {
            *byte ^= n;
        }
        Job::new(&self.key, nonce.into(), aad, buf)
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        self.iv.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, TAG, Verdict};
    use proptest::prelude::*;

    fn pair(cipher: Cipher) -> (Sealer, Opener) {
        let (secret, iv) = (vec![0x42; cipher.key_len()], vec![0x17; cipher.nonce_len()]);
        (Sealer::new(cipher, &secret, &iv).unwrap(), Opener::new(cipher, &secret, &iv).unwrap())
    }

    fn seal(sealer: &Sealer, text: &[u8]) -> (u64, Vec<u8>) {
        let number = sealer.mint().unwrap();
        let (n, mut buf) = (number.get(), [text, &[0; TAG]].concat());
        Engine::portable().seal(&mut [sealer.job(number, &n.to_be_bytes(), &mut buf).unwrap()]);
        (n, buf)
    }

    fn open(opener: &Opener, n: u64, buf: &mut [u8]) -> Result<Verdict, Error> {
        let aad = n.to_be_bytes();
        let mut jobs = [opener.job(n, &aad, buf)?];
        Engine::portable().open(&mut jobs);
        Ok(jobs[0].verdict())
    }

    #[test]
    fn the_last_number_is_an_error_for_ever() {
        let (sealer, _) = pair(Cipher::Aes128Gcm);
        sealer.next.store(u64::MAX - 2, Ordering::Relaxed);
        assert_eq!(sealer.mint().unwrap().get(), u64::MAX - 2);
        assert_eq!(sealer.mint().unwrap().get(), u64::MAX - 1);
        for _ in 0..3 {
            assert_eq!(sealer.mint().err(), Some(Error::Exhausted));
        }
    }

    #[test]
    fn another_sealers_number_is_refused() {
        let ((one, _), (other, _)) = (pair(Cipher::Aes128Gcm), pair(Cipher::Aes128Gcm));
        assert_eq!(one.job(other.mint().unwrap(), &[], &mut [0; 16]).err(), Some(Error::ForeignNumber));
    }

    #[test]
    fn the_nonce_is_the_iv_with_the_number_at_its_end() {
        for cipher in Cipher::ALL {
            let (sealer, _) = pair(cipher);
            sealer.next.store(0x0102_0304_0506_0708, Ordering::Relaxed);
            let (n, sealed) = seal(&sealer, b"text");
            let mut nonce = vec![0x17; cipher.nonce_len()];
            let at = nonce.len() - 8;
            nonce[at..].iter_mut().zip(1..).for_each(|(byte, n)| *byte ^= n);
            let nonce = <[u8; 12]>::try_from(&nonce[..])
                .map_or_else(|_| nonce[..].try_into().map(crate::Nonce::Long), |n| Ok(n.into()));
            let key = Key::new(cipher, &vec![0x42; cipher.key_len()]).unwrap();
            let (aad, mut plain) = (n.to_be_bytes(), [&b"text"[..], &[0; TAG]].concat());
            Engine::portable().seal(&mut [Job::new(&key, nonce.unwrap(), &aad, &mut plain).unwrap()]);
            assert_eq!(sealed, plain, "{cipher}");
        }
    }

    #[test]
    fn secrets_and_vectors_of_other_lengths_are_refused() {
        for cipher in Cipher::ALL {
            for got in (0..40).filter(|got| *got != cipher.nonce_len()) {
                let made = Opener::new(cipher, &vec![0; cipher.key_len()], &vec![0; got]);
                assert_eq!(made.err(), Some(Error::NonceLength { cipher, got }));
            }
            let made = Sealer::new(cipher, &[0; 31], &vec![0; cipher.nonce_len()]);
            assert_eq!(made.err(), Some(Error::KeyLength { cipher, got: 31 }));
        }
    }

    proptest! {
        /// Packets arrive in any order, some twice, some altered, some under another's number.
        #[test]
        fn each_packet_is_accepted_once_and_no_other(
            arrivals in prop::collection::vec((0usize..60, 0u8..8), 1..300),
            cipher in prop::sample::select(&Cipher::ALL[..]),
        ) {
            let (sealer, mut opener) = pair(cipher);
            let packets: Vec<_> = (0..60u8).map(|i| seal(&sealer, &[i; 30])).collect();
            let mut accepted = std::collections::HashSet::new();
            for (i, fault) in arrivals {
                let (n, mut buf) = packets[i].clone();
                let claimed = if fault == 0 { n + 1 } else { n };
                buf[i % 46] ^= u8::from(fault == 1);
                let verdict = open(&opener, claimed, &mut buf);
                if accepted.contains(&claimed) {
                    prop_assert_eq!(verdict, Err(Error::Replayed(claimed)));
                } else if fault < 2 {
                    prop_assert_eq!(verdict, Ok(Verdict::Forged));
                    prop_assert_eq!(buf, [0; 46]);
                } else {
                    prop_assert_eq!(verdict, Ok(Verdict::Authentic));
                    prop_assert_eq!(&buf[..30], &[i as u8; 30]);
                    prop_assert_eq!(opener.accept(n), Ok(()));
                    prop_assert_eq!(opener.accept(n), Err(Error::Replayed(n)));
                    accepted.insert(n);
                }
            }
        }
    }
}
