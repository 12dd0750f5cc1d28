//! Courses of events that need a name.

use std::time::Duration;

use sealane_net::sim::Profile;
use sealane_transfer::Error;
use sealane_transfer::layout::Piece;

use crate::world::{Event, Fault, Files, PROVIDER, World, getter_address};

const PATIENCE: Duration = Duration::from_secs(60);
/// 100 Mbit/s in bytes.
const FAST: u64 = 12_500_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// An Ethernet link of `rate` bytes a second with a queue of `queue` and a round trip of twice `delay`.
fn link(rate: u64, delay: Duration, queue: Duration) -> Profile {
    Profile {
        rate: Some(rate),
        queue: (rate as f64 * queue.as_secs_f64()) as usize,
        delay,
        mtu: 1472,
        ..Profile::default()
    }
}

/// Fetches `files` and returns how it ended, with the world as it is then.
fn fetch(profile: Profile, files: &Files, fault: Fault, events: Vec<(u64, Event)>) -> (World, Result<(), Error>) {
    let mut world = World::new(1, profile, files, fault);
    events.into_iter().for_each(|(when, event)| world.at(ms(when), event));
    world.fetch(PATIENCE);
    world.run();
    let outcome = world.fetches[0].outcome.take().expect("it ended").map(drop);
    if outcome.is_ok() {
        assert!(files.are_in(world.fetches[0].folder.path()), "other bytes");
    }
    (world, outcome)
}

/// Bytes a second from the first byte to the end.
fn goodput(world: &World, bytes: usize) -> f64 {
    let fetch = &world.fetches[0];
    bytes as f64 / (fetch.ended.unwrap() - fetch.first_byte.unwrap()).as_secs_f64()
}

#[test]
fn a_clean_link_is_filled() {
    let files = Files::new(1, &[50 << 20]);
    let (world, outcome) = fetch(link(FAST, ms(25), ms(50)), &files, Fault::None, vec![]);
    outcome.unwrap();
    let goodput = goodput(&world, 50 << 20);
    println!("clean 100 Mbit/s, 50 ms: {:.2} Mbit/s", goodput * 8e-6);
    assert!(goodput > 0.9 * FAST as f64, "{goodput}");
}

#[test]
fn loss_that_is_no_congestion_costs_what_cubic_says() {
    let files = Files::new(1, &[20 << 20]);
    for (name, rate) in [("100 Mbit/s", FAST), ("1 Gbit/s", 10 * FAST)] {
        for delay in [25, 50] {
            let profile = Profile { loss: 0.01, ..link(rate, ms(delay), ms(50)) };
            let (world, outcome) = fetch(profile, &files, Fault::None, vec![]);
            outcome.unwrap();
            let goodput = goodput(&world, 20 << 20);
            println!("{name}, 1 % loss, {} ms round trip: {:.2} Mbit/s", 2 * delay, goodput * 8e-6);
            // Half of Reno's 1.22 packets a round trip and root of the loss.
            let reno = 1.22 * 1400.0 / (0.002 * delay as f64 * 0.1);
            assert!(goodput > 0.5 * reno, "{goodput} bytes/s, Reno {reno}");
        }
    }
}

#[test]
fn two_getters_share() {
    let files = Files::new(2, &[10 << 20]);
    let mut world = World::new(2, link(FAST, ms(10), ms(40)), &files, Fault::None);
    world.fetch(PATIENCE);
    world.fetch(PATIENCE);
    world.run();
    for fetch in &world.fetches {
        assert!(fetch.outcome.as_ref().unwrap().is_ok() && files.are_in(fetch.folder.path()));
    }
    let [a, b] = [0, 1].map(|n| world.fetches[n].ended.unwrap().as_secs_f64());
    assert!((0.5..2.0).contains(&(a / b)), "{a} s and {b} s");
}

#[test]
fn either_side_may_move() {
    let files = Files::new(3, &[20 << 20]);
    let moves = || {
        [Event::Rebind(getter_address(0), getter_address(5)), Event::Rebind(PROVIDER, ([203, 0, 113, 1], 4000).into())]
    };
    let (still, outcome) = fetch(link(FAST, ms(10), ms(40)), &files, Fault::None, vec![]);
    outcome.unwrap();
    for event in moves() {
        let (world, outcome) = fetch(link(FAST, ms(10), ms(40)), &files, Fault::None, vec![(500, event)]);
        outcome.unwrap();
        let stall = world.elapsed().saturating_sub(still.elapsed());
        println!("moving costs {stall:?}");
        assert!(stall < ms(4000), "{stall:?}");
    }
}

#[test]
fn a_provider_that_falls_silent_is_given_up() {
    let files = Files::new(4, &[20 << 20]);
    let silent = Profile { partitions: vec![ms(500)..ms(100_000_000)], ..link(FAST, ms(10), ms(40)) };
    let (world, outcome) = fetch(silent, &files, Fault::None, vec![]);
    assert!(matches!(outcome, Err(Error::Unreachable { .. })), "{outcome:?}");
    let took = world.elapsed();
    assert!((PATIENCE..PATIENCE + ms(2000)).contains(&took), "{took:?}");
}

#[test]
fn what_a_provider_reads_wrongly_or_not_at_all_is_told() {
    for sizes in [&[10][..], &[3000], &[3 << 20], &[5000, 3 << 20]] {
        let files = Files::new(5, sizes);
        let last = Piece((0..).take_while(|n| files.offer().piece_len(Piece(*n)).is_some()).last().unwrap());
        let (world, outcome) = fetch(link(FAST, ms(10), ms(40)), &files, Fault::Wrong(last), vec![]);
        assert!(matches!(outcome, Err(Error::Mismatch { piece, .. }) if piece == last), "{sizes:?} {outcome:?}");
        let mut names = std::fs::read_dir(world.fetches[0].folder.path()).unwrap().map(|e| e.unwrap().file_name());
        assert!(names.all(|name| name.to_str().unwrap().starts_with(".sealane-")), "nothing has its final name");
        let (_, outcome) = fetch(link(FAST, ms(10), ms(40)), &files, Fault::Unreadable(last), vec![]);
        assert!(matches!(outcome, Err(Error::SourceFailed)), "{sizes:?} {outcome:?}");
    }
}

#[test]
fn a_provider_that_comes_back_serves_on_or_says_that_it_has_something_else() {
    let (files, others) = (Files::new(6, &[20 << 20]), Files::new(7, &[10]));
    let slow = || link(FAST / 4, ms(10), ms(40));
    let (world, outcome) = fetch(slow(), &files, Fault::None, vec![(2000, Event::Restart(files.offer()))]);
    outcome.unwrap();
    assert!(world.elapsed() < ms(25_000), "{:?}", world.elapsed());
    let (_, outcome) = fetch(slow(), &files, Fault::None, vec![(2000, Event::Restart(others.offer()))]);
    assert!(matches!(outcome, Err(Error::NotOffered)), "{outcome:?}");
}

#[test]
fn a_path_that_shrinks_midway_is_noticed() {
    let files = Files::new(8, &[20 << 20]);
    let wide = Profile { mtu: 9000, ..link(FAST, ms(10), ms(40)) };
    let (world, outcome) = fetch(wide, &files, Fault::None, vec![(700, Event::Shrink(1200))]);
    outcome.unwrap();
    println!("with the path shrunk: {:?}", world.elapsed());
    assert!(world.elapsed() < ms(8000), "{:?}", world.elapsed());
}

#[test]
fn what_an_eavesdropper_sends_again_or_back_changes_nothing() {
    let files = Files::new(9, &[3 << 20]);
    let path = || Profile { delay: ms(10), ..Profile::default() };
    let mut world = World::new(9, path(), &files, Fault::None);
    world.tape = Some(Vec::new());
    world.fetch(PATIENCE);
    let (undisturbed, _) = fetch(path(), &files, Fault::None, vec![]);
    let mut seen = 0;
    while world.fetches[0].ended.is_none() {
        let tape = world.tape.take().unwrap();
        for datagram in &tape[seen..] {
            let stranger = ([203, 0, 113, 9], 9).into();
            for from in [datagram.from, stranger] {
                world.network.send(world.now, from, datagram.to, datagram.ecn, &datagram.payload);
            }
            world.network.send(world.now, datagram.to, datagram.from, datagram.ecn, &datagram.payload);
            let mut garbage = datagram.payload.clone();
            garbage[2..].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(7));
            world.network.send(world.now, datagram.from, datagram.to, datagram.ecn, &garbage);
        }
        seen = tape.len();
        world.tape = Some(tape);
        world.step(None);
    }
    assert!(world.fetches[0].outcome.as_ref().unwrap().is_ok() && files.are_in(world.fetches[0].folder.path()));
    let (took, plain) = (world.elapsed(), undisturbed.elapsed());
    assert!(took < 2 * plain, "{took:?} against {plain:?}");
    assert_eq!(world.provider.sessions(), 1);
}

#[test]
fn strangers_get_less_than_they_send_and_cost_nothing() {
    let files = Files::new(10, &[10]);
    let mut world = World::new(10, Profile::default(), &files, Fault::None);
    world.tape = Some(Vec::new());
    let mut init = [0; 1200];
    init[..2].copy_from_slice(&[1, 1]);
    for n in 0..5000_u16 {
        init[2..4].copy_from_slice(&n.to_be_bytes());
        world.network.send(world.now, ([203, 0, 113, 1], n).into(), PROVIDER, None, &init);
    }
    world.run_for(ms(1000));
    let answers = world.tape.unwrap();
    assert!(!answers.is_empty() && answers.len() <= 5000);
    assert!(answers.iter().all(|answer| answer.from == PROVIDER && answer.payload.len() == 30));
    assert_eq!(world.provider.sessions(), 0);
}

#[test]
fn keys_are_renewed_under_loss_and_their_epochs_wrap() {
    let files = Files::new(11, &[30 << 20]);
    let profile = Profile { loss: 0.02, duplicate: 0.02, reorder: 0.02, delay: ms(1), ..link(FAST, ms(1), ms(20)) };
    let mut world = World::new(11, profile, &files, Fault::None);
    world.tape = Some(Vec::new());
    world.fetch(PATIENCE);
    world.fetches[0].getter.renew_after(20);
    world.run();
    assert!(world.fetches[0].outcome.as_ref().unwrap().is_ok() && files.are_in(world.fetches[0].folder.path()));
    let tape = world.tape.unwrap();
    let epochs = |from| {
        let sealed = tape.iter().filter(move |datagram| datagram.from == from && datagram.payload[0] == 5);
        let epochs: Vec<u8> = sealed.map(|datagram| datagram.payload[1]).collect();
        1 + epochs.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    let (getter, provider) = (epochs(getter_address(0)), epochs(PROVIDER));
    println!("epochs: {getter} of the getter, {provider} of the provider");
    assert!(getter > 300 && provider > 300, "{getter} and {provider}");
}

#[test]
fn a_lost_first_flight_costs_round_trips_and_no_second() {
    let files = Files::new(12, &[100]);
    // The datagrams of a small transfer, one lost after the other.
    for lost in 0..12 {
        let start = ms(20) * lost;
        let profile = Profile { delay: ms(10), partitions: vec![start..start + ms(1)], ..Profile::default() };
        let (world, outcome) = fetch(profile, &files, Fault::None, vec![]);
        outcome.unwrap();
        assert!(world.elapsed() < ms(700), "lost after {start:?}: {:?}", world.elapsed());
    }
}

#[test]
fn a_forged_response_changes_nothing() {
    let files = Files::new(13, &[100]);
    let brief = Duration::from_micros(100);
    let mut world = World::new(
        13,
        Profile { delay: brief, partitions: vec![2 * brief..ms(20_000)], ..Profile::default() },
        &files,
        Fault::None,
    );
    world.tape = Some(Vec::new());
    world.fetch(PATIENCE);
    world.step(None);
    let init = world.tape.as_ref().unwrap()[0].payload.clone();
    let forged = [&[3, 1], &init[2..10], &[0; 106]].concat();
    world.network.send(world.now, PROVIDER, getter_address(0), None, &forged);
    world.run();
    assert!(world.fetches[0].outcome.as_ref().unwrap().is_ok() && world.elapsed() > ms(20_000));
}
