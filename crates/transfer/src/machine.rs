//! What the loop of `node.rs`, or a simulation, does with a provider or a getter.

use std::net::SocketAddr;
use std::time::Instant;

use sealane_lane::Lane;
use sealane_net::Arrival;

use crate::Transmit;

/// A protocol without I/O: datagrams and time go in, datagrams come out.
pub trait Machine {
    /// What a receive call brought; packets are opened in their place.
    fn handle_datagrams(&mut self, now: Instant, lane: &mut Lane, arrivals: &[Arrival]);
    /// To be called at [`Machine::timeout`], and harmless before.
    fn handle_timeout(&mut self, now: Instant);
    /// When there is something to do or to send, if nothing comes before.
    fn timeout(&self, now: Instant) -> Option<Instant>;
    /// The next datagram of a handshake to be sent.
    fn poll_datagram(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)>;
    /// Fills the empty `lane` with packets to be sent; `None` when there are none now.
    fn poll_transmit(&mut self, now: Instant, lane: &mut Lane) -> Option<Transmit>;
}
