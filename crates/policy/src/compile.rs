//! Turns raw shapes into a policy: what the values mean together, and whether they may.

use crate::error::Problems;
use crate::policy::Policy;
use crate::raw::RawMap;

mod matching;
mod quota;
mod rule;
mod settings;
mod store;
mod tiers;

/// The policy of what could be read. It counts only if there are no problems at the end.
pub(crate) fn policy(raw: &RawMap, problems: &mut Problems) -> Policy {
    let settings = settings::settings(raw, problems);
    let mut rules = Vec::new();
    let nodes = settings.says_nodes.then_some(settings.store.nodes);
    for named in raw.rules("rules") {
        rules.extend(rule::rule(named, nodes, problems));
    }
    // The tree has refused a name that stands twice, the reader too many rules.
    Policy::from_rules(rules).unwrap_or_default().with_settings(settings)
}
