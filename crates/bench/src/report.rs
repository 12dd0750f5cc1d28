//! Records for people (a table, a page that needs no network) and for programs (JSON lines).

use std::fmt::Write as _;

use serde_json::Value;

use crate::record::{METHOD, Outcome, Record};
use crate::runner::is_ours;

/// A load average of more than this a core is someone else's.
const BUSY: f64 = 0.5;

/// One JSON object a line.
pub fn json_lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).expect("a record is text and numbers") + "\n";
    records.iter().map(line).collect()
}

/// A table for a terminal, one line for each measure of a case.
pub fn table(records: &[Record]) -> String {
    let rows: Vec<Row<'_>> = rows(records);
    let mut cells = vec![["", "sealane", "best peer", "ratio", "published"].map(str::to_owned)];
    let mut suite = None;
    for row in &rows {
        if suite.replace(row.ours.suite) != Some(row.ours.suite) {
            cells.push([
                row.ours.suite.name().to_uppercase(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        cells.push([row.what(), row.figure(), row.best_peer(), row.ratio(), row.published()]);
    }
    let mut text = aligned(&cells);
    for (peer, reason) in absent(records) {
        let _ = writeln!(text, "absent: {peer}: {reason}");
    }
    text + &footer(records)
}

/// A page of its own: no scripts, nothing loaded from elsewhere.
pub fn html(records: &[Record]) -> String {
    let mut page = include_str!("report.html").to_owned();
    let mut suite = None;
    for row in rows(records) {
        if suite.replace(row.ours.suite) != Some(row.ours.suite) {
            page += if page.ends_with("</tr>\n") { "</table>\n" } else { "" };
            let _ = write!(page, "<h2>{}</h2>\n<table>\n<tr>", row.ours.suite);
            for head in ["case", "published", "sealane", "best peer", "ratio", "all subjects: median (least to most)"] {
                let _ = write!(page, "<th>{head}</th>");
            }
            page += "</tr>\n";
        }
        let better = row.ours.ratio_to_best_peer.map_or("", |ratio| if ratio >= 1.0 { "better" } else { "worse" });
        let _ = write!(page, "<tr><td>{}</td><td>{}</td>", escape(&row.what()), escape(&row.published()));
        let _ = write!(page, "<td><b>{}</b></td><td>{}</td>", escape(&row.figure()), escape(&row.best_peer()));
        let _ = write!(page, "<td class=\"{better}\">{}</td><td>", row.ratio());
        for record in row.all {
            let _ = write!(page, "{}<br>", escape(&spread(record)));
        }
        if let Some(Value::String(method)) = row.ours.params.get(METHOD) {
            page += &escape(method);
        }
        page += "</td></tr>\n";
    }
    page += "</table>\n";
    for (peer, reason) in absent(records) {
        let _ = writeln!(page, "<p>absent: {}: {}</p>", escape(peer), escape(reason));
    }
    let _ = writeln!(page, "<pre>{}</pre>\n</body>\n</html>", escape(&footer(records)));
    page
}

/// A record of ours, and all records of the same measure of the same case.
struct Row<'a> {
    ours: &'a Record,
    all: &'a [Record],
}

fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let same =
        |a: &Record, b: &Record| (a.suite, a.case, a.metric, &a.params) == (b.suite, b.case, b.metric, &b.params);
    let groups = records.chunk_by(same);
    groups
        .flat_map(|all| all.iter().filter(|record| is_ours(&record.subject)).map(move |ours| Row { ours, all }))
        .collect()
}

impl Row<'_> {
    fn what(&self) -> String {
        let mut what = self.ours.case.to_owned();
        // How it was measured is for the page and the records.
        for (name, value) in self.ours.params.iter().filter(|(name, _)| **name != METHOD) {
            what += &match value {
                Value::Number(bytes) if *name == "bytes" && bytes.as_f64() >= Some(1e6) => {
                    format!(" {}", figure(bytes.as_f64().unwrap_or_default(), "B"))
                }
                Value::String(text) if *name == "keys" => format!(", {text} key"),
                Value::String(text) => format!(" {text}"),
                number if *name == "bytes" => format!(" {number} B"),
                number => format!(" {name} {number}"),
            };
        }
        format!("{what}: {}", self.ours.metric)
    }

    fn figure(&self) -> String {
        let engine = self.ours.subject.trim_start_matches("sealane").trim_start_matches('/');
        let median =
            self.ours.outcome.median().map_or_else(|| "absent".to_owned(), |value| figure(value, self.ours.unit));
        if engine.is_empty() { median } else { format!("{median} ({engine})") }
    }

    fn best_peer(&self) -> String {
        let best = self.all.iter().find(|record| Some(&record.subject) == self.ours.best_peer.as_ref());
        let shown =
            best.and_then(|best| Some(format!("{} ({})", figure(best.outcome.median()?, best.unit), best.subject)));
        shown.unwrap_or_else(|| "-".to_owned())
    }

    fn ratio(&self) -> String {
        self.ours.ratio_to_best_peer.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
    }

    fn published(&self) -> String {
        let Some(published) = self.ours.published else { return self.ours.answers.join(" ") };
        let mut text = format!("{} {}", self.ours.answers.join(" "), figure(published.low, self.ours.unit));
        if published.high > published.low {
            text += &format!(" to {}", figure(published.high, self.ours.unit));
        }
        text
    }
}

fn spread(record: &Record) -> String {
    match record.outcome {
        Outcome::Measured { median, min, max, .. } => {
            let [median, min, max] = [median, min, max].map(|value| figure(value, record.unit));
            format!("{}: {median} ({min} to {max})", record.subject)
        }
        Outcome::Absent { absent } => format!("{}: absent, {absent}", record.subject),
    }
}

/// Three digits and a decimal prefix.
fn figure(value: f64, unit: &str) -> String {
    let all = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
    // A share is not divided further.
    let scales = if unit == "%" { &all[3..4] } else { &all[..] };
    let (scale, prefix) = *scales.iter().find(|(scale, _)| value >= *scale).unwrap_or(&(1.0, ""));
    let scaled = value / scale;
    let decimals = if scaled >= 100.0 {
        0
    } else if scaled >= 10.0 {
        1
    } else {
        2
    };
    match unit.strip_prefix('1') {
        Some(per) => format!("{scaled:.decimals$} {prefix}{per}"),
        None => format!("{scaled:.decimals$} {prefix}{unit}"),
    }
}

/// Every absent peer and reason once.
fn absent(records: &[Record]) -> Vec<(&str, &'static str)> {
    let mut all = Vec::new();
    for record in records {
        if let Outcome::Absent { absent } = record.outcome {
            let entry = (record.subject.as_str(), absent);
            if !all.contains(&entry) {
                all.push(entry);
            }
        }
    }
    all
}

fn footer(records: &[Record]) -> String {
    let Some(Record { machine, commit, command, .. }) = records.first() else { return String::new() };
    let load = machine.load.filter(|load| *load > BUSY * machine.cores as f64);
    let busy = load.map(|load| format!("the machine was busy (load {load:.1}): do not trust these figures\n"));
    format!(
        "{}ratio above 1: Sealane is better than the best peer of the same run\n{}, {} cores, {}, kernel {}; commit {commit}; {command}\n",
        busy.unwrap_or_default(),
        machine.cpu,
        machine.cores,
        machine.os,
        machine.kernel
    )
}

/// Pads the columns: the first to the left, the others to the right.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width: [usize; N] = std::array::from_fn(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{:<w$}", row[0], w = width[0]);
        for column in 1..N {
            let _ = write!(line, "  {:>w$}", row[column], w = width[column]);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Published;
    use crate::{Machine, Suite};

    fn records() -> Vec<Record> {
        let ours = Record {
            suite: Suite::Crypto,
            case: "seal",
            params: BTreeMap::from([("bytes", 309.into()), ("cipher", "aes-128-gcm".into())]),
            subject: "sealane/x".to_owned(),
            metric: "goodput",
            unit: "B/s",
            outcome: Outcome::Measured { median: 2.5e9, min: 1e9, max: 3e9, runs: 3 },
            answers: &["A6"],
            published: Some(Published { low: 265e6, high: 580e6 }),
            ratio_to_best_peer: Some(2.0),
            best_peer: Some("<ring>".to_owned()),
            machine: Machine::here(),
            commit: "abc".to_owned(),
            command: "sealane bench".to_owned(),
        };
        let outcome = Outcome::Measured { median: 1.25e9, min: 1e9, max: 2e9, runs: 3 };
        let peer = Record { subject: "<ring>".to_owned(), outcome, published: None, ..ours.clone() };
        let gone =
            Record { subject: "croc".to_owned(), outcome: Outcome::Absent { absent: "not on PATH" }, ..peer.clone() };
        vec![ours, peer, gone]
    }

    #[test]
    fn the_table_has_a_line_a_case_with_ours_the_best_peer_and_what_was_published() {
        let table = table(&records());
        let line = table.lines().find(|line| line.starts_with("seal 309 B aes-128-gcm: goodput")).unwrap();
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells[1..], ["2.50 GB/s (x)", "1.25 GB/s (<ring>)", "2.00", "A6 265 MB/s to 580 MB/s"]);
        assert!(table.contains("\nabsent: croc: not on PATH\n"), "{table}");
    }

    #[test]
    fn the_page_loads_nothing_and_escapes_names() {
        let page = html(&records());
        assert!(page.contains("&lt;ring&gt;: 1.25 GB/s (1.00 GB/s to 2.00 GB/s)"), "{page}");
        assert!(!page.contains("<ring>") && !page.contains("src=") && !page.contains("http"));
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
    }

    #[test]
    fn a_busy_machine_is_told_from_an_idle_one() {
        for (load, busy) in [(None, false), (Some(0.9), false), (Some(1.1), true)] {
            let mut records = records();
            (records[0].machine.cores, records[0].machine.load) = (2, load);
            assert_eq!(table(&records).contains("busy"), busy, "{load:?}");
        }
    }

    #[test]
    fn how_it_was_measured_is_on_the_page_alone() {
        let mut records = records();
        records[0].params.insert(METHOD, "with care".into());
        records[0].params.insert("bytes", 250_000_000.into());
        assert!(table(&records).contains("seal 250 MB aes-128-gcm: goodput"), "{}", table(&records));
        assert!(!table(&records).contains("with care") && html(&records).contains("with care"));
    }

    #[test]
    fn json_has_a_line_a_record() {
        let text = json_lines(&records());
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["suite"] == "crypto"));
    }

    #[test]
    fn figures_have_three_digits_and_a_prefix() {
        let shown = [(1.42e-3, "s"), (715e3, "1/s"), (45.04e6, "B"), (0.5, "s/GB"), (0.0, "s"), (0.75, "%")]
            .map(|(v, unit)| figure(v, unit));
        assert_eq!(shown, ["1.42 ms", "715 k/s", "45.0 MB", "500 ms/GB", "0.00 s", "0.75 %"]);
    }
}
