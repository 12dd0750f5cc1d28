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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId([1; 8]);

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_cookie_is_good_for_its_lifetime() {
        let jar = CookieJar::new([7; 32]);
        let home = addr("192.0.2.1:7000");
        for now in [0, 1000, u32::MAX - LIFETIME - 1] {
            let cookie = jar.bake(now, home, ID);
            assert!(jar.verify(now, home, ID, &cookie));
            assert!(jar.verify(now + LIFETIME, home, ID, &cookie));
            assert!(!jar.verify(now + LIFETIME + 1, home, ID, &cookie), "expired");
            assert!(!jar.verify(now.wrapping_sub(1), home, ID, &cookie), "not yet baked");
        }
    }

    #[test]
    fn a_cookie_is_good_for_one_address_session_and_jar() {
        let jar = CookieJar::new([7; 32]);
        for home in ["192.0.2.1:7000", "[2001:db8::1]:7000"].map(addr) {
            let cookie = jar.bake(1000, home, ID);
            for other in ["192.0.2.1:7001", "192.0.2.2:7000", "[::ffff:192.0.2.1]:7000", "[2001:db8::2]:7000"] {
                assert!(!jar.verify(1000, addr(other), ID, &cookie), "{home} from {other}");
            }
            assert!(!jar.verify(1000, home, SessionId([2; 8]), &cookie));
            assert!(!CookieJar::new([8; 32]).verify(1000, home, ID, &cookie));
        }
    }

    #[test]
    fn a_cookie_with_a_flipped_bit_is_refused() {
        let jar = CookieJar::new([7; 32]);
        let home = addr("192.0.2.1:7000");
        let cookie = jar.bake(1000, home, ID);
        for bit in 0..8 * COOKIE {
            let mut forged = cookie;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(!jar.verify(1000, home, ID, &forged), "bit {bit}");
            assert!(!jar.verify(1001, home, ID, &forged), "bit {bit}");
        }
    }
}
