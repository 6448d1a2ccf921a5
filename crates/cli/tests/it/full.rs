//! What `/metrics` tells of a table that is full.

use crate::kit::Service;

/// It was told nowhere, though limits then admit too much, or deny who has done nothing.
#[test]
fn what_a_full_table_did_is_counted() {
    for did in ["evict", "deny", "allow"] {
        let store = format!("store: {{ max_keys: 1, when_full: {did} }}");
        let service = Service::start(
            &format!("full-{did}"),
            &format!("{store}\nrules: {{ a: {{ limit: 9/day }} }}"),
        );
        for key in ["one", "two", "three"] {
            let denied = did == "deny" && key != "one";
            let answer = service.post("/v1/check", &format!(r#"{{"rule":"a","key":"{key}"}}"#));
            assert_eq!(answer.json()["allowed"], !denied, "{did} {key}");
        }
        let metrics = service.get("/metrics").body;
        for other in ["evict", "deny", "allow"] {
            let count = if other == did { 2 } else { 0 };
            let line = format!("\ntollkeeper_full_table_total{{did=\"{other}\"}} {count}\n");
            assert!(metrics.contains(&line), "{line}{metrics}");
        }
        assert!(metrics.contains("\ntollkeeper_swept_keys_total 0\n"), "{metrics}");
    }
}
