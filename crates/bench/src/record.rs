use std::collections::BTreeMap;
use std::process::Command;

use serde::Serialize;
use serde_json::Value;

use crate::{Machine, Suite};

/// The parameter that says how a figure came about, where that is not plain.
pub(crate) const METHOD: &str = "method";

/// One figure of one subject in one case, or the reason why there is none. Serialises to one line of `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The suite.
    pub suite: Suite,
    /// The work, such as `seal`.
    pub case: &'static str,
    /// What the work was done on: bytes, batch, cipher and so on.
    pub params: BTreeMap<&'static str, Value>,
    /// Who did it: `sealane/...` or the name of a peer.
    pub subject: String,
    /// What was measured.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The figure.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Rows of the published figures that this answers; none for a peer.
    pub answers: &'static [&'static str],
    /// What was published for those rows, in the same unit.
    pub published: Option<Published>,
    /// Above 1: Sealane is better, whatever the unit. `None` for a peer, and where no peer was measured.
    pub ratio_to_best_peer: Option<f64>,
    /// The peer of that ratio.
    pub best_peer: Option<String>,
    /// Where it was measured.
    pub machine: Machine,
    /// The commit that was measured, or the version outside a checkout.
    pub commit: String,
    /// The command that measured it.
    pub command: String,
}

/// What came of measuring a subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It did the work, and its answers were right.
    Measured {
        /// Median of the runs.
        median: f64,
        /// Least of the runs.
        min: f64,
        /// Most of the runs.
        max: f64,
        /// Number of runs.
        runs: usize,
    },
    /// It is not here.
    Absent {
        /// Why.
        absent: &'static str,
    },
}

impl Outcome {
    /// The median, if there is one.
    pub fn median(&self) -> Option<f64> {
        match self {
            Self::Measured { median, .. } => Some(*median),
            Self::Absent { .. } => None,
        }
    }
}

/// A published figure, in the unit of its record.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Published {
    /// Its lower end.
    pub low: f64,
    /// Its upper end; the same when one figure was published.
    pub high: f64,
}

impl Published {
    pub(crate) const fn one(figure: f64) -> Option<Self> {
        Some(Self { low: figure, high: figure })
    }
}

/// What all records of one run have in common.
pub(crate) struct Origin {
    pub(crate) machine: Machine,
    pub(crate) commit: String,
    pub(crate) command: String,
}

impl Origin {
    pub(crate) fn here() -> Self {
        let command: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
        Self { machine: Machine::here(), commit: commit(), command: command.join(" ") }
    }
}

/// From the environment of the build, or of the checkout this was built in, or else the version.
fn commit() -> String {
    let checkout = || {
        let source = env!("CARGO_MANIFEST_DIR");
        let git =
            Command::new("git").args(["-C", source, "describe", "--always", "--dirty", "--exclude=*"]).output().ok()?;
        let commit = String::from_utf8(git.stdout).ok()?.trim().to_owned();
        (git.status.success() && !commit.is_empty()).then_some(commit)
    };
    let built = option_env!("SEALANE_COMMIT").map(str::to_owned);
    built.or_else(checkout).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcome: Outcome) -> Record {
        Record {
            suite: Suite::Crypto,
            case: "seal",
            params: BTreeMap::from([("bytes", 309.into()), ("cipher", "chacha20-poly1305".into())]),
            subject: "sealane/avx512".to_owned(),
            metric: "goodput",
            unit: "B/s",
            outcome,
            answers: &["A6"],
            published: Some(Published { low: 265e6, high: 580e6 }),
            ratio_to_best_peer: Some(1.5),
            best_peer: Some("aws-lc-rs".to_owned()),
            machine: Machine {
                cpu: "c".to_owned(),
                cores: 2,
                os: "linux x86_64".to_owned(),
                kernel: "6".to_owned(),
                load: None,
            },
            commit: "abc".to_owned(),
            command: "sealane bench".to_owned(),
        }
    }

    #[test]
    fn a_line_of_json_has_the_documented_shape() {
        let measured = Outcome::Measured { median: 3e9, min: 2e9, max: 4e9, runs: 11 };
        assert_eq!(
            serde_json::to_string(&record(measured)).unwrap(),
            concat!(
                r#"{"suite":"crypto","case":"seal","params":{"bytes":309,"cipher":"chacha20-poly1305"},"#,
                r#""subject":"sealane/avx512","metric":"goodput","unit":"B/s","#,
                r#""median":3000000000.0,"min":2000000000.0,"max":4000000000.0,"runs":11,"answers":["A6"],"#,
                r#""published":{"low":265000000.0,"high":580000000.0},"ratio_to_best_peer":1.5,"best_peer":"aws-lc-rs","#,
                r#""machine":{"cpu":"c","cores":2,"os":"linux x86_64","kernel":"6","load":null},"commit":"abc","command":"sealane bench"}"#
            )
        );
    }

    #[test]
    fn an_absent_peer_has_a_reason_and_no_figure() {
        let json = serde_json::to_value(record(Outcome::Absent { absent: "not on PATH" })).unwrap();
        assert_eq!(json["absent"], "not on PATH");
        assert!(json.get("median").is_none());
    }
}
