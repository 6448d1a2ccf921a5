//! Starts several servers at a time.

use std::thread;

/// What all of `begin` return, in order; or why one of them could not.
pub(crate) fn all<T: Send>(
    begin: impl IntoIterator<Item = impl FnOnce() -> Result<T, String> + Send>,
) -> Result<Vec<T>, String> {
    thread::scope(|scope| {
        let begun: Vec<_> = begin.into_iter().map(|begin| scope.spawn(begin)).collect();
        let ended = begun.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|_| Err("a thread has failed".to_owned()))).collect()
    })
}
