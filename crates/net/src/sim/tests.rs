use super::*;

const TRIES: u64 = 10_000;

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Sends `TRIES` numbered datagrams of 100 bytes, one each `gap`, and returns what arrives, with the time since the start.
fn run(seed: u64, profile: Profile, gap: Duration) -> (Vec<(Duration, Datagram)>, Counters) {
    let start = Instant::now();
    let mut network = Network::new(seed, start, profile);
    let mut payload = [0; 100];
    for i in 0..TRIES {
        payload[..8].copy_from_slice(&i.to_be_bytes());
        network.send(start + gap * i as u32, address(1), address(2), Some(Ecn::Ect0), &payload);
    }
    let mut arrivals = Vec::new();
    while let Some(now) = network.next_arrival() {
        while let Some(datagram) = network.receive(now) {
            assert_eq!((datagram.from, datagram.to), (address(1), address(2)));
            arrivals.push((now - start, datagram));
        }
    }
    (arrivals, network.counters())
}

fn numbers(arrivals: &[(Duration, Datagram)]) -> Vec<u64> {
    arrivals.iter().map(|(_, d)| u64::from_be_bytes(d.payload[..8].try_into().unwrap())).collect()
}

/// Whether `count` of `TRIES` is what `probability` makes likely: within 5 standard deviations.
fn likely(count: u64, probability: f64) -> bool {
    let (tries, count) = (TRIES as f64, count as f64);
    (count - tries * probability).abs() <= 5.0 * (tries * probability * (1.0 - probability)).sqrt()
}

#[test]
fn the_default_network_is_perfect() {
    let (arrivals, counters) = run(1, Profile::default(), Duration::ZERO);
    assert_eq!(numbers(&arrivals), (0..TRIES).collect::<Vec<_>>());
    assert!(arrivals.iter().all(|(at, d)| at.is_zero() && d.payload[8..] == [0; 92] && d.ecn == Some(Ecn::Ect0)));
    assert_eq!(counters, Counters { sent: TRIES, bytes: TRIES * 100, ..Counters::default() });
}

#[test]
fn the_seed_decides() {
    let profile = || Profile {
        loss: 0.1,
        duplicate: 0.1,
        corrupt: 0.1,
        reorder: 0.1,
        delay: ms(20),
        jitter: ms(5),
        rate: Some(1_000_000),
        queue: 20_000,
        mark: true,
        ..Profile::default()
    };
    let gap = Duration::from_micros(90);
    let first = run(7, profile(), gap);
    assert_eq!(first, run(7, profile(), gap));
    assert_ne!(first, run(8, profile(), gap));
}

#[test]
fn losses_and_copies_are_as_frequent_as_asked() {
    for (seed, probability) in [(1, 0.0), (2, 0.01), (3, 0.2), (4, 1.0)] {
        let (arrivals, counters) = run(seed, Profile { loss: probability, ..Profile::default() }, ms(1));
        assert!(likely(counters.lost, probability), "seed {seed}: {counters:?}");
        assert_eq!(arrivals.len() as u64, TRIES - counters.lost);
        let (arrivals, counters) = run(seed, Profile { duplicate: probability, ..Profile::default() }, ms(1));
        assert!(likely(counters.duplicated, probability), "seed {seed}: {counters:?}");
        assert_eq!(arrivals.len() as u64, TRIES + counters.duplicated);
        assert!(arrivals.chunk_by(|a, b| a.1 == b.1).all(|copies| copies.len() <= 2));
    }
}

#[test]
fn a_corrupted_datagram_has_one_wrong_bit() {
    let (arrivals, counters) = run(5, Profile { corrupt: 0.3, ..Profile::default() }, ms(1));
    assert!(likely(counters.corrupted, 0.3), "{counters:?}");
    let mut wrong = 0;
    for (i, (_, datagram)) in arrivals.iter().enumerate() {
        let mut right = [0; 100];
        right[..8].copy_from_slice(&(i as u64).to_be_bytes());
        let bits: u32 = datagram.payload.iter().zip(right).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(bits <= 1);
        wrong += u64::from(bits);
    }
    assert_eq!(wrong, counters.corrupted);
}

#[test]
fn only_datagrams_held_back_are_overtaken() {
    let profile = Profile { delay: ms(50), jitter: ms(30), ..Profile::default() };
    let (arrivals, _) = run(6, profile.clone(), ms(1));
    assert!(numbers(&arrivals).is_sorted(), "jitter keeps the order");
    let (arrivals, counters) = run(6, Profile { reorder: 0.1, ..profile }, ms(1));
    assert!(likely(counters.reordered, 0.1), "{counters:?}");
    let numbers = numbers(&arrivals);
    let overtaken =
        (1..numbers.len()).filter(|i| numbers[..*i].iter().rev().take(200).any(|n| *n > numbers[*i])).count();
    let overtaken = overtaken as u64;
    assert!(overtaken <= counters.reordered && overtaken > counters.reordered / 2, "{overtaken} of {counters:?}");
}

#[test]
fn delay_and_jitter_bound_the_time_under_way() {
    let (arrivals, _) = run(9, Profile { delay: ms(50), jitter: ms(10), ..Profile::default() }, ms(20));
    let times: Vec<Duration> = arrivals.iter().enumerate().map(|(i, (at, _))| *at - ms(20) * i as u32).collect();
    assert!(times.iter().all(|t| (ms(50)..=ms(60)).contains(t)));
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    assert!(mean.abs_diff(ms(55)) < Duration::from_micros(300), "{mean:?}");
}

#[test]
fn the_rate_spreads_and_the_queue_drops_and_marks() {
    // 100 bytes each 50 us is 2 MB/s into 1 MB/s: half is lost, the rest leaves at the rate.
    let profile = Profile { rate: Some(1_000_000), queue: 10_000, mark: true, ..Profile::default() };
    let (arrivals, counters) = run(10, profile.clone(), Duration::from_micros(50));
    let expected = TRIES / 2 + 100;
    assert!(arrivals.len().abs_diff(expected as usize) <= 2, "{}", arrivals.len());
    assert_eq!(counters.lost, TRIES - arrivals.len() as u64);
    let gaps = arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(gaps.into_iter().all(|gap| gap.abs_diff(Duration::from_micros(100)) < Duration::from_micros(1)));
    let marked = arrivals.iter().filter(|(_, d)| d.ecn == Some(Ecn::Ce)).count();
    assert_eq!(counters.marked, marked as u64);
    assert!(marked > arrivals.len() - 110 && arrivals[..50].iter().all(|(_, d)| d.ecn == Some(Ecn::Ect0)));
    let (arrivals, counters) = run(10, profile, Duration::from_micros(100));
    assert_eq!((arrivals.len() as u64, counters.marked), (TRIES, 0), "at the rate nothing waits");
}

#[test]
fn directions_do_not_share_their_rate() {
    let start = Instant::now();
    let mut network = Network::new(1, start, Profile { rate: Some(1000), ..Profile::default() });
    network.send(start, address(1), address(2), None, &[0; 1000]);
    network.send(start, address(2), address(1), None, &[0; 1000]);
    assert!(network.receive(start + ms(999)).is_none());
    assert!(network.receive(start + ms(1000)).is_some());
    assert!(network.receive(start + ms(1000)).is_some());
}

#[test]
fn what_is_too_long_or_sent_while_apart_is_lost() {
    let (arrivals, counters) = run(11, Profile { mtu: 99, ..Profile::default() }, ms(1));
    assert_eq!((arrivals.len(), counters.lost), (0, TRIES));
    assert_eq!(run(11, Profile { mtu: 100, ..Profile::default() }, ms(1)).1.lost, 0);
    let partitions = vec![ms(10)..ms(20), ms(5000)..ms(6000)];
    let (arrivals, counters) = run(12, Profile { partitions, ..Profile::default() }, ms(1));
    assert_eq!(counters.lost, 1010);
    assert!(numbers(&arrivals).iter().all(|i| !(10..20).contains(i) && !(5000..6000).contains(i)));
}

#[test]
fn an_endpoint_that_moved_is_reached_at_its_new_address_only() {
    let start = Instant::now();
    let mut network = Network::new(1, start, Profile::default());
    let exchange = |network: &mut Network, from: u16, to: u16| {
        network.send(start, address(from), address(to), None, b"hello");
        network.receive(start).map(|d| (d.from.port(), d.to.port()))
    };
    network.rebind(address(1), address(11));
    assert_eq!(exchange(&mut network, 1, 2), Some((11, 2)));
    assert_eq!(exchange(&mut network, 2, 11), Some((2, 1)));
    assert_eq!(exchange(&mut network, 2, 1), None);
    network.rebind(address(11), address(12));
    assert_eq!(exchange(&mut network, 1, 2), Some((12, 2)));
    assert_eq!(exchange(&mut network, 2, 12), Some((2, 1)));
    assert_eq!(exchange(&mut network, 2, 11), None);
    network.rebind(address(1), address(1));
    assert_eq!(exchange(&mut network, 1, 2), Some((1, 2)));
    assert_eq!(exchange(&mut network, 2, 1), Some((2, 1)));
    assert_eq!(exchange(&mut network, 2, 12), None);
    assert_eq!(network.counters().lost, 3);
}

#[test]
#[should_panic(expected = "no probability")]
fn a_probability_above_one_is_refused() {
    Network::new(1, Instant::now(), Profile { corrupt: 1.01, ..Profile::default() });
}
