//! The handshake, datagram by datagram.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sealane_lane::Lane;
use sealane_net::Arrival;
use sealane_transfer::getter::Getter;
use sealane_transfer::offer::Offer;
use sealane_transfer::provider::Provider;
use sealane_transfer::ticket::Ticket;
use sealane_transfer::{Ciphers, Identity, Machine};

use crate::world::{PROVIDER, getter_address};

fn deliver(now: Instant, machine: &mut impl Machine, from: SocketAddr, datagram: &[u8]) {
    let mut lane = Lane::new(datagram.len(), 1);
    lane.push(datagram.len()).unwrap().copy_from_slice(datagram);
    machine.handle_datagrams(now, &mut lane, &[Arrival { from, ecn: None, packets: 0..1 }]);
}

fn next(now: Instant, machine: &mut impl Machine, kind: u8) -> Vec<u8> {
    let (_, datagram) = machine.poll_datagram(now).expect("a datagram to be sent");
    assert_eq!(datagram[0], kind);
    datagram
}

#[test]
fn a_retry_counts_once_and_a_finish_only_from_where_the_init_came() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "x").unwrap();
    let offer = Offer::from_paths(&[folder.path().join("f")], &mut |_| {}).unwrap();
    let (identity, ciphers, now) = (Identity::from_secret([7; 32]), Ciphers::of_this_machine(), Instant::now());
    let ticket = Ticket { id: offer.id(), set: false, key: identity.public().0, addrs: vec![PROVIDER] };
    let mut provider = Provider::new(now, identity, ciphers, offer, [1; 32]);
    let other = Identity::from_secret([8; 32]);
    let mut getter = Getter::new(now, other, ciphers, ticket, Duration::from_secs(60), [2; 32]);
    let (here, elsewhere) = (getter_address(0), getter_address(1));

    deliver(now, &mut provider, here, &next(now, &mut getter, 1));
    let retry = next(now, &mut provider, 2);
    deliver(now, &mut getter, PROVIDER, &retry);
    deliver(now, &mut provider, here, &next(now, &mut getter, 1));
    deliver(now, &mut getter, PROVIDER, &retry);
    assert!(getter.poll_datagram(now).is_none(), "the cookie is known");

    deliver(now, &mut getter, PROVIDER, &next(now, &mut provider, 3));
    let finish = next(now, &mut getter, 4);
    deliver(now, &mut provider, elsewhere, &finish);
    assert_eq!(provider.sessions(), 0);
    deliver(now, &mut provider, here, &finish);
    assert_eq!(provider.sessions(), 1);
}
