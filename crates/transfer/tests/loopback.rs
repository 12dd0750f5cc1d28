//! Whole transfers between two sockets on loopback.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sealane_transfer::node::{Order, Server, get};
use sealane_transfer::offer::Offer;
use sealane_transfer::ticket::Ticket;
use sealane_transfer::{Ciphers, Error, Identity};

/// Offers `path`, fetches it into `dir` and returns what the getter returned. `beside` runs meanwhile: it is given the
/// provider's address and the sign to stop.
fn transfer(
    path: &Path,
    dir: &Path,
    spoil: impl FnOnce(&mut Ticket),
    beside: impl FnOnce(SocketAddr, &AtomicBool) + Send,
) -> Result<(), Error> {
    let offer = Offer::from_paths(&[path.to_path_buf()], &mut |_| {})?;
    let identity = Identity::from_secret([7; 32]);
    let mut ticket = Ticket { id: offer.id(), set: path.is_dir(), key: identity.public().0, addrs: vec![] };
    let mut server = Server::bind(0, identity, Ciphers::of_this_machine(), offer)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()?));
    ticket.addrs.push(address);
    spoil(&mut ticket);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&stop, &mut |_| {}));
        scope.spawn(|| beside(address, &stop));
        let order = Order {
            ticket,
            dir: dir.to_path_buf(),
            identity: Identity::from_secret([8; 32]),
            ciphers: Ciphers::of_this_machine(),
            patience: Duration::from_secs(3),
        };
        let outcome = get(order, &AtomicBool::new(false), &mut |_, _| {});
        stop.store(true, Ordering::Relaxed);
        serving.join().expect("the server does not panic")?;
        outcome.map(drop)
    })
}

#[test]
fn files_arrive_whole() -> Result<(), Error> {
    for size in [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 40_000_000] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let content: Vec<u8> = (0..size).map(|n: u32| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        fs::write(from.path().join("a file"), &content).unwrap();
        transfer(&from.path().join("a file"), to.path(), |_| {}, |_, _| {})?;
        assert!(fs::read(to.path().join("a file")).unwrap() == content, "{size} bytes");
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "nothing else is left");
    }
    Ok(())
}

#[test]
fn a_folder_of_small_files_arrives_whole() -> Result<(), Error> {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("ordner");
    for n in 0..2000 {
        let folder = top.join(format!("ünter {}", n % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{n}.txt")), "x".repeat(n % 300)).unwrap();
    }
    transfer(&top, to.path(), |_| {}, |_, _| {})?;
    for n in 0..2000 {
        let path = to.path().join(format!("ordner/ünter {}/{n}.txt", n % 7));
        assert_eq!(fs::read_to_string(path).unwrap(), "x".repeat(n % 300));
    }
    Ok(())
}

#[test]
fn garbage_at_full_rate_changes_nothing() -> Result<(), Error> {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let content = vec![5; 60_000_000];
    fs::write(from.path().join("f"), &content).unwrap();
    let sent = AtomicU64::new(0);
    transfer(
        &from.path().join("f"),
        to.path(),
        |_| {},
        |provider, stop| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let mut datagram: Vec<u8> = (0..1200).map(|n| (n * 7) as u8).collect();
            while !stop.load(Ordering::Relaxed) {
                let n = sent.fetch_add(1, Ordering::Relaxed);
                // Every kind there is, well-formed or cut, from ids and with cookies that nobody gave.
                datagram[..2].copy_from_slice(&[(n % 7) as u8, 1]);
                datagram[2..10].copy_from_slice(&n.to_be_bytes());
                let size = [1200, 30, 116, 75, 34, 1, 600][(n / 7 % 7) as usize];
                let _ = socket.send_to(&datagram[..size], provider);
            }
        },
    )?;
    assert!(fs::read(to.path().join("f")).unwrap() == content);
    assert!(sent.into_inner() > 1000, "there was garbage");
    Ok(())
}

#[test]
fn a_wrong_key_a_wrong_id_and_nobody_there_are_told_apart() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("f");
    fs::write(&path, "hello").unwrap();
    let outcome = |spoil: fn(&mut Ticket)| transfer(&path, to.path(), spoil, |_, _| {}).unwrap_err();
    assert!(matches!(outcome(|ticket| ticket.key = [1; 32]), Error::WrongPeer));
    assert!(matches!(outcome(|ticket| ticket.id.0[0] ^= 1), Error::NotOffered));
    assert!(matches!(outcome(|ticket| ticket.addrs = vec![([127, 0, 0, 1], 9).into()]), Error::Unreachable { .. }));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}
