//! What goes to stderr: words for people, and bars where there is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Writes a line to stderr, and does not mind when nobody can read it.
macro_rules! tell {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}
pub(crate) use tell;

/// A bar of bytes that shows only on a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Begins with `what`; empty until [`Bar::set`].
    pub(crate) fn new(what: &'static str) -> Self {
        const STYLE: &str = "{msg} {bar:24} {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(STYLE).expect("the template is well-formed").progress_chars("##-");
        Self(ProgressBar::new(0).with_style(style).with_message(what))
    }

    /// How far it is, in bytes.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// As [`Bar::set`], but what is done so far says nothing about the rate.
    pub(crate) fn start(&self, done: u64, total: u64) {
        self.set(done, total);
        self.0.reset_eta();
    }

    /// Writes a line above the bar.
    pub(crate) fn tell(&self, line: &str) {
        self.0.suspend(|| tell!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// 1234567 as `1.23 MB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
}
