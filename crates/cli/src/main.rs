//! The program `sealane`: arguments come in, one verb runs, and an exit code goes out.
//!
//! 0: done; 1: the operation failed; 2: wrong usage or configuration; 130: interrupted. stdout carries data only, people
//! are spoken to on stderr. Read `args.rs` next, then the file of a verb.

mod args;
mod bench;
mod completions;
mod error;
mod events;
mod get;
mod keygen;
mod progress;
mod send;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Verb};
use crate::error::Error;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log(cli.verbose);
    let json = match &cli.verb {
        Verb::Send(args) => args.json,
        Verb::Get(args) => args.json,
        _ => false,
    };
    let done = match cli.verb {
        Verb::Send(args) => send::send(args),
        Verb::Get(args) => get::get(args),
        Verb::Bench(args) => bench::bench(&args),
        Verb::Keygen { file } => keygen::keygen(file),
        Verb::Completions { shell } => completions::completions(shell),
        Verb::Man { dir } => completions::man(&dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(json),
    }
}

/// `RUST_LOG` decides; without it, `-v` and `-vv`.
fn log(verbose: u8) {
    let level = ["warn", "info", "debug"][usize::from(verbose.min(2))];
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}

/// A flag that the first Ctrl-C sets; the second ends the program at once.
fn interrupt() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(stop)
}
