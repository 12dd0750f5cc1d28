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
        let h = canonical_limbs(self.h);
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

/// Back to limbs: the second may be a bit over, by less than 2^10.
#[inline(always)]
fn reduce(mut d: [u128; 3]) -> Limbs {
    d[1] += d[0] >> 44;
    d[2] += d[1] >> 44;
    let low = (d[0] as u64 & MASK44) + (d[2] >> 42) as u64 * 5;
    [low & MASK44, (d[1] as u64 & MASK44) + (low >> 44), d[2] as u64 & MASK42]
}

/// The limbs of [`reduce`] without the bit over. Only the second can have one, and is then so small without it that the
/// carry coming round ends there.
fn canonical_limbs(h: Limbs) -> Limbs {
    let high = h[2] + (h[1] >> 44);
    let low = h[0] + (high >> 42) * 5;
    [low & MASK44, (h[1] & MASK44) + (low >> 44), high & MASK42]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(r: &[u8], s: u8, message: &[&[u8]]) -> [u8; 16] {
        let mut key = [0; 32];
        key[..r.len()].copy_from_slice(r);
        key[16..].fill(s);
        let mut poly = Poly1305::new(&key);
        poly.update_padded(&message.concat());
        poly.finish()
    }

    fn small(first: u8) -> [u8; 16] {
        let mut block = [0; 16];
        block[0] = first;
        block
    }

    /// RFC 8439, A.3, cases 1 and 5 to 11: the sums that carry into, or end at, 2^130 - 5 and 2^128.
    #[test]
    fn sums_at_the_edges_of_the_field() {
        let full = &[0xff; 16];
        let with_first = |first: u8, others: u8| {
            let mut block = [others; 16];
            block[0] = first;
            block
        };
        assert_eq!(tag(&[], 0, &[&[0; 64]]), [0; 16]);
        assert_eq!(tag(&[2], 0, &[full]), small(3));
        assert_eq!(tag(&[2], 0xff, &[&small(2)]), small(3));
        assert_eq!(tag(&[1], 0, &[full, &with_first(0xf0, 0xff), &small(0x11)]), small(5));
        assert_eq!(tag(&[1], 0, &[full, &with_first(0xfb, 0xfe), &[1; 16]]), [0; 16]);
        assert_eq!(tag(&[2], 0, &[&with_first(0xfd, 0xff)]), with_first(0xfa, 0xff));
        let r = [1, 0, 0, 0, 0, 0, 0, 0, 4];
        let first = [0xe3, 0x35, 0x94, 0xd7, 0x50, 0x5e, 0x43, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0];
        let second = [0x33, 0x94, 0xd7, 0x50, 0x5e, 0x43, 0x79, 0xcd, 1, 0, 0, 0, 0, 0, 0, 0];
        let mut expected = small(0x14);
        expected[8] = 0x55;
        assert_eq!(tag(&r, 0, &[&first, &second, &[0; 16], &small(1)]), expected);
        assert_eq!(tag(&r, 0, &[&first, &second, &[0; 16]]), small(0x13));
    }

    #[test]
    fn one_call_or_one_a_block_is_the_same() {
        let mut key = [0xff; 32];
        for len in 0..130 {
            key[len % 32] ^= len as u8;
            let data: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
            let (mut whole, mut parts) = (Poly1305::new(&key), Poly1305::new(&key));
            whole.update_padded(&data);
            data.chunks(BLOCK).for_each(|block| parts.update_padded(block));
            assert_eq!(whole.finish(), parts.finish(), "{len} bytes");
        }
    }
}
