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
