use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use sealane_lane::Lane;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Ecn;

#[cfg(windows)]
use std::net::UdpSocket as Bell;
#[cfg(unix)]
use std::os::unix::net::UnixDatagram as Bell;

/// Bytes of spare room in a lane that one received train can need: 64 KiB, the largest UDP payload and what the kernel
/// joins at most.
pub const RECEIVE_BUFFER: usize = 1 << 16;

/// Bytes asked for in each direction between the kernel and us: 10 Gbit/s for 3 ms, a long time slice of another process.
const SOCKET_BUFFER: usize = 4 << 20;

/// The largest payload of one send call: 65,535 less the IPv4 and UDP headers.
const MAX_TRAIN_BYTES: usize = 65_507;

/// A UDP socket that sends and receives lanes. It never blocks but in [`Udp::wait`].
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    ipv6: bool,
    initial_segments: usize,
    lost: u64,
    bell: Bell,
    waker: Waker,
}

/// Packets that came together from one sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The sender; an IPv4 one is written as IPv4 whatever the socket is.
    pub from: SocketAddr,
    /// The congestion mark of all of them.
    pub ecn: Option<Ecn>,
    /// Where in the lane they are, as indices for [`Lane::packet`].
    pub packets: Range<usize>,
}

impl Udp {
    /// A socket at `address`. At `[::]` it speaks IPv4 too; where the machine has no IPv6, bind `0.0.0.0`.
    ///
    /// # Errors
    /// Those of the system: the address is taken, is not ours or is of a family that the machine lacks.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let state = new_state(&socket)?;
        // Best effort: the system's limit may be lower, and the protocol recovers what overflows.
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let (bell, ringer) = bell()?;
        let initial_segments = state.max_gso_segments();
        let waker = Waker(Arc::new(ringer));
        Ok(Self { socket, state, ipv6: address.is_ipv6(), initial_segments, lost: 0, bell, waker })
    }

    /// The address bound, with the port that the system chose.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr().map(canonical)
    }

    /// Packets that one call to the system can send as a train; 1 without segmentation offload, also when the system
    /// turned out to lack it.
    pub fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends the packets of `lane` in order and returns how many the system took: fewer than there are when its buffer is
    /// full, then [`Udp::wait`] until writable. Runs of equal packets leave as trains.
    ///
    /// A packet that the system refuses for its size, its destination or want of memory counts as sent: it is lost, like
    /// one that a router drops.
    ///
    /// # Errors
    /// When the socket itself is broken.
    pub fn send(&mut self, lane: &Lane, to: SocketAddr, ecn: Option<Ecn>) -> io::Result<usize> {
        self.send_by(self.max_segments(), lane, to, ecn)
    }

    fn send_by(&mut self, segments: usize, lane: &Lane, to: SocketAddr, ecn: Option<Ecn>) -> io::Result<usize> {
        let Self { socket, state, initial_segments, lost, .. } = self;
        let destination = if self.ipv6 { mapped(to) } else { to };
        let outcome = send_trains(lane, segments, |contents, stride| {
            let transmit = Transmit { destination, ecn, contents, segment_size: Some(stride), src_ip: None };
            let result = state.try_send(UdpSockRef::from(&*socket), &transmit);
            let alone = stride >= contents.len();
            if result.is_err() && alone && state.max_gso_segments() < *initial_segments {
                // quinn-udp takes EINVAL for a lack of offload and gives trains up for good. When a packet alone fails as
                // well, it was the destination: with a fresh state one bad address does not slow down all others.
                *state = new_state(socket)?;
            }
            result
        })?;
        for (packets, error) in outcome.losses {
            let before = lost.leading_zeros();
            *lost += packets as u64;
            // Rate limit: one line each time the number of losses has about doubled.
            if lost.leading_zeros() < before {
                tracing::debug!(%to, %error, lost = *lost, "the system refused a datagram");
            }
        }
        Ok(outcome.sent)
    }

    /// Takes what has arrived, by one call to the system, into the spare room of `lane`, [`RECEIVE_BUFFER`] bytes a train.
    /// Appends to `arrivals` and returns the number of trains or single packets taken: 0 when nothing waits. Empty
    /// datagrams are taken and left out.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] when `lane` has no room for one train, in bytes or in slots; those of the system
    /// when the socket itself is broken.
    pub fn recv(&mut self, lane: &mut Lane, arrivals: &mut Vec<Arrival>) -> io::Result<usize> {
        let base = lane.used();
        let trains = (lane.free_slots() / self.state.gro_segments()).min(BATCH_SIZE);
        let mut rest = lane.spare_mut().chunks_exact_mut(RECEIVE_BUFFER);
        let mut buffers: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()));
        let trains = buffers.iter().take(trains).take_while(|buffer| !buffer.is_empty()).count();
        if trains == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let taken = loop {
            match self.state.recv(UdpSockRef::from(&self.socket), &mut buffers[..trains], &mut metas) {
                Ok(taken) => break taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                // The echo of an earlier send that found nobody.
                Err(error) if is_loss(&error) => {}
                Err(error) => return Err(error),
            }
        };
        for (index, meta) in metas[..taken].iter().enumerate() {
            let start = base + index * RECEIVE_BUFFER;
            let packets = lane.commit(start..start + meta.len.min(RECEIVE_BUFFER), meta.stride);
            if !packets.is_empty() {
                arrivals.push(Arrival { from: canonical(meta.addr), ecn: meta.ecn, packets });
            }
        }
        Ok(taken)
    }

    /// Sleeps until something has arrived, a [`Waker`] was used, there is room to send again (where `writable` asks for
    /// that), a signal came, or `timeout` is over: to about 0.1 ms on Linux, to 1 ms elsewhere. Returns at once when any
    /// of this is so already.
    ///
    /// # Errors
    /// Those of the system.
    pub fn wait(&mut self, timeout: Option<Duration>, writable: bool) -> io::Result<()> {
        let interest = if writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut watched = [PollFd::new(&self.socket, interest), PollFd::new(&self.bell, PollFlags::IN)];
        // A time-out beyond what the system can express is as good as none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut watched, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !watched[1].revents().is_empty() {
            while self.bell.recv(&mut [0]).is_ok() {}
        }
        Ok(())
    }

    /// What another thread needs to end a [`Udp::wait`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Ends the [`Udp::wait`] of a socket, now or the next one; from any thread.
#[derive(Clone)]
pub struct Waker(Arc<Bell>);

impl Waker {
    /// Ends the wait. Several calls before it may end just one.
    pub fn wake(&self) {
        // Fails only when it has rung unheard often enough, or the socket is gone.
        let _ = self.0.send(&[1]);
    }
}

/// What became of the packets of a lane.
#[derive(Debug, Default)]
struct Outcome {
    sent: usize,
    losses: Vec<(usize, io::Error)>,
}

/// Hands the trains of `lane` to `transmit` (bytes, length of a packet), each of at most `segments` packets, and sorts out
/// the errors.
fn send_trains(
    lane: &Lane,
    mut segments: usize,
    mut transmit: impl FnMut(&[u8], usize) -> io::Result<()>,
) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    while outcome.sent < lane.len() {
        let (count, bytes) = lane.train(outcome.sent, segments, MAX_TRAIN_BYTES);
        match transmit(bytes, lane.packet(outcome.sent).len()) {
            Ok(()) => outcome.sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // EIO or EINVAL: the way out does not split trains, or these packets are too long for it. One by one tells.
            Err(error) if count > 1 && (error.kind() == io::ErrorKind::InvalidInput || !is_loss(&error)) => {
                segments = 1
            }
            Err(error) if is_loss(&error) => {
                outcome.sent += count;
                outcome.losses.push((count, error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Whether the error says that a datagram is lost rather than that the socket is broken.
fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    let kind = matches!(
        error.kind(),
        AddrNotAvailable
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | InvalidInput
            | NetworkDown
            | NetworkUnreachable
            | OutOfMemory
            | PermissionDenied
    );
    let errno = matches!(
        Errno::from_io_error(error),
        Some(Errno::AFNOSUPPORT | Errno::HOSTDOWN | Errno::MSGSIZE | Errno::NOBUFS)
    );
    kind || errno
}

/// Prepares the socket: never blocking, joined receives, ECN marks told.
fn new_state(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    // quinn-udp 0.6.3 asks for the time of each receive, and then its buffer has no room for the ECN mark of a joined one.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false)?;
    Ok(state)
}

/// IPv4 written as IPv4, and no flow label, so that one peer has one address.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        },
        SocketAddr::V4(_) => address,
    }
}

/// How an IPv6 socket names `address` (RFC 4291 section 2.5.5.2).
fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        SocketAddr::V6(_) => address,
    }
}

/// A connected pair of sockets, the ear first.
fn bell() -> io::Result<(Bell, Bell)> {
    #[cfg(unix)]
    let (ear, ringer) = Bell::pair()?;
    #[cfg(windows)]
    let (ear, ringer) = {
        let local = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        let (ear, ringer) = (Bell::bind(local)?, Bell::bind(local)?);
        ear.connect(ringer.local_addr()?)?;
        ringer.connect(ear.local_addr()?)?;
        (ear, ringer)
    };
    ear.set_nonblocking(true)?;
    ringer.set_nonblocking(true)?;
    Ok((ear, ringer))
}

#[cfg(test)]
mod tests;
