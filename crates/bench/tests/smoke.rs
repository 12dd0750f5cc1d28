//! Every suite runs, and every subject gives the right answer, or says why it is not there.

use sealane_bench::{Depth, Outcome, Plan, Record, Suite, run};

#[test]
fn crypto_measures_sealane_and_every_peer_of_this_build() {
    let plan = Plan { suites: vec![Suite::Crypto], depth: Depth::Smoke, program: "sealane".into() };
    let mut cases = 0;
    let records = run(&plan, &mut |_| cases += 1).unwrap();
    assert_eq!(cases, 16);
    assert_eq!(records.len(), cases * 4);
    let absent = records.iter().filter(|record| matches!(record.outcome, Outcome::Absent { .. })).count();
    assert_eq!(absent, if cfg!(feature = "peers") { 8 } else { 3 * cases });
    assert!(records.iter().filter_map(|record| record.outcome.median()).all(|median| median > 0.0));
}

#[test]
fn latency_measures_five_quantiles_of_each_cipher() {
    let plan = Plan { suites: vec![Suite::Latency], depth: Depth::Smoke, program: "sealane".into() };
    let records = run(&plan, &mut |_| {}).unwrap();
    let ours = records.iter().filter(|record| record.subject == "sealane/udp");
    let medians: Vec<f64> = ours.filter_map(|record| record.outcome.median()).collect();
    assert_eq!(medians.len(), 10);
    assert!(medians[1..5].is_sorted() && medians[1] > 0.0, "{medians:?}");
    assert_eq!(records.len(), 20);
}

#[test]
fn session_measures_handshakes_and_says_that_the_program_is_missing() {
    let plan = Plan { suites: vec![Suite::Session], depth: Depth::Smoke, program: "sealane".into() };
    let records = run(&plan, &mut |_| {}).unwrap();
    let ours = records.iter().filter(|record| record.subject == "sealane/udp");
    let (memory, handshakes): (Vec<&Record>, Vec<_>) = ours.partition(|record| record.case == "memory");
    assert_eq!(handshakes.len(), 4);
    assert!(handshakes.iter().all(|record| record.outcome.median().unwrap() > 0.0));
    assert_eq!(memory.len(), 3);
    assert!(memory.iter().all(|record| matches!(record.outcome, Outcome::Absent { .. })));
    assert_eq!(records.len(), 11);
}

#[test]
fn transfer_measures_every_stage_and_says_that_the_program_is_missing() {
    let plan = Plan { suites: vec![Suite::Transfer], depth: Depth::Smoke, program: "sealane".into() };
    let records = run(&plan, &mut |_| {}).unwrap();
    let (stages, files): (Vec<&Record>, Vec<_>) = records.iter().partition(|record| record.case == "stages");
    for row in stages.chunks(7) {
        let sum: f64 = row.iter().filter_map(|record| record.outcome.median()).sum();
        assert!((sum - 100.0).abs() < 1e-6, "{sum}");
    }
    assert_eq!((stages.len(), files.len()), (2 * 7, 6 * 7));
    let ours = files.iter().filter(|record| record.subject.starts_with("sealane"));
    assert!(ours.clone().count() == 12 && ours.clone().all(|record| matches!(record.outcome, Outcome::Absent { .. })));
}
