//! The memory that open sessions cost a provider: the resident bytes of a process `sealane send` before and after many
//! getters shook hands with it and were told what it offers. The getters live here, one at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sealane_lane::Lane;
use sealane_net::{RECEIVE_BUFFER, Udp};
use sealane_transfer::getter::{Action, Getter};
use sealane_transfer::ticket::Ticket;
use sealane_transfer::{Ciphers, Identity, Machine};

use super::{LOOPBACK, LOST};
use crate::record::{METHOD, Published};
use crate::runner::{Better, Case, Measure, Sample, Subject};
use crate::suite::serve::{NO_PROGRAM, serve};
use crate::{Depth, Error};

const NAME: &str = "sealane/udp";
/// A provider forgets a session of which it heard nothing for ten seconds: all must be open within less.
const OPENED: Duration = Duration::from_secs(9);

const METHOD_TEXT: &str = "resident bytes of the process `sealane send` alone, before and after getters shook hands and \
                           were told what it offers; a session may take 100 kB";

/// What is measured, with the published bytes of row C15.
const MEASURES: [(&str, f64); 3] = [("one session", 71e3), ("all sessions", 71e6), ("all sessions, peak", 89e6)];

pub(super) fn case(depth: Depth, program: PathBuf) -> Case {
    let (sessions, runs) = match depth {
        Depth::Smoke => (20, 1),
        Depth::Quick => (1000, 3),
        Depth::Full => (1000, 5),
    };
    let measure = |(of, published)| Measure {
        metric: "resident",
        unit: "B",
        param: Some(("of", of)),
        better: Better::Less,
        answers: &["C15"],
        published: Published::one(published),
    };
    let subject = if !program.is_file() {
        Subject::absent(NAME, NO_PROGRAM)
    } else if !cfg!(target_os = "linux") {
        Subject::absent(NAME, "what a process has resident is asked of Linux alone")
    } else {
        Subject::new(NAME, move |_| sample(&program, sessions))
    };
    let params = BTreeMap::from([("sessions", sessions.into()), (METHOD, METHOD_TEXT.into())]);
    let measures = MEASURES.map(measure).to_vec();
    Case { case: "memory", params, measures, subjects: vec![subject], sample: Duration::ZERO, runs }
}

fn sample(program: &Path, sessions: usize) -> Result<Sample, Error> {
    let home = tempfile::tempdir()?;
    let file = home.path().join("offered");
    std::fs::write(&file, "something")?;
    let (provider, ticket) = serve(program, home.path(), None, &file)?;
    let mut visitor = Visitor { udp: Udp::bind(LOOPBACK)?, ticket, visits: 0 };
    // What only the first one costs is no cost of a session.
    visitor.visit()?;
    let before = provider.usage();
    let start = Instant::now();
    for _ in 0..sessions {
        visitor.visit()?;
    }
    let after = provider.usage();
    if start.elapsed() > OPENED {
        return Err(Error::Rejected { subject: NAME, step: "open all sessions before the first is forgotten" });
    }
    let more = after.resident.saturating_sub(before.resident);
    let values = vec![more as f64 / sessions as f64, after.resident as f64, after.peak as f64];
    Ok(Sample { values, answer: blake3::hash(&visitor.visits.to_be_bytes()) })
}

/// Opens sessions, and leaves them open without a word.
struct Visitor {
    udp: Udp,
    ticket: Ticket,
    visits: u64,
}

impl Visitor {
    /// Until the provider has said what it offers.
    fn visit(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.visits.to_be_bytes());
        let me = Identity::from_secret(*blake3::hash(&seed).as_bytes());
        let mut getter = Getter::new(start, me, Ciphers::of_this_machine(), self.ticket.clone(), LOST, seed);
        let (mut outgoing, mut incoming) = (Lane::new(RECEIVE_BUFFER - 1, 64), Lane::new(RECEIVE_BUFFER, 64));
        let mut arrivals = Vec::new();
        while !matches!(getter.poll_action(), Some(Action::Open(_))) {
            let now = Instant::now();
            if now - start > LOST {
                return Err(Error::Rejected { subject: NAME, step: "answer a getter" });
            }
            getter.handle_timeout(now);
            while let Some((to, datagram)) = getter.poll_datagram(now) {
                outgoing.clear();
                if let Some(slot) = outgoing.push(datagram.len()) {
                    slot.copy_from_slice(&datagram);
                }
                self.udp.send(&outgoing, to, None)?;
            }
            outgoing.clear();
            while let Some(transmit) = getter.poll_transmit(now, &mut outgoing) {
                self.udp.send(&outgoing, transmit.to, transmit.ecn)?;
                outgoing.clear();
            }
            incoming.clear();
            arrivals.clear();
            if self.udp.recv(&mut incoming, &mut arrivals)? == 0 {
                self.udp.wait(Some(Duration::from_millis(1)), false)?;
            }
            getter.handle_datagrams(Instant::now(), &mut incoming, &arrivals);
        }
        self.visits += 1;
        Ok(())
    }
}
