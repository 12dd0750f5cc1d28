//! Runs the subjects of a case one after the other, again and again, so that what disturbs the machine disturbs all of
//! them alike.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::record::{METHOD, Origin, Outcome, Published, Record};
use crate::{Depth, Error, Suite};

/// The same work for several subjects.
pub(crate) struct Case {
    pub(crate) case: &'static str,
    pub(crate) params: BTreeMap<&'static str, Value>,
    /// What each sample says, in this order.
    pub(crate) measures: Vec<Measure>,
    /// Sealane first.
    pub(crate) subjects: Vec<Subject>,
    /// How long a sample is to last, where the work can be cut to size.
    pub(crate) sample: Duration,
    /// Samples of each subject.
    pub(crate) runs: usize,
}

impl Case {
    /// The case and its parameters in one line.
    pub(crate) fn title(&self) -> String {
        let mut title = self.case.to_owned();
        for (name, value) in self.params.iter().filter(|(name, _)| **name != METHOD) {
            title += &match value {
                Value::String(text) => format!(" {text}"),
                number => format!(" {name} {number}"),
            };
        }
        title
    }
}

/// One of the figures that a sample yields.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    pub(crate) metric: &'static str,
    pub(crate) unit: &'static str,
    /// Set apart by this parameter from the other measures of the same metric.
    pub(crate) param: Option<(&'static str, &'static str)>,
    pub(crate) better: Better,
    pub(crate) answers: &'static [&'static str],
    pub(crate) published: Option<Published>,
}

#[derive(Clone, Copy)]
pub(crate) enum Better {
    /// A rate.
    More,
    /// A cost or a time.
    Less,
}

impl Better {
    /// Above 1 when `ours` is better.
    fn ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            Self::More => ours / theirs,
            Self::Less => theirs / ours,
        }
    }
}

/// Someone who does the work, or a peer that belongs to the case and is not here, with the reason.
pub(crate) struct Subject {
    pub(crate) name: String,
    work: Result<Box<Work>, &'static str>,
}

/// Works for about the given time and checks what it made.
type Work = dyn FnMut(Duration) -> Result<Sample, Error>;

impl Subject {
    pub(crate) fn new(name: impl Into<String>, work: impl FnMut(Duration) -> Result<Sample, Error> + 'static) -> Self {
        Self { name: name.into(), work: Ok(Box::new(work)) }
    }

    pub(crate) fn absent(name: &'static str, reason: &'static str) -> Self {
        Self { name: name.to_owned(), work: Err(reason) }
    }

    /// One sample; `None` from an absent one.
    pub(crate) fn work(&mut self, time: Duration) -> Option<Result<Sample, Error>> {
        self.work.as_mut().ok().map(|work| work(time))
    }

    #[cfg(test)]
    pub(crate) fn is_absent(&self) -> bool {
        self.work.is_err()
    }

    fn is_ours(&self) -> bool {
        is_ours(&self.name)
    }
}

pub(crate) struct Sample {
    /// One for each measure of the case.
    pub(crate) values: Vec<f64>,
    /// Equal for all subjects that did the work right.
    pub(crate) answer: blake3::Hash,
}

/// Measures all subjects of `case`; one record for each subject and measure. After `until` there are no further runs, but
/// always one.
pub(crate) fn measure(
    suite: Suite,
    mut case: Case,
    depth: Depth,
    until: Option<Instant>,
    origin: &Origin,
) -> Result<Vec<Record>, Error> {
    let warm_up = usize::from(depth != Depth::Smoke);
    let mut values = vec![Vec::with_capacity(case.runs); case.subjects.len()];
    let mut expected = None;
    for run in 0..warm_up + case.runs {
        if run > warm_up && until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        for (index, subject) in case.subjects.iter_mut().enumerate() {
            let Some(sample) = subject.work(case.sample).transpose()? else { continue };
            if *expected.get_or_insert(sample.answer) != sample.answer {
                let (subject, other) = (subject.name.clone(), case.subjects[0].name.clone());
                return Err(Error::Disagree { suite, case: case.title(), subject, other });
            }
            if run >= warm_up {
                values[index].push(sample.values);
            }
        }
    }
    Ok((0..case.measures.len()).flat_map(|measure| records(suite, &case, measure, &values, origin)).collect())
}

/// The records of all subjects for one measure; `values` by subject, run and measure.
fn records(suite: Suite, case: &Case, measure: usize, values: &[Vec<Vec<f64>>], origin: &Origin) -> Vec<Record> {
    let outcome = |(subject, runs): (&Subject, &Vec<Vec<f64>>)| match subject.work {
        Ok(_) => spread(runs.iter().map(|sample| sample[measure]).collect()),
        Err(absent) => Outcome::Absent { absent },
    };
    let outcomes: Vec<Outcome> = case.subjects.iter().zip(values).map(outcome).collect();

    let Measure { metric, unit, param, better, answers, published } = case.measures[measure];
    let peers = case.subjects.iter().zip(&outcomes).filter(|(subject, _)| !subject.is_ours());
    let best = peers.filter_map(|(peer, outcome)| Some((&peer.name, outcome.median()?)));
    let best = best.reduce(|best, peer| if better.ratio(peer.1, best.1) > 1.0 { peer } else { best });
    let mut params = case.params.clone();
    params.extend(param.map(|(name, value)| (name, value.into())));

    let record = |(subject, outcome): (&Subject, Outcome)| {
        let best = best.filter(|_| subject.is_ours());
        Record {
            suite,
            case: case.case,
            params: params.clone(),
            subject: subject.name.clone(),
            metric,
            unit,
            answers: if subject.is_ours() { answers } else { &[] },
            published: published.filter(|_| subject.is_ours()),
            ratio_to_best_peer: best
                .and_then(|(_, theirs)| Some(better.ratio(outcome.median()?, theirs)))
                .filter(|ratio| ratio.is_finite()),
            best_peer: best.map(|(peer, _)| peer.clone()),
            outcome,
            machine: origin.machine.clone(),
            commit: origin.commit.clone(),
            command: origin.command.clone(),
        }
    };
    case.subjects.iter().zip(outcomes).map(record).collect()
}

pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("sealane")
}

/// Median (of an even number the mean of the middle two), least and most.
fn spread(mut values: Vec<f64>) -> Outcome {
    values.sort_by(f64::total_cmp);
    let runs = values.len();
    let median = f64::midpoint(values[(runs - 1) / 2], values[runs / 2]);
    Outcome::Measured { median, min: values[0], max: values[runs - 1], runs }
}

/// Calls `prepare` and then `work` again and again for about `time`, at least once; the mean time of `work` alone.
pub(crate) fn mean_time<S>(
    time: Duration,
    state: &mut S,
    prepare: impl Fn(&mut S),
    work: impl Fn(&mut S) -> Result<(), Error>,
) -> Result<Duration, Error> {
    let (start, mut spent, mut rounds) = (Instant::now(), Duration::ZERO, 0u32);
    loop {
        prepare(state);
        let before = Instant::now();
        work(state)?;
        spent += before.elapsed();
        rounds += 1;
        if start.elapsed() >= time {
            return Ok(spent / rounds);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Log = Rc<RefCell<Vec<&'static str>>>;

    fn subject(log: &Log, name: &'static str, values: &'static [f64], answer: &'static str) -> Subject {
        let log = log.clone();
        let mut next = values.iter().cycle();
        let work = move |_| {
            log.borrow_mut().push(name);
            Ok(Sample { values: vec![*next.next().unwrap()], answer: blake3::hash(answer.as_bytes()) })
        };
        Subject::new(name, work)
    }

    fn case(better: Better, runs: usize, mut subjects: Vec<Subject>) -> Case {
        subjects.push(Subject::absent("gone", "not on PATH"));
        let published = Published::one(4.0);
        let measure = Measure { metric: "goodput", unit: "B/s", param: None, better, answers: &["A1"], published };
        Case {
            case: "work",
            params: BTreeMap::from([("bytes", 5.into()), ("cipher", "c".into())]),
            measures: vec![measure],
            subjects,
            sample: Duration::ZERO,
            runs,
        }
    }

    fn run(case: Case, depth: Depth) -> Result<Vec<Record>, Error> {
        measure(Suite::Crypto, case, depth, None, &Origin::here())
    }

    #[test]
    fn subjects_alternate_after_one_warm_up_that_does_not_count() {
        let log = Log::default();
        let subjects = vec![subject(&log, "sealane/x", &[100.0, 1.0, 2.0], ""), subject(&log, "peer", &[7.0], "")];
        let records = run(case(Better::More, 2, subjects), Depth::Quick).unwrap();
        assert_eq!(*log.borrow(), ["sealane/x", "peer", "sealane/x", "peer", "sealane/x", "peer"]);
        assert_eq!(records[0].outcome, Outcome::Measured { median: 1.5, min: 1.0, max: 2.0, runs: 2 });
    }

    #[test]
    fn after_its_time_a_case_has_one_run() {
        let log = Log::default();
        let case = case(Better::More, 5, vec![subject(&log, "sealane/x", &[1.0], "")]);
        measure(Suite::Crypto, case, Depth::Quick, Some(Instant::now()), &Origin::here()).unwrap();
        assert_eq!(log.borrow().len(), 2);
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        let expect = Outcome::Measured { median: 3.0, min: 1.0, max: 9.0, runs: 3 };
        assert_eq!(spread(vec![9.0, 1.0, 3.0]), expect);
    }

    #[test]
    fn a_ratio_above_one_means_better_for_rates_and_for_costs() {
        for (better, best_peer, ratio) in [(Better::More, "fast", 10.0 / 20.0), (Better::Less, "slow", 5.0 / 10.0)] {
            let log = Log::default();
            let subjects = vec![
                subject(&log, "sealane/x", &[10.0], ""),
                subject(&log, "slow", &[5.0], ""),
                subject(&log, "fast", &[20.0], ""),
            ];
            let records = run(case(better, 1, subjects), Depth::Smoke).unwrap();
            assert_eq!(records[0].best_peer.as_deref(), Some(best_peer));
            assert_eq!(records[0].ratio_to_best_peer, Some(ratio));
            assert_eq!(records[1].ratio_to_best_peer, None);
            assert_eq!((records[0].answers, records[1].answers.len()), (&["A1"][..], 0));
        }
    }

    #[test]
    fn an_absent_peer_is_named_and_takes_no_part() {
        let log = Log::default();
        let records = run(case(Better::More, 1, vec![subject(&log, "sealane/x", &[1.0], "")]), Depth::Smoke).unwrap();
        assert_eq!(records[1].subject, "gone");
        assert_eq!(records[1].outcome, Outcome::Absent { absent: "not on PATH" });
        assert_eq!(records[0].best_peer, None);
    }

    #[test]
    fn a_wrong_answer_ends_the_run() {
        let log = Log::default();
        let subjects = vec![subject(&log, "sealane/x", &[1.0], "right"), subject(&log, "peer", &[1.0], "wrong")];
        let error = run(case(Better::More, 1, subjects), Depth::Smoke).unwrap_err();
        assert_eq!(error.to_string(), "crypto work bytes 5 c: peer and sealane/x came to different answers");
    }
}
