//! Cookies that prove an address before it costs memory (spec/transfer.md, section 2).

use std::net::{IpAddr, SocketAddr};

use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::wire::{COOKIE, SessionId};

/// How long a cookie is good (2.2), in seconds.
const LIFETIME: u32 = 15;

/// Bakes cookies and knows its own.
pub(crate) struct CookieJar {
    secret: Zeroizing<[u8; 32]>,
}

impl CookieJar {
    /// `secret`: random, one for each socket.
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Self { secret: Zeroizing::new(secret) }
    }

    /// A cookie for the Init of session `id` that came from `addr`; `now` in seconds on a clock of the caller's choice.
    pub(crate) fn bake(&self, now: u32, addr: SocketAddr, id: SessionId) -> [u8; COOKIE] {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&now.to_be_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => hasher.update(&[4]).update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&[6]).update(&ip.octets()),
        };
        hasher.update(&addr.port().to_be_bytes()).update(&id.0);
        let mut cookie = [0; COOKIE];
        cookie[..4].copy_from_slice(&now.to_be_bytes());
        cookie[4..].copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        hasher.zeroize();
        cookie
    }

    /// Whether this jar baked `cookie` for `addr` and `id` at most 15 seconds before `now`.
    pub(crate) fn verify(&self, now: u32, addr: SocketAddr, id: SessionId, cookie: &[u8; COOKIE]) -> bool {
        let [a, b, c, d, ..] = *cookie;
        let baked = u32::from_be_bytes([a, b, c, d]);
        let fresh = now.checked_sub(baked).is_some_and(|age| age <= LIFETIME);
        fresh && self.bake(baked, addr, id).ct_eq(cookie).into()
    }
}
