//! Turns raw shapes into a policy: what the values mean together, and whether they may.

use crate::error::Problems;
use crate::policy::Policy;
use crate::raw::RawMap;
use crate::settings::Listen;

mod quota;
mod rule;
mod store;

/// The policy of what could be read. It counts only if there are no problems at the end.
pub(crate) fn policy(raw: &RawMap, problems: &mut Problems) -> Policy {
    let mut rules = Vec::new();
    for named in raw.rules("rules") {
        rules.extend(rule::rule(named, problems));
    }
    let store = raw.map("store").map(|map| store::settings(map, problems));
    let listen = raw.map("listen").map(|map| Listen { http: map.address("http") });
    // The tree has refused a name that stands twice, the reader too many rules.
    Policy::from_rules(rules)
        .unwrap_or_default()
        .with_settings(store.unwrap_or_default(), listen.unwrap_or_default())
}
