//! Turns raw shapes into a policy: what the values mean together, and whether they may.

use tollkeeper_core::WhenFull;

use crate::error::{Fault, Problems};
use crate::limits::MAX_KEYS;
use crate::policy::{Listen, Policy, StoreSettings};
use crate::raw::RawMap;

mod quota;
mod rule;

/// The policy of what could be read. It counts only if there are no problems at the end.
pub(crate) fn policy(raw: &RawMap, problems: &mut Problems) -> Policy {
    let mut rules = Vec::new();
    for named in raw.rules("rules") {
        rules.extend(rule::rule(named, problems));
    }
    let store = raw.map("store").map(|map| store(map, problems));
    let listen = raw.map("listen").map(|map| Listen { http: map.address("http") });
    // The tree has refused a name that stands twice, the reader too many rules.
    Policy::from_rules(rules)
        .unwrap_or_default()
        .with_settings(store.unwrap_or_default(), listen.unwrap_or_default())
}

fn store(map: &RawMap, problems: &mut Problems) -> StoreSettings {
    let mut settings = StoreSettings::default();
    if let Some(url) = map.store_url("url") {
        settings.url = url.clone();
    }
    settings.when_full = match map.word("when_full") {
        Some("deny") => WhenFull::Deny,
        Some("allow") => WhenFull::Allow,
        _ => WhenFull::Evict,
    };
    let (Some(field), Some(count)) = (map.field("max_keys"), map.count("max_keys")) else {
        return settings;
    };
    match usize::try_from(count) {
        Ok(keys) if (1..=MAX_KEYS).contains(&count) => settings.max_keys = keys,
        _ => {
            let message = format!("`max_keys` is {}, which is out of range", field.quoted());
            let expected = format!("a whole number from 1 to {MAX_KEYS}");
            problems.add(field.span, Fault::new(message).expected(expected));
        }
    }
    settings
}
