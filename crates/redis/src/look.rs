//! What operators ask: which keys of ours there are, what they hold, and to forget them. By SCAN,
//! never KEYS, which would hold up everybody else.

use tollkeeper_core::{Algorithm, Entry, Filter, State};

use crate::decode;
use crate::driver::{Command, Fault, Reply};
use crate::names::{self, parse};
use crate::topology::{Topology, Way};

/// Keys that one step of a scan asks for.
const SCAN_COUNT: &str = "500";

/// Forgets the states that `filter` means, and their reservations; how many states there were.
pub(crate) async fn reset(
    topology: &Topology,
    prefix: &str,
    filter: Filter<'_>,
) -> Result<u64, Fault> {
    let mut states = 0;
    let mut lost = None;
    // A server that is away, or refuses, does not keep the others from forgetting.
    for way in topology.all()? {
        let names = match scan(&way, prefix).await {
            Ok(names) => names,
            Err(fault) => {
                lost = Some(fault);
                continue;
            }
        };
        for name in names {
            let Some(parsed) = parse(prefix, &name) else { continue };
            if filter.matches(&parsed.limit, &parsed.key) {
                let unlink = Command::new("UNLINK").arg(&name);
                match topology.holder(&name).call(&unlink).await {
                    Ok(gone) => states += u64::from(!parsed.record && gone.whole() == Some(1)),
                    Err(fault) => {
                        lost = Some(fault);
                        break;
                    }
                }
            }
        }
    }
    lost.map_or(Ok(states), Err)
}

/// Shows at most `most` of the states that `filter` means.
pub(crate) async fn inspect(
    topology: &Topology,
    prefix: &str,
    filter: Filter<'_>,
    most: usize,
) -> Result<Vec<Entry>, Fault> {
    let mut names = Vec::new();
    for way in topology.all()? {
        names.extend(scan(&way, prefix).await?);
    }
    names.sort_unstable();
    // One key may come twice, as SCAN has it, and while it moves from server to server.
    names.dedup();
    let mut shown = Vec::new();
    for name in names {
        if shown.len() == most {
            break;
        }
        let Some(parsed) = parse(prefix, &name) else { continue };
        if parsed.record || !filter.matches(&parsed.limit, &parsed.key) {
            continue;
        }
        let way = topology.holder(&name);
        let ttl = way.call(&Command::new("PTTL").arg(&name)).await?;
        let ttl_ms = ttl.whole().and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        let Some(state) = read(&way, parsed.algorithm, &name).await? else { continue };
        let lent = lent(&way, &names::loans_key(&name)).await?;
        shown.push(Entry {
            limit: parsed.limit,
            algorithm: parsed.algorithm,
            key: parsed.key,
            state,
            lent,
            ttl_us: ttl_ms.saturating_mul(1000),
        });
    }
    Ok(shown)
}

/// Every key of ours on a server.
async fn scan(way: &Way<'_>, prefix: &str) -> Result<Vec<String>, Fault> {
    let unreadable = || Fault::Broken { text: "the reply to SCAN cannot be read".to_owned() };
    let pattern = names::pattern(prefix);
    let mut cursor = "0".to_owned();
    let mut found = Vec::new();
    loop {
        let step = Command::new("SCAN").arg(&cursor);
        let step = step.arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
        let reply = way.call(&step).await?;
        let Some([next, keys]) = reply.list() else { return Err(unreadable()) };
        // A key that is no text is none of ours.
        let keys = keys.list().ok_or_else(unreadable)?;
        found.extend(keys.iter().filter_map(|key| key.text().map(str::to_owned)));
        cursor = next.text().ok_or_else(unreadable)?.to_owned();
        if cursor == "0" {
            return Ok(found);
        }
    }
}

/// How many units of a state are out.
async fn lent(way: &Way<'_>, name: &str) -> Result<u64, Fault> {
    match way.call(&Command::new("GET").arg(name)).await {
        Err(fault) if fault.says("WRONGTYPE") => Ok(0),
        replied => Ok(replied?.bytes().and_then(decode::lent).unwrap_or(0)),
    }
}

/// What a key holds; none if it is gone by now, or not what it should be.
async fn read(way: &Way<'_>, algorithm: Algorithm, name: &str) -> Result<Option<State>, Fault> {
    let command = match algorithm {
        Algorithm::SlidingWindowLog => Command::new("LRANGE").arg(name).arg("0").arg("-1"),
        Algorithm::Concurrency => {
            Command::new("ZRANGE").arg(name).arg("0").arg("-1").arg("WITHSCORES")
        }
        _ => Command::new("GET").arg(name),
    };
    let reply = match way.call(&command).await {
        Err(fault) if fault.says("WRONGTYPE") => return Ok(None),
        replied => replied?,
    };
    Ok(match algorithm {
        Algorithm::SlidingWindowLog => reply.list().and_then(decode::list),
        Algorithm::Concurrency => scored(&reply).and_then(|members| decode::sorted_set(&members)),
        _ => reply.bytes().and_then(|bytes| decode::packed(algorithm, bytes)),
    })
}

fn scored(reply: &Reply) -> Option<Vec<(String, f64)>> {
    let texts = reply.texts()?;
    texts.chunks_exact(2).map(|pair| Some((pair[0].clone(), pair[1].parse().ok()?))).collect()
}
