//! In: the name of a test that this machine cannot run, and why. Out: a line that nobody overlooks.
//!
//! A development dependency only. `.ci/must-run` names the tests that may not skip there.

use std::io::Write;

/// Says on stderr that `test`, the name of the calling function, does not run because of `reason`; then the test returns.
///
/// ```no_run
/// # fn namespaces_work() -> bool { false }
/// fn a_file_travels_between_namespaces() {
///     if !namespaces_work() {
///         return sealane_skip::skip("a_file_travels_between_namespaces", "needs CAP_NET_ADMIN");
///     }
/// }
/// ```
pub fn skip(test: &str, reason: &str) {
    // Not `eprintln!`, which the test harness keeps to itself when a test passes. One write, so that lines stay whole.
    let line = format!("\nSKIPPED: {test}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("stderr is open while tests run");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    const CHILD: &str = "SEALANE_SKIP_CHILD";

    #[test]
    fn a_skip_is_seen_although_the_test_passes() {
        if std::env::var_os(CHILD).is_some() {
            return super::skip("sample", "no reason");
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        let done = child.arg("a_skip_is_seen").env(CHILD, "1").output().unwrap();
        assert!(String::from_utf8_lossy(&done.stderr).contains("SKIPPED: sample: no reason\n"));
    }
}
