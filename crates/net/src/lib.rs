//! Datagrams by the batch.
//!
//! In go the packets of a [`Lane`](sealane_lane::Lane) and an address; out come lanes filled with packets and, for each
//! batch of them, the sender and the ECN mark. [`Udp`] is the real network (read `udp.rs`), [`sim`] a seeded one without
//! I/O, for tests of protocols (read `sim.rs`).

pub mod sim;
mod udp;

/// Explicit congestion notification of a packet (RFC 3168); a packet that is not ECN-capable has none.
pub use quinn_udp::EcnCodepoint as Ecn;
pub use udp::{Arrival, RECEIVE_BUFFER, Udp, Waker};
