//! `sealane get`: fetches what a ticket names.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sealane_transfer::Ciphers;
use sealane_transfer::getter::{News, Progress};
use sealane_transfer::node::{self, Order};
use sealane_transfer::ticket::Ticket;

use crate::args::GetArgs;
use crate::error::Error;
use crate::events::{Event, emit, print};
use crate::keygen;
use crate::progress::{Bar, bytes, tell};
use crate::send::reason;

pub(crate) fn get(args: GetArgs) -> Result<(), Error> {
    let ticket: Ticket = args.ticket.parse()?;
    let identity = match &args.key {
        Some(file) => keygen::load_or_make(file)?,
        None => keygen::generate()?,
    };
    let ciphers = args.cipher.map_or_else(Ciphers::of_this_machine, Ciphers::only);
    let patience = Duration::from_secs(args.wait.into());
    let stop = crate::interrupt()?;
    let began = Instant::now();
    let mut screen = Screen { bar: None, json: args.json, last: Progress::default() };
    let order = Order { ticket, dir: args.output, identity, ciphers, patience };
    let outcome = node::get(order, &stop, &mut |news, progress| screen.update(news, progress));
    screen.finish(outcome?, began.elapsed())
}

/// What is shown of a transfer.
struct Screen {
    /// Once it is known how much there is.
    bar: Option<Bar>,
    json: bool,
    last: Progress,
}

impl Screen {
    fn update(&mut self, news: Option<News>, progress: Progress) {
        let Progress { done, total, files, received } = progress;
        match news {
            None if self.json && progress != self.last => emit(&Event::Progress { done, total, received }),
            None => {}
            Some(News::Connected { address, cipher }) => {
                let cipher = cipher.name();
                self.say(Event::Connected { address, cipher }, format!("connected to {address}, {cipher}"));
            }
            Some(News::Offered(_)) => {
                let here = if done > 0 { format!("; {} of it are here already", bytes(done)) } else { String::new() };
                let line = format!("fetching {files} file(s), {}{here}", bytes(total));
                self.say(Event::Offered { done, total, files }, line);
                self.bar.get_or_insert_with(|| Bar::new("fetching")).start(done, total);
            }
            Some(News::Lost(why)) => {
                let why = reason(why);
                self.say(Event::Lost { why }, format!("lost the sender ({why}); trying again"));
            }
            Some(News::WrongPeer) => {
                let line = "someone with another key answers at an address of the ticket; still trying".to_owned();
                self.say(Event::WrongPeer, line);
            }
        }
        if let Some(bar) = &self.bar {
            bar.set(done, total);
        }
        self.last = progress;
    }

    fn say(&self, event: Event<'_>, line: String) {
        match &self.bar {
            _ if self.json => emit(&event),
            Some(bar) => bar.tell(&line),
            None => tell!("{line}"),
        }
    }

    fn finish(&self, paths: Vec<PathBuf>, took: Duration) -> Result<(), Error> {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
        let Progress { total, received, .. } = self.last;
        let seconds = took.as_secs_f64();
        if self.json {
            let paths = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            emit(&Event::Finished { paths, bytes: total, received, seconds });
            return Ok(());
        }
        let rate = received as f64 * 8e-9 / seconds;
        tell!("verified {}; received {} in {seconds:.1} s, {rate:.2} Gbit/s", bytes(total), bytes(received));
        paths.iter().try_for_each(|path| print(path.display()))
    }
}
