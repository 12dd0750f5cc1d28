//! Transfers over networks that a seed draws, with what goes wrong on the way. `SEALANE_SIM_SEED=N` repeats one, `SEALANE_SIM_RUNS=N`
//! says how many there are.

use std::time::Duration;

use crate::world::{Event, Fault, Files, PROVIDER, World, getter_address};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sealane_net::sim::Profile;
use sealane_transfer::Error;

const PATIENCE: Duration = Duration::from_secs(60);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

/// A network and a course of events that follow from the seed.
struct Plan {
    profile: Profile,
    sizes: Vec<usize>,
    /// Packets that one key seals.
    renewal: u64,
    events: Vec<(Duration, Event)>,
    /// The provider moves, maybe before a getter could learn where to.
    may_fail: bool,
}

fn plan(seed: u64, files: impl FnOnce(&[usize]) -> Files) -> (Plan, Files) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let gentle = random.random_bool(0.5);
    let mut some = |probability: f64, most: f64| {
        if random.random_bool(probability) { random.random::<f64>() * most } else { 0.0 }
    };
    let hard = if gentle { 0.25 } else { 1.0 };
    let mut profile = Profile {
        loss: some(0.6, 0.2) * hard,
        duplicate: some(0.3, 0.2),
        corrupt: some(0.3, 0.05) * hard,
        reorder: some(0.4, 0.3),
        delay: ms(1) / 10 + Duration::from_secs_f64(some(0.8, 0.2)),
        jitter: Duration::from_secs_f64(some(0.4, 0.05)),
        ..Profile::default()
    };
    profile.mtu = random.random_range(1200..=9000);
    profile.mark = random.random_bool(0.5);
    if random.random_bool(0.4) {
        // 40 kB/s to 25 MB/s.
        let rate = 40_000.0 * 600_f64.powf(random.random());
        profile.rate = Some(rate as u64);
        profile.queue = 20_000 + (rate * random.random_range(0.005..0.3)) as usize;
    }
    let mut events = Vec::new();
    let sizes = match random.random_range(0..5) {
        0 => vec![random.random_range(0..3) * random.random_range(0..2000)],
        1 | 2 => vec![random.random_range(0..4 << 20)],
        3 => vec![1 << 20; random.random_range(2..4)],
        _ => (0..random.random_range(2..200)).map(|_| random.random_range(0..5000)).collect(),
    };
    let files = files(&sizes);
    let mut may_fail = false;
    if !gentle {
        let mut start = 0.0;
        for _ in 0..random.random_range(0..4) {
            start += random.random::<f64>() * 5.0;
            let end = start + random.random::<f64>().powi(3) * 20.0;
            profile.partitions.push(Duration::from_secs_f64(start)..Duration::from_secs_f64(end));
            start = end;
        }
        let mut when = || Duration::from_secs_f64(random.random::<f64>().powi(2) * 8.0);
        let times = [when(), when(), when(), when()];
        match random.random_range(0..6) {
            0 => {
                may_fail = true;
                events.push((times[0], Event::Rebind(PROVIDER, ([192, 0, 2, 7], 4000).into())));
            }
            1 => {
                events.push((times[0].min(times[1]), Event::Rebind(getter_address(0), getter_address(7))));
                events.push((times[0].max(times[1]), Event::Rebind(getter_address(7), getter_address(8))));
            }
            2 => events.push((times[2], Event::Restart(files.offer()))),
            3 => events.push((times[3], Event::Shrink(1200))),
            _ => {}
        }
    }
    let renewal = if random.random_bool(0.3) { random.random_range(20..2000) } else { 1 << 22 };
    (Plan { profile, sizes, renewal, events, may_fail }, files)
}

/// How a run ended and how long it took for how many bytes.
struct Run {
    seed: u64,
    took: Duration,
    bytes: usize,
    error: Option<Error>,
    story: String,
}

fn run(seed: u64) -> Run {
    let (plan, files) = plan(seed, |sizes| Files::new(seed, sizes));
    let bytes: usize = plan.sizes.iter().sum();
    let Profile { loss, corrupt, delay, jitter, rate, queue, mtu, reorder, .. } = plan.profile;
    let story = format!(
        "{bytes} B in {} files, loss {loss:.3} corrupt {corrupt:.3} delay {delay:.0?} jitter {jitter:.0?} reorder {reorder:.2} \
         rate {rate:?} queue {queue} mtu {mtu} partitions {:?} events {}",
        plan.sizes.len(),
        plan.profile.partitions,
        plan.events.len(),
    );
    let mut world = World::new(seed, plan.profile, &files, Fault::None);
    plan.events.into_iter().for_each(|(when, event)| world.at(when, event));
    world.fetch(PATIENCE);
    world.fetches[0].getter.renew_after(plan.renewal);
    world.run();
    let fetch = &mut world.fetches[0];
    let error = fetch.outcome.take().and_then(Result::err);
    match &error {
        None => assert!(files.are_in(fetch.folder.path()), "other bytes"),
        Some(error) => {
            let excused = matches!(error, Error::Unreachable { .. } | Error::Stalled);
            assert!(excused && plan.may_fail, "{error}: {story}");
        }
    }
    let took = fetch.ended.expect("it ended");
    world.run_for(Duration::from_secs(11));
    assert_eq!(world.provider.sessions(), 0, "sessions that nobody needs are over: {error:?} after {took:?}: {story}");
    Run { seed, took, bytes, error, story }
}

#[test]
fn every_transfer_ends_right() {
    if let Some(seed) = number("SEALANE_SIM_SEED") {
        let run = run(seed);
        println!("seed {seed}: {:?} {:?}: {}", run.took, run.error, run.story);
        return;
    }
    let runs = number("SEALANE_SIM_RUNS").unwrap_or(200);
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for seed in 0..runs {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(run) => all.push(run),
            Err(_) => {
                println!("seed {seed} went wrong: SEALANE_SIM_SEED={seed} repeats it");
                wrong.push(seed);
            }
        }
    }
    assert!(wrong.is_empty(), "these seeds went wrong: {wrong:?}");
    all.sort_by_key(|run| run.took);
    let failed = all.iter().filter(|run| run.error.is_some()).count();
    assert!(failed * 10 <= all.len(), "{failed} of {} transfers did not come through", all.len());
    println!("{} runs, {failed} gave up on a broken path; seconds of virtual time:", all.len());
    for part in [10, 50, 90, 99] {
        println!("{part:3} %: {:.2}", all[(all.len() * part / 100).min(all.len() - 1)].took.as_secs_f64());
    }
    for run in all.iter().rev().take(10) {
        println!("seed {}: {:?} {} bytes {:?}: {}", run.seed, run.took, run.bytes, run.error, run.story);
    }
}
