//! Both ends of a session without its protocol: keys, lanes, and two sockets on loopback. For what is measured a packet or
//! a stage at a time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use sealane_aead::{Cipher, Engine, Opener, Sealer};
use sealane_lane::Lane;
use sealane_net::{Arrival, Udp};

use crate::Error;

/// Clear bytes before the sealed ones; the last eight are the packet number.
pub(super) const HEADER: usize = 18;
pub(super) const REJECTED: Error = Error::Rejected { subject: "sealane/udp", step: "carry a packet" };

pub(super) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// A datagram that takes longer is lost.
pub(super) const LOST: Duration = Duration::from_secs(5);

/// A sender and its receiver, in one thread.
pub(super) struct Line {
    pub(super) engine: Engine,
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
    ends: [Udp; 2],
    to: SocketAddr,
    /// What is sent, and what is received.
    pub(super) lanes: [Lane; 2],
    arrivals: Vec<Arrival>,
}

impl Line {
    pub(super) fn new(cipher: Cipher, lanes: [Lane; 2]) -> Result<Self, Error> {
        let (key, iv) = (vec![7; cipher.key_len()], vec![9; cipher.nonce_len()]);
        let ends = [Udp::bind(LOOPBACK)?, Udp::bind(LOOPBACK)?];
        Ok(Self {
            engine: Engine::new(),
            sealer: Sealer::new(cipher, &key, &iv)?,
            opener: Opener::new(cipher, &key, &iv)?,
            to: ends[1].local_addr()?,
            ends,
            lanes,
            arrivals: Vec::new(),
        })
    }

    /// Moves the packets of the first lane into the second.
    pub(super) fn carry(&mut self) -> Result<(), Error> {
        let [out, into] = &mut self.lanes;
        if self.ends[0].send(out, self.to, None)? < out.len() {
            return Err(REJECTED);
        }
        into.clear();
        self.arrivals.clear();
        while into.len() < out.len() {
            if self.ends[1].recv(into, &mut self.arrivals)? == 0 {
                let start = Instant::now();
                self.ends[1].wait(Some(LOST), false)?;
                if start.elapsed() >= LOST {
                    return Err(REJECTED);
                }
            }
        }
        Ok(())
    }
}
