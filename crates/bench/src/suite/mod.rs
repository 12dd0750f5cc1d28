//! The suites: each yields its cases one at a time, so that only one case's data is in memory.

mod crypto;
mod latency;
mod line;
mod serve;
mod session;
mod transfer;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use crate::runner::Case;
#[cfg(not(feature = "peers"))]
use crate::runner::Subject;
use crate::{Error, Plan};

/// A group of cases that is asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// Sealing and opening in memory.
    Crypto,
    /// Handshakes, and the memory of open sessions.
    Session,
    /// One packet from seal to open.
    Latency,
    /// A file to a file, between two processes.
    Transfer,
}

impl Suite {
    /// All suites, in the order in which they run by default.
    pub const ALL: [Self; 4] = [Self::Crypto, Self::Session, Self::Latency, Self::Transfer];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crypto => "crypto",
            Self::Session => "session",
            Self::Latency => "latency",
            Self::Transfer => "transfer",
        }
    }

    /// The share of the 120 s of [`Depth::Quick`](crate::Depth::Quick): what is over beyond it gets fewer runs.
    pub(crate) fn quick_share(self) -> Duration {
        Duration::from_secs(match self {
            Self::Crypto => 40,
            Self::Session => 12,
            Self::Latency => 8,
            Self::Transfer => 50,
        })
    }

    pub(crate) fn cases(self, plan: &Plan) -> Cases {
        match self {
            Self::Crypto => crypto::cases(plan.depth),
            Self::Session => session::cases(plan),
            Self::Latency => latency::cases(plan.depth),
            Self::Transfer => transfer::cases(plan),
        }
    }
}

/// The cases of a suite, each made when its turn comes.
pub(crate) type Cases = Box<dyn ExactSizeIterator<Item = Result<Case, Error>>>;

/// A peer that this build lacks.
#[cfg(not(feature = "peers"))]
fn left_out(peer: &'static str) -> Subject {
    Subject::absent(peer, "left out of this build (feature `peers`)")
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|suite| suite.name() == name).ok_or(Error::UnknownSuite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_found_by_its_name() {
        for suite in Suite::ALL {
            assert_eq!(suite.to_string().parse::<Suite>().unwrap(), suite);
        }
    }

    #[test]
    fn all_shares_are_less_than_two_minutes() {
        assert!(Suite::ALL.map(Suite::quick_share).iter().sum::<Duration>() < Duration::from_secs(115));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "crypt".parse::<Suite>().unwrap_err().to_string();
        assert!(Suite::ALL.iter().all(|suite| error.contains(suite.name())), "{error}");
    }
}
