use super::*;
use std::net::Ipv4Addr;

const PATIENCE: Duration = Duration::from_secs(20);

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn pair() -> (Udp, Udp, SocketAddr) {
    let (sender, receiver) = (Udp::bind(local(0)).unwrap(), Udp::bind(local(0)).unwrap());
    let to = receiver.local_addr().unwrap();
    (sender, receiver, to)
}

/// Packets of the given lengths, no two of them alike.
fn lane_of(lens: &[usize]) -> Lane {
    let mut lane = Lane::new(lens.iter().sum(), lens.len());
    for (i, len) in lens.iter().enumerate() {
        for (j, byte) in lane.push(*len).unwrap().iter_mut().enumerate() {
            *byte = (i * 31 + j) as u8;
        }
    }
    lane
}

fn contents(lane: &Lane) -> Vec<Vec<u8>> {
    (0..lane.len()).map(|i| lane.packet(i).to_vec()).collect()
}

/// What `udp` takes until it has `count` packets.
fn receive(udp: &mut Udp, count: usize) -> (Vec<Vec<u8>>, Vec<Arrival>) {
    let mut lane = Lane::new(64 * RECEIVE_BUFFER, 4096);
    let mut arrivals = Vec::new();
    while lane.len() < count {
        if udp.recv(&mut lane, &mut arrivals).unwrap() == 0 {
            udp.wait(Some(PATIENCE), false).unwrap();
            assert_ne!(udp.recv(&mut lane, &mut arrivals).unwrap(), 0, "{} of {count} packets came", lane.len());
        }
    }
    (contents(&lane), arrivals)
}

#[test]
fn a_train_arrives_whole_with_its_boundaries_and_mark() {
    let (mut sender, mut receiver, to) = pair();
    for ecn in [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)] {
        let lane = lane_of(&[1472; 44]);
        assert_eq!(sender.send(&lane, to, ecn).unwrap(), 44);
        let (packets, arrivals) = receive(&mut receiver, 44);
        assert_eq!(packets, contents(&lane));
        assert!(arrivals.iter().all(|a| a.ecn == ecn && a.from == sender.local_addr().unwrap()), "{arrivals:?}");
        if sender.max_segments() >= 44 && receiver.state.gro_segments() >= 44 {
            assert_eq!(arrivals.len(), 1, "one train");
        }
    }
}

#[test]
fn unequal_packets_arrive_in_order() {
    let (mut sender, mut receiver, to) = pair();
    let lens = [100, 100, 40, 1472, 1, 1, 900, 8952, 8952, 8952, 8952, 8952, 8952, 8952, 8952, 7];
    let lane = lane_of(&lens);
    assert_eq!(sender.send(&lane, to, None).unwrap(), lens.len());
    let (packets, arrivals) = receive(&mut receiver, lens.len());
    assert_eq!(packets, contents(&lane));
    let indices: Vec<usize> = arrivals.into_iter().flat_map(|a| a.packets).collect();
    assert_eq!(indices, (0..lens.len()).collect::<Vec<_>>());
}

#[test]
fn without_trains_the_same_packets_arrive() {
    let (mut sender, mut receiver, to) = pair();
    let lane = lane_of(&[&[1200; 10][..], &[700], &[8952; 5][..]].concat());
    assert_eq!(sender.send_by(1, &lane, to, Some(Ecn::Ect0)).unwrap(), 16);
    let (packets, arrivals) = receive(&mut receiver, 16);
    assert_eq!(packets, contents(&lane));
    assert!(arrivals.iter().all(|a| a.ecn == Some(Ecn::Ect0)));
}

#[test]
fn one_socket_speaks_both_families() {
    let Ok(mut both) = Udp::bind("[::]:0".parse().unwrap()) else {
        return sealane_skip::skip("one_socket_speaks_both_families", "no IPv6 here");
    };
    let port = both.local_addr().unwrap().port();
    let lane = lane_of(&[1200; 3]);
    for home in ["127.0.0.1", "::1"] {
        let mut other = Udp::bind(SocketAddr::new(home.parse().unwrap(), 0)).unwrap();
        let address = other.local_addr().unwrap();
        other.send(&lane, SocketAddr::new(home.parse().unwrap(), port), Some(Ecn::Ect1)).unwrap();
        let (packets, arrivals) = receive(&mut both, 3);
        assert_eq!(packets, contents(&lane));
        assert!(arrivals.iter().all(|a| a.from == address && a.ecn == Some(Ecn::Ect1)), "{arrivals:?}");
        both.send(&lane, address, Some(Ecn::Ect0)).unwrap();
        let (packets, arrivals) = receive(&mut other, 3);
        assert_eq!(packets, contents(&lane));
        assert!(arrivals.iter().all(|a| a.from.port() == port && a.ecn == Some(Ecn::Ect0)), "{arrivals:?}");
    }
}

#[test]
fn a_datagram_that_cannot_go_is_lost_and_spoils_nothing() {
    let (mut sender, mut receiver, to) = pair();
    let segments = sender.max_segments();
    assert_eq!(sender.send(&lane_of(&[65_508]), to, None).unwrap(), 1, "too long");
    assert_eq!(sender.send(&lane_of(&[1200; 4]), local(0), None).unwrap(), 4, "no port");
    assert_eq!(sender.send(&lane_of(&[1200]), "[::1]:9".parse().unwrap(), None).unwrap(), 1, "another family");
    assert_eq!(sender.lost, 6);
    assert_eq!(sender.max_segments(), segments);
    let lane = lane_of(&[1200; 4]);
    sender.send(&lane, to, Some(Ecn::Ect0)).unwrap();
    let (packets, arrivals) = receive(&mut receiver, 4);
    assert_eq!(packets, contents(&lane));
    assert_eq!(arrivals[0].ecn, Some(Ecn::Ect0), "the mark still goes along");
}

#[test]
fn nobody_at_the_other_end_is_not_an_error() {
    let (mut sender, receiver, to) = pair();
    drop(receiver);
    let mut lane = Lane::new(RECEIVE_BUFFER, 64);
    for _ in 0..3 {
        assert_eq!(sender.send(&lane_of(&[100]), to, None).unwrap(), 1);
        assert_eq!(sender.recv(&mut lane, &mut Vec::new()).unwrap(), 0);
    }
}

#[test]
fn empty_datagrams_are_taken_and_left_out() {
    let (mut sender, mut receiver, to) = pair();
    let lane = lane_of(&[0, 5]);
    assert_eq!(sender.send(&lane, to, None).unwrap(), 2);
    let (packets, arrivals) = receive(&mut receiver, 1);
    assert_eq!(packets, [lane.packet(1)]);
    assert_eq!(arrivals.len(), 1);
}

#[test]
fn a_lane_without_room_for_a_train_is_refused() {
    let mut udp = Udp::bind(local(0)).unwrap();
    let slots = udp.state.gro_segments();
    for mut lane in [Lane::new(RECEIVE_BUFFER - 1, slots), Lane::new(RECEIVE_BUFFER, slots - 1)] {
        let error = udp.recv(&mut lane, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    assert_eq!(udp.recv(&mut Lane::new(RECEIVE_BUFFER, slots), &mut Vec::new()).unwrap(), 0);
}

#[test]
fn waiting_ends_by_waker_room_datagram_or_time() {
    let (mut sender, mut receiver, to) = pair();
    let waker = receiver.waker();
    let thread = std::thread::spawn(move || (0..1000).for_each(|_| waker.wake()));
    receiver.wait(None, false).unwrap();
    thread.join().unwrap();
    receiver.waker().wake();
    receiver.wait(None, false).unwrap();
    assert_eq!(receiver.bell.recv(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "all were heard");
    receiver.wait(None, true).unwrap();
    receiver.wait(Some(Duration::from_micros(50)), false).unwrap();
    sender.send(&lane_of(&[100]), to, None).unwrap();
    // Twice: what has not been taken keeps ending the wait.
    receiver.wait(None, false).unwrap();
    receiver.wait(None, false).unwrap();
    assert_eq!(receive(&mut receiver, 1).0.len(), 1);
}

#[test]
fn sending_stops_where_the_system_is_full() {
    let lane = lane_of(&[&[100; 4][..], &[60], &[100; 3]].concat());
    let mut calls = 0;
    let outcome = send_trains(&lane, 64, |bytes, stride| {
        calls += 1;
        assert_eq!(stride, 100);
        if bytes.len() == 300 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    assert_eq!((outcome.unwrap().sent, calls), (5, 2));
}

#[test]
fn a_train_that_the_way_out_refuses_is_sent_one_by_one() {
    for refusal in [io::ErrorKind::Other, io::ErrorKind::InvalidInput] {
        let lane = lane_of(&[100, 100, 100, 40, 100]);
        let mut lens = Vec::new();
        let outcome = send_trains(&lane, 64, |bytes, stride| {
            lens.push(bytes.len());
            if bytes.len() > stride { Err(refusal.into()) } else { Ok(()) }
        });
        assert_eq!(outcome.unwrap().sent, 5);
        assert_eq!(lens, [340, 100, 100, 100, 40, 100]);
    }
}

#[test]
fn losses_are_counted_and_a_broken_socket_is_reported() {
    let lane = lane_of(&[&[100; 3][..], &[200; 2], &[300]].concat());
    let outcome = send_trains(&lane, 64, |_, stride| match stride {
        100 => Err(Errno::NOBUFS.into()),
        200 => Err(Errno::MSGSIZE.into()),
        _ => Ok(()),
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.sent, 6);
    assert_eq!(outcome.losses.iter().map(|loss| loss.0).collect::<Vec<_>>(), [3, 2]);
    let broken = send_trains(&lane, 64, |_, _| Err(Errno::BADF.into()));
    assert_eq!(Errno::from_io_error(&broken.unwrap_err()), Some(Errno::BADF));
}

#[test]
fn addresses_have_one_spelling() {
    let v4: SocketAddr = "192.0.2.1:5".parse().unwrap();
    let v6 = SocketAddrV6::new("fe80::1".parse().unwrap(), 5, 77, 2);
    assert_eq!(canonical(mapped(v4)), v4);
    assert_eq!(canonical(v6.into()), SocketAddrV6::new(*v6.ip(), 5, 0, 2).into());
}
