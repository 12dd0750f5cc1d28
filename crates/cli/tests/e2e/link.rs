//! A link so slow that a transfer can be stopped half-way on any machine.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes a second, both directions together.
const RATE: f64 = 40e6;

/// Forwards datagrams between a sender on loopback and whoever writes to [`SlowLink::port`]; ends when dropped.
pub(crate) struct SlowLink {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
}

impl SlowLink {
    /// To the sender at port `to`.
    pub(crate) fn new(to: u16) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || forward(&socket, to, &stopped));
        Self { port, stop }
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn forward(socket: &UdpSocket, to: u16, stop: &AtomicBool) {
    let sender = ([127, 0, 0, 1], to).into();
    let mut getter = None;
    let mut free_at = Instant::now();
    let mut datagram = [0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut datagram) else { continue };
        let target = if from == sender { getter } else { Some(sender) };
        if from != sender {
            getter = Some(from);
        }
        if let Some(target) = target {
            let _ = socket.send_to(&datagram[..len], target);
        }
        free_at = free_at.max(Instant::now()) + Duration::from_secs_f64(len as f64 / RATE);
        // Short sleeps would be rounded up to long ones.
        if let Some(early) = free_at.checked_duration_since(Instant::now() + Duration::from_millis(2)) {
            thread::sleep(early);
        }
    }
}
