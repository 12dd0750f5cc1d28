//! What may be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, arg};
use clap_complete::Shell;
use sealane_aead::Cipher;
use sealane_bench::Suite;

/// Moves files and folders between machines: encrypted end to end, verified, resumable
#[derive(Parser)]
#[command(
    name = "sealane",
    version,
    after_help = "\
Examples:
  sealane send photos                  # prints a ticket, serves until Ctrl-C
  sealane get TICKET -o downloads      # on the other machine

Exit codes: 0 done; 1 the operation failed; 2 wrong usage or configuration; 130 interrupted."
)]
pub(crate) struct Cli {
    /// Log more to stderr; twice for still more (RUST_LOG decides if it is set)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Offer files or folders: prints a ticket, then serves until Ctrl-C
    Send(SendArgs),
    /// Fetch what a ticket names: verified, and taken up again where it was interrupted
    Get(GetArgs),
    /// Measure this machine, beside other libraries and programs
    Bench(BenchArgs),
    /// Make a key file and print its public key
    #[command(after_help = "\
Examples:
  sealane keygen                       # the key that `send` uses
  sealane keygen backup.key            # for `send --key backup.key`")]
    Keygen {
        /// Where to; never overwritten [default: the key of `send`, in the user's data directory]
        file: Option<PathBuf>,
    },
    /// Print the completions for a shell
    #[command(after_help = "\
Examples:
  sealane completions bash > ~/.local/share/bash-completion/completions/sealane
  sealane completions zsh > ~/.zfunc/_sealane
  sealane completions fish > ~/.config/fish/completions/sealane.fish")]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the manual pages into a folder
    #[command(
        hide = true,
        after_help = "\
Examples:
  sealane man /usr/local/share/man/man1"
    )]
    Man {
        /// The folder
        dir: PathBuf,
    },
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  sealane send photos notes.txt
  sealane send --port 9000 --address 203.0.113.7:9000 photos   # behind a forwarded port
  sealane send --json backup.tar                               # events for a program

The same key, port and content make the same ticket again: a sender that was stopped can be started anew.")]
pub(crate) struct SendArgs {
    /// Files and folders
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// UDP port to serve at, 0 for any [default: 7447, or any if it is taken]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// File with the secret key, made if missing [default: one in the user's data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Address to put into the ticket instead of this machine's own; up to 16 times, best first
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) address: Vec<SocketAddr>,
    /// The only cipher to offer [default: what is fast on both machines]
    #[arg(long, value_parser = cipher())]
    pub(crate) cipher: Option<Cipher>,
    /// Print events to stdout, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  sealane get TICKET
  sealane get TICKET -o downloads --wait 600     # while the sender may be away for ten minutes
  sealane get TICKET --cipher xchacha20-poly1305

Nothing is overwritten. An interrupted transfer goes on when the same command is given again.")]
pub(crate) struct GetArgs {
    /// What `sealane send` printed
    pub(crate) ticket: String,
    /// Folder to put it in, made if missing
    #[arg(short, long = "output", value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// File with the secret key to show to the sender, made if missing [default: a new key each time]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// The only cipher to accept [default: what is fast on both machines]
    #[arg(long, value_parser = cipher())]
    pub(crate) cipher: Option<Cipher>,
    /// Give up after so long without anything new
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) wait: u32,
    /// Print events to stdout, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(arg(arg!(--quick "Two minutes for everything; the default").conflicts_with_all(["full", "smoke"])))]
#[command(after_help = "\
Examples:
  sealane bench                                  # every suite, two minutes
  sealane bench crypto latency --full
  sealane bench --json records.jsonl --html report.html

Close other programs first; the figures are only as quiet as the machine.")]
pub(crate) struct BenchArgs {
    /// What to measure [default: everything]
    #[arg(value_name = "SUITE", value_parser = suite())]
    pub(crate) suites: Vec<Suite>,
    /// All cases, more and longer runs
    #[arg(long)]
    pub(crate) full: bool,
    /// Everything once, on little data: shows that it works, not how fast
    #[arg(long, hide = true, conflicts_with = "full")]
    pub(crate) smoke: bool,
    /// Write the records, one JSON object a line; - for stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with all figures; it needs no network [default: sealane-bench.html, or none with --json]
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

fn cipher() -> impl TypedValueParser<Value = Cipher> {
    PossibleValuesParser::new(Cipher::ALL.map(Cipher::name)).try_map(|name| name.parse::<Cipher>())
}

fn suite() -> impl TypedValueParser<Value = Suite> {
    PossibleValuesParser::new(Suite::ALL.map(Suite::name)).try_map(|name| name.parse::<Suite>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_verb_has_examples_and_all_of_them_parse() {
        Cli::command().debug_assert();
        let mut program = Cli::command().disable_help_subcommand(true);
        let own = program.render_long_help().to_string();
        let verbs =
            program.get_subcommands_mut().map(|verb| (verb.get_name().to_owned(), verb.render_long_help().to_string()));
        for (verb, help) in [("sealane".to_owned(), own)].into_iter().chain(verbs.collect::<Vec<_>>()) {
            let examples: Vec<_> = help.lines().filter_map(|line| line.strip_prefix("  sealane ")).collect();
            assert!(!examples.is_empty(), "{verb} has no example");
            for example in examples {
                let typed = example.split(['#', '>']).next().unwrap_or_default().split_whitespace();
                let parsed = Cli::try_parse_from(["sealane"].into_iter().chain(typed));
                assert!(parsed.is_ok(), "{verb}: {example}: {}", parsed.err().unwrap());
            }
        }
    }
}
