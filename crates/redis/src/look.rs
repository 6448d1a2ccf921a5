//! What operators ask: which keys of ours there are, what they hold, and to forget them. By SCAN,
//! never KEYS, which would hold up everybody else.

use std::collections::HashMap;

use tollkeeper_core::{Algorithm, Entry, Filter, State};

use crate::connections::Connections;
use crate::decode;
use crate::driver::{Command, Driver, Fault, Reply};
use crate::names::{self, parse};

/// Keys that one step of a scan asks for.
const SCAN_COUNT: &str = "500";

/// Forgets the states that `filter` means, and their reservations; how many states there were.
pub(crate) async fn reset<D: Driver>(
    connections: &Connections<D>,
    prefix: &str,
    filter: Filter<'_>,
) -> Result<u64, Fault> {
    let mut states = 0;
    for name in scan(connections, prefix).await? {
        let Some(parsed) = parse(prefix, &name) else { continue };
        if filter.matches(&parsed.limit, &parsed.key) {
            let gone = connections.call(&Command::new("UNLINK").arg(&name)).await?;
            states += u64::from(!parsed.record && gone.whole() == Some(1));
        }
    }
    Ok(states)
}

/// Shows at most `most` of the states that `filter` means.
pub(crate) async fn inspect<D: Driver>(
    connections: &Connections<D>,
    prefix: &str,
    filter: Filter<'_>,
    most: usize,
) -> Result<Vec<Entry>, Fault> {
    let mut shown = Vec::new();
    for name in scan(connections, prefix).await? {
        if shown.len() == most {
            break;
        }
        let Some(parsed) = parse(prefix, &name) else { continue };
        if parsed.record || !filter.matches(&parsed.limit, &parsed.key) {
            continue;
        }
        let ttl = connections.call(&Command::new("PTTL").arg(&name)).await?;
        let ttl_ms = ttl.whole().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let Some(state) = read(connections, parsed.algorithm, &name).await? else { continue };
        shown.push(Entry {
            limit: parsed.limit,
            algorithm: parsed.algorithm,
            key: parsed.key,
            state,
            ttl_us: ttl_ms.saturating_mul(1000),
        });
    }
    Ok(shown)
}

/// Every key of ours, sorted.
async fn scan<D: Driver>(connections: &Connections<D>, prefix: &str) -> Result<Vec<String>, Fault> {
    let unreadable = || Fault::Broken { text: "the reply to SCAN cannot be read".to_owned() };
    let pattern = names::pattern(prefix);
    let mut cursor = "0".to_owned();
    let mut found = Vec::new();
    loop {
        let step = Command::new("SCAN").arg(&cursor);
        let step = step.arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
        let reply = connections.call(&step).await?;
        let Some([next, keys]) = reply.list() else { return Err(unreadable()) };
        // A key that is no text is none of ours.
        let keys = keys.list().ok_or_else(unreadable)?;
        found.extend(keys.iter().filter_map(|key| key.text().map(str::to_owned)));
        cursor = next.text().ok_or_else(unreadable)?.to_owned();
        if cursor == "0" {
            found.sort_unstable();
            // One key may come twice, as SCAN has it.
            found.dedup();
            return Ok(found);
        }
    }
}

/// What a key holds; none if it is gone by now, or not what it should be.
async fn read<D: Driver>(
    connections: &Connections<D>,
    algorithm: Algorithm,
    name: &str,
) -> Result<Option<State>, Fault> {
    let command = match algorithm {
        Algorithm::SlidingWindowLog => Command::new("LRANGE").arg(name).arg("0").arg("-1"),
        Algorithm::Concurrency => {
            Command::new("ZRANGE").arg(name).arg("0").arg("-1").arg("WITHSCORES")
        }
        _ => Command::new("HGETALL").arg(name),
    };
    let reply = match connections.call(&command).await {
        Err(fault) if fault.says("WRONGTYPE") => return Ok(None),
        replied => replied?,
    };
    Ok(match algorithm {
        Algorithm::SlidingWindowLog => reply.wholes().and_then(|times| decode::list(&times)),
        Algorithm::Concurrency => scored(&reply).and_then(|members| decode::sorted_set(&members)),
        _ => reply.texts().and_then(|texts| decode::hash(algorithm, &paired(&texts))),
    })
}

fn paired(texts: &[String]) -> HashMap<String, String> {
    texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn scored(reply: &Reply) -> Option<Vec<(String, f64)>> {
    let texts = reply.texts()?;
    texts.chunks_exact(2).map(|pair| Some((pair[0].clone(), pair[1].parse().ok()?))).collect()
}
