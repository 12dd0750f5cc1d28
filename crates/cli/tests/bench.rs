//! Every suite runs with the built program, which some of them start again as sender and as receiver.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_suite_measures_sealane_and_answers_its_rows() {
    let program = env!("CARGO_BIN_EXE_sealane");
    let bench = Command::new(program).args(["bench", "--smoke", "--json", "-"]).output().unwrap();
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    let lines = String::from_utf8(bench.stdout).unwrap();
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ours = records.iter().filter(|record| record["subject"].as_str().unwrap().starts_with("sealane"));
    assert!(ours.clone().all(|record| record["median"].is_f64()), "{lines}");
    for row in ["C5", "C9", "C10", "C15", "C16"] {
        let answers = |record: &&Value| record["answers"].as_array().unwrap().contains(&row.into());
        assert!(ours.clone().any(|record| answers(&record)), "nothing answers {row}");
    }
    let session = ours.clone().find(|record| record["params"]["of"] == "one session").unwrap();
    assert!(session["median"].as_f64().unwrap() < 100e3, "{session}");
}
