//! How many connections there is room for: as many as we say, or as the system lets us have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections at once; further ones wait until one ends.
const MAX_CONNECTIONS: usize = 10_000;

/// Files that are open beside them: the store's connections, the policy, what the runtime uses.
const OTHER_FILES: u64 = 100;

/// The places for connections that need `each` open files. Many systems give a process few open files at first and let it
/// have more, so it takes as many as it needs.
pub(crate) fn places(each: u64) -> usize {
    let needed = MAX_CONNECTIONS as u64 * each + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(has) = current else { return MAX_CONNECTIONS };
    let can_have = maximum.map_or(needed, |maximum| maximum.min(needed));
    if has >= can_have {
        return fit(has, each);
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(can_have), maximum });
    fit(if raised.is_ok() { can_have } else { has }, each)
}

/// The connections that fit into so many open files; at least one.
fn fit(files: u64, each: u64) -> usize {
    let left = usize::try_from(files.saturating_sub(OTHER_FILES) / each).unwrap_or(MAX_CONNECTIONS);
    left.clamp(1, MAX_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits() {
        for (files, places) in
            [(0, 1), (101, 1), (1024, 924), (10_100, 10_000), (u64::MAX, MAX_CONNECTIONS)]
        {
            assert_eq!(fit(files, 1), places, "{files}");
        }
        assert_eq!((fit(1_100, 2), fit(20_100, 2)), (500, 10_000));
    }
}
