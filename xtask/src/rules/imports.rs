//! Which crate of the workspace may import which.

use crate::tree::{Finding, Tree};
use serde_json::Value;

/// Each crate, and what it may import of the others besides its tests. Protocols never see a backend of the engine;
/// nothing imports the benchmark but the program, and nothing imports the program.
const ALLOWED: &[(&str, &[&str])] = &[
    ("sealane-lane", &[]),
    ("sealane-skip", &[]),
    ("sealane-aead", &["sealane-lane"]),
    ("sealane-net", &["sealane-lane"]),
    ("sealane-transfer", &["sealane-aead", "sealane-lane", "sealane-net"]),
    ("sealane-bench", &["sealane-aead", "sealane-lane", "sealane-net", "sealane-transfer"]),
    ("sealane", &["sealane-aead", "sealane-bench", "sealane-net", "sealane-transfer"]),
    ("sealane-fuzz", &["sealane-aead", "sealane-lane", "sealane-net", "sealane-transfer"]),
    ("xtask", &[]),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let empty = Vec::new();
    let packages = tree.metadata["packages"].as_array().unwrap_or(&empty);
    let names: Vec<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = text(package, "name");
        let manifest = tree.relative(text(package, "manifest_path"));
        let mut report = |advice| findings.push(Finding::new(manifest, 1, "imports", advice));
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            report(format!("crate {name} is not in the table; say there what it may import"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap_or(&empty) {
            let import = text(dependency, "name");
            if dependency["kind"] != "dev" && names.contains(&import) && !allowed.contains(&import) {
                report(format!("{name} may not import {import}; move the code, or the border, with a decision page"));
            }
        }
    }
    findings
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings(lane_imports: Value) -> Vec<Finding> {
        let lane = json!({"name": "sealane-lane", "manifest_path": "lane", "dependencies": lane_imports});
        let net = json!({"name": "sealane-net", "manifest_path": "net",
            "dependencies": [{"name": "sealane-lane", "kind": null}, {"name": "socket2", "kind": null}]});
        check(&Tree { metadata: json!({"packages": [lane, net]}), ..Tree::default() })
    }

    #[test]
    fn an_upward_import_is_found_and_a_test_import_is_not() {
        assert_eq!(findings(json!([{"name": "sealane-net", "kind": "dev"}])), []);
        let found = findings(json!([{"name": "sealane-net", "kind": null}]));
        assert!(found[0].advice.contains("sealane-lane may not import sealane-net"), "{found:?}");
        assert_eq!(findings(json!([{"name": "sealane-net", "kind": "build"}])).len(), 1);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        let metadata = json!({"packages": [{"name": "sealane-new", "manifest_path": "new", "dependencies": []}]});
        let found = check(&Tree { metadata, ..Tree::default() });
        assert!(found[0].advice.contains("not in the table"), "{found:?}");
    }
}
