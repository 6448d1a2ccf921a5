//! Turns the raw settings of the store into settings.

use std::path::PathBuf;

use tollkeeper_core::{Colocate, WhenFull};

use crate::error::{Fault, Problems};
use crate::fields::{Kind, STORE};
use crate::raw::RawMap;
use crate::settings::{OnFailure, StoreSettings};
use crate::store_url::{RedisAddress, RedisUrl, StoreUrl};

/// The settings, with the default for what is not there or was refused.
pub(super) fn settings(map: &RawMap, problems: &mut Problems) -> StoreSettings {
    let default = StoreSettings::default();
    StoreSettings {
        url: map.store_url("url").cloned().unwrap_or_default(),
        max_keys: count(map, "max_keys", problems).unwrap_or(default.max_keys),
        when_full: match map.word("when_full") {
            Some("deny") => WhenFull::Deny,
            Some("allow") => WhenFull::Allow,
            _ => WhenFull::Evict,
        },
        names: map.flag("names").unwrap_or(default.names),
        timeout_us: map.duration_us("timeout").unwrap_or(default.timeout_us),
        on_failure: on_failure(map).unwrap_or(default.on_failure),
        denied_cache_us: map.duration_us("denied_cache").unwrap_or(default.denied_cache_us),
        merge: map.flag("merge").unwrap_or(default.merge),
        connections: count(map, "connections", problems).unwrap_or(default.connections),
        nodes: count(map, "nodes", problems).unwrap_or(default.nodes),
        count_nodes: count_nodes(map, problems),
        prefix: map.text("prefix").map_or(default.prefix, str::to_owned),
        colocate: colocate(map).unwrap_or(default.colocate),
        ca: ca(map, problems),
    }
}

fn count_nodes(map: &RawMap, problems: &mut Problems) -> bool {
    let counted = map.flag("count_nodes").unwrap_or(false);
    if let Some(field) = map.field("nodes").filter(|_| counted) {
        let fault = Fault::new("`nodes` says how many there are, and `count_nodes` counts them");
        problems.add(field.key_span, fault.help("remove one of them"));
    }
    counted
}

fn colocate(map: &RawMap) -> Option<Colocate> {
    let word = map.word("colocate")?;
    Colocate::ALL.into_iter().find(|known| known.name() == word)
}

/// What a store or a rule says of failures.
pub(super) fn on_failure(map: &RawMap) -> Option<OnFailure> {
    map.word("on_failure").and_then(OnFailure::named)
}

/// A count within what the table says of its field.
fn count<T: TryFrom<u64>>(map: &RawMap, name: &str, problems: &mut Problems) -> Option<T> {
    let (field, count) = (map.field(name)?, map.count(name)?);
    let kind = &STORE.field(name)?.kind;
    match T::try_from(count) {
        Ok(fitting) if matches!(kind, Kind::Count { max } if (1..=*max).contains(&count)) => {
            Some(fitting)
        }
        _ => {
            let message = format!("`{name}` is {}, which is out of range", field.quoted());
            problems.add(field.span, Fault::new(message).expected(kind.expected()));
            None
        }
    }
}

fn ca(map: &RawMap, problems: &mut Problems) -> Option<PathBuf> {
    let (field, path) = (map.field("ca")?, map.text("ca")?);
    // In memory it has no effect, so that a variable can choose between the two.
    let servers = map.store_url("url").map(StoreUrl::servers).unwrap_or_default();
    if !servers.is_empty() && !servers.iter().any(RedisUrl::is_tls) {
        let scheme = match servers[0].address {
            RedisAddress::Sentinel { .. } => "rediss+sentinel://",
            RedisAddress::Cluster { .. } => "rediss+cluster://",
            _ => "rediss://",
        };
        let message = format!("`ca` is given, and the store's URL does not begin with `{scheme}`");
        let help = format!("write `{scheme}` for a connection with TLS, or remove `ca`");
        let fault = Fault::new(message).help(help);
        problems.add(field.key_span, fault);
        return None;
    }
    Some(path.into())
}
