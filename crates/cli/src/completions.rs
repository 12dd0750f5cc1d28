//! `sealane completions` and `sealane man`: both come from the definitions in `args.rs`.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::Error;
use crate::events::print;

pub(crate) fn completions(shell: Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sealane", &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

pub(crate) fn man(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(Error::io("write to", dir))
}
