//! Several servers over which keys are spread: which may stand together.

use tollkeeper_core::MAX_SHARDS;

use super::{RedisAddress, RedisUrl, StoreUrl, StoreUrlError};

const EXPECTED: &str = "a server such as `redis://127.0.0.1:6379`";

/// An entry of a list that does not fit there.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Which one; none if it is the list itself.
    pub(crate) nth: Option<usize>,
    pub(crate) error: StoreUrlError,
}

/// Several servers as one store; one alone is itself.
pub(crate) fn join(urls: Vec<StoreUrl>) -> Result<StoreUrl, Misfit> {
    if urls.is_empty() || urls.len() > MAX_SHARDS {
        let problem = if urls.is_empty() { "is an empty list" } else { "is too long a list" };
        let error = refused(problem, format!("1 to {MAX_SHARDS} servers"), None);
        return Err(Misfit { nth: None, error });
    }
    let alone = urls.len() == 1;
    let mut shards: Vec<RedisUrl> = Vec::with_capacity(urls.len());
    for (nth, url) in urls.into_iter().enumerate() {
        let refused = |problem, help| {
            Err(Misfit { nth: Some(nth), error: refused(problem, EXPECTED.to_owned(), help) })
        };
        match url {
            StoreUrl::Memory => {
                return refused("is `memory://`, which cannot stand in a list", None);
            }
            url if alone => return Ok(url),
            StoreUrl::Shards(_) => return refused("is itself a list", None),
            StoreUrl::Redis(server) if !is_shard(&server) => {
                let help = "a cluster spreads keys by itself: name it alone";
                return refused("is a cluster, which cannot be one of several", Some(help));
            }
            StoreUrl::Redis(server) => {
                // By its place it is found again, and by its place keys are spread.
                if shards.iter().any(|known| known.place() == server.place()) {
                    let help = "name each server once, and each database of a server once";
                    return refused("names a server that the list has before", Some(help));
                }
                shards.push(server);
            }
        }
    }
    Ok(StoreUrl::Shards(shards))
}

/// Whether it holds all keys that are given to it.
fn is_shard(server: &RedisUrl) -> bool {
    !matches!(server.address, RedisAddress::Cluster { .. })
}

fn refused(problem: &'static str, expected: String, help: Option<&str>) -> StoreUrlError {
    let help = help.map(str::to_owned);
    StoreUrlError { problem: problem.to_owned(), unquoted: problem, expected, help }
}
