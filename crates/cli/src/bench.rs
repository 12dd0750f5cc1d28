//! `sealane bench`: measures, and prints what came of it.

use std::fs;
use std::path::Path;

use indicatif::ProgressBar;
use sealane_bench::{Depth, Plan, Suite, report};

use crate::args::BenchArgs;
use crate::error::Error;
use crate::events::print;
use crate::progress::tell;

/// Where the page goes if nothing else is said.
const PAGE: &str = "sealane-bench.html";

pub(crate) fn bench(args: &BenchArgs) -> Result<(), Error> {
    let suites = if args.suites.is_empty() { Suite::ALL.to_vec() } else { args.suites.clone() };
    let depth = match (args.smoke, args.full) {
        (true, _) => Depth::Smoke,
        (_, true) => Depth::Full,
        _ => Depth::Quick,
    };
    let program = std::env::current_exe().map_err(Error::io("find", "sealane"))?;
    let line = ProgressBar::new_spinner();
    let records = sealane_bench::run(&Plan { suites, depth, program }, &mut |at| {
        line.set_message(format!("{} {}/{}: {}", at.suite, at.done + 1, at.total, at.case));
        line.tick();
    });
    line.finish_and_clear();
    let records = records?;
    let page = args.html.as_deref().or(args.json.is_none().then_some(Path::new(PAGE)));
    if let Some(path) = page {
        write(path, &report::html(&records))?;
    }
    match &args.json {
        Some(path) if path == Path::new("-") => return print(report::json_lines(&records).trim_end()),
        Some(path) => write(path, &report::json_lines(&records))?,
        None => {}
    }
    print(report::table(&records).trim_end())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io("write", path))?;
    tell!("wrote {path:?}");
    Ok(())
}
