//! Measures Sealane beside its peers, and checks every answer while it does.
//!
//! In goes a [`Plan`] (which suites, how deep); out come [`Record`]s, one for each subject and measure, which [`report`]
//! turns into a table, a page or JSON lines. A suite (`suite/`) is a list of cases: data, and the subjects that do the same
//! work on it. `runner.rs` runs the subjects of a case alternately and refuses figures of a subject whose answer
//! differs. Read `runner.rs` next, then `suite/crypto.rs`.

mod error;
mod machine;
mod process;
mod record;
pub mod report;
mod runner;
mod suite;

use std::path::PathBuf;
use std::time::Instant;

pub use error::Error;
pub use machine::Machine;
pub use record::{Outcome, Published, Record};

use record::Origin;
pub use suite::Suite;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The suites, in the order in which they are to run.
    pub suites: Vec<Suite>,
    /// How long and how often.
    pub depth: Depth,
    /// The program `sealane`, which the suites that need two processes start. The caller is that program, or knows it.
    pub program: PathBuf,
}

/// How long and how often each subject is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything runs once on little data: shows that it works, says nothing about speed.
    Smoke,
    /// All suites together end in 120 s on two cores.
    Quick,
    /// All cases, more and longer runs.
    Full,
}

/// What [`run`] is about to measure.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The suite.
    pub suite: Suite,
    /// The case and its parameters, as in the report.
    pub case: String,
    /// Cases of this suite that are done.
    pub done: usize,
    /// Cases of this suite.
    pub total: usize,
}

/// Measures what `plan` names, and tells `progress` before each case.
///
/// # Errors
/// When a subject's answer is wrong ([`Error::Disagree`], [`Error::Rejected`]) or a resource fails. A peer that is not
/// on this machine is no error: it has a record that says so.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<Vec<Record>, Error> {
    let origin = Origin::here();
    let mut records = Vec::new();
    for &suite in &plan.suites {
        let end = (plan.depth == Depth::Quick).then(|| Instant::now() + suite.quick_share());
        let cases = suite.cases(plan);
        let total = cases.len();
        for (done, case) in cases.enumerate() {
            let case = case?;
            progress(Progress { suite, case: case.title(), done, total });
            let now = Instant::now();
            let left = u32::try_from(total - done).unwrap_or(u32::MAX);
            let until = end.map(|end| now + end.saturating_duration_since(now) / left);
            records.extend(runner::measure(suite, case, plan.depth, until, &origin)?);
        }
    }
    Ok(records)
}
