//! The embedded store against the suite that every store must pass.

use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_testkit::ready::Ready;
use tollkeeper_testkit::suite;

#[test]
fn the_embedded_store_conforms() {
    let harness = Ready::new(|clock| MemoryStore::new(Settings::default(), clock));
    if let Err(failures) = suite::run(&harness, 100) {
        panic!("{failures}");
    }
}

/// The same with one lock for everything, which is another way through the table.
#[test]
fn a_small_table_conforms() {
    let settings = Settings { max_keys: 4_000, ..Settings::default() };
    let harness = Ready::new(|clock| MemoryStore::new(settings, clock));
    if let Err(failures) = suite::run(&harness, 10) {
        panic!("{failures}");
    }
}
