use crate::Suite;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two subjects did the same work and came to different answers.
    #[error("{suite} {case}: {subject} and {other} came to different answers")]
    Disagree {
        /// The suite.
        suite: Suite,
        /// The case and its parameters.
        case: String,
        /// The subject whose answer is not the first one's.
        subject: String,
        /// The first subject.
        other: String,
    },
    /// A subject failed at the work, or refused what it had to accept.
    #[error("{subject} did not do its work: {step}")]
    Rejected {
        /// The subject.
        subject: &'static str,
        /// What failed.
        step: &'static str,
    },
    /// There is no such suite.
    #[error("there is no suite of this name; the suites are {}", Suite::ALL.map(Suite::name).join(", "))]
    UnknownSuite,
    /// The engine was called wrongly.
    #[error(transparent)]
    Engine(#[from] sealane_aead::Error),
    /// The transfer was called wrongly.
    #[error(transparent)]
    Transfer(#[from] sealane_transfer::Error),
    /// A file, socket or process.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}
