//! Poly1305 (RFC 8439, section 2.5) on limbs of 44, 44 and 42 bits, whose products fit u128.

use zeroize::{Zeroize, ZeroizeOnDrop};

const BLOCK: usize = 16;
const MASK44: u64 = (1 << 44) - 1;
const MASK42: u64 = (1 << 42) - 1;

/// A number modulo 2^130 - 5, its limbs a few bits over at most.
type Limbs = [u64; 3];

/// The authenticator of one message. Every input is padded with zeros to whole blocks, which is all that AEADs need.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct Poly1305 {
    r: Limbs,
    r2: Limbs,
    h: Limbs,
    s: u128,
}

impl Poly1305 {
    /// The first half of the one-time key is `r`, the second `s`.
    pub(super) fn new(key: &[u8; 32]) -> Self {
        let (r, s) = key.split_at(16);
        let r = u128::from_le_bytes(r.try_into().expect("16 bytes")) & 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;
        let r = limbs(r, 0);
        let s = u128::from_le_bytes(s.try_into().expect("16 bytes"));
        Self { r, r2: reduce(products(r, r)), h: [0; 3], s }
    }

    /// Takes in `data` and zeros up to a whole block.
    pub(super) fn update_padded(&mut self, data: &[u8]) {
        let (blocks, tail) = data.as_chunks::<BLOCK>();
        let (pairs, single) = blocks.as_chunks::<2>();
        // Two blocks a reduction: (h + m0) r^2 + m1 r.
        for [first, second] in pairs {
            let x = products(add(self.h, message(first)), self.r2);
            let y = products(message(second), self.r);
            self.h = reduce([x[0] + y[0], x[1] + y[1], x[2] + y[2]]);
        }
        for block in single {
            self.block(block);
        }
        if !tail.is_empty() {
            let mut block = [0; BLOCK];
            block[..tail.len()].copy_from_slice(tail);
            self.block(&block);
        }
    }

    fn block(&mut self, block: &[u8; BLOCK]) {
        self.h = reduce(products(add(self.h, message(block)), self.r));
    }

    /// The tag: the number brought below 2^130 - 5, plus `s`, modulo 2^128.
    pub(super) fn finish(self) -> [u8; 16] {
        let h = carry(carry(self.h));
        // h + 5 overflows 2^130 exactly when h >= 2^130 - 5.
        let mut g = [h[0] + 5, h[1], h[2]];
        g[1] += g[0] >> 44;
        g[2] += g[1] >> 44;
        let wrap = 0u64.wrapping_sub(g[2] >> 42);
        let pick = |i: usize, mask: u64| (h[i] & !wrap) | (g[i] & mask & wrap);
        let low = u128::from(pick(0, MASK44)) | u128::from(pick(1, MASK44)) << 44 | u128::from(pick(2, MASK42)) << 88;
        low.wrapping_add(self.s).to_le_bytes()
    }
}

/// A block as a number, with the bit above it set.
#[inline(always)]
fn message(block: &[u8; BLOCK]) -> Limbs {
    limbs(u128::from_le_bytes(*block), 1)
}

#[inline(always)]
fn limbs(low: u128, high: u64) -> Limbs {
    [low as u64 & MASK44, (low >> 44) as u64 & MASK44, (low >> 88) as u64 | high << 40]
}

#[inline(always)]
fn add(a: Limbs, b: Limbs) -> Limbs {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// The limbs of a * b before any carry; what overflows 2^130 comes back times 5 (times 4 more for the limbs' alignment).
#[inline(always)]
fn products(a: Limbs, b: Limbs) -> [u128; 3] {
    let mul = |x: u64, y: u64| u128::from(x) * u128::from(y);
    let (b1, b2) = (b[1] * 20, b[2] * 20);
    [
        mul(a[0], b[0]) + mul(a[1], b2) + mul(a[2], b1),
        mul(a[0], b[1]) + mul(a[1], b[0]) + mul(a[2], b2),
        mul(a[0], b[2]) + mul(a[1], b[1]) + mul(a[2], b[0]),
    ]
}

/// Back to limbs: the second may be a bit over.
#[inline(always)]
fn reduce(mut d: [u128; 3]) -> Limbs {
    d[1] += d[0] >> 44;
    d[2] += d[1] >> 44;
    let low = (d[0] as u64 & MASK44) + (d[2] >> 42) as u64 * 5;
    [low & MASK44, (d[1] as u64 & MASK44) + (low >> 44), d[2] as u64 & MASK42]
}

fn carry(mut h: Limbs) -> Limbs {
    h[1] += h[0] >> 44;
    h[2] += h[1] >> 44;
    let low = (h[0] & MASK44) + (h[2] >> 42) * 5;
    [low & MASK44, (h[1] & MASK44) + (low >> 44), h[2] & MASK42]
}
