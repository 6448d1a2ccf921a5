//! What a failed call means: whether it can have run, and what to do about it.

use tollkeeper_core::StoreError;

use crate::driver::Fault;

/// Refusals that are made before a script begins, and what to do about them.
const REFUSALS: [(&str, &str); 9] = [
    ("NOAUTH", "put the password into `store.url`: redis://:PASSWORD@HOST"),
    ("WRONGPASS", "check the user and the password in `store.url`"),
    ("NOPERM", "let the user run scripts on our keys: ACL SETUSER … ~rl:* +@all"),
    ("OOM", "the server is full: raise its `maxmemory`"),
    ("READONLY", "the server is a replica: let `store.url` name the one that takes writes"),
    ("LOADING", "the server is still reading its data"),
    ("MASTERDOWN", "the server is a replica that has lost its master"),
    ("MISCONF", "the server cannot save its data and so takes no writes"),
    ("NOSCRIPT", "the server has forgotten a script between two calls"),
];

/// Further refusals that are made before a script begins.
const MOVES: [&str; 4] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"];

/// What is told of a call to the server at `place` that failed.
pub(crate) fn store_error(place: &str, fault: &Fault) -> StoreError {
    let text = match fault {
        Fault::Unconnected { text } => {
            return StoreError::did_not_run(format!("cannot use {place}: {text}"));
        }
        Fault::Broken { text } => {
            let message = format!("lost the connection to {place}: {text}");
            return StoreError::may_have_run(message);
        }
        Fault::Refused { text, .. } => text,
    };
    if fault.says("WRONGTYPE") {
        return StoreError::unusable_state(format!(
            "a key of ours on {place} holds a value that is not ours ({text}); \
             delete it, or choose another `store.prefix`"
        ));
    }
    if let Some((_, advice)) = REFUSALS.iter().find(|(code, _)| fault.says(code)) {
        return StoreError::did_not_run(format!("{place} refused the call: {text} ({advice})"));
    }
    let message = format!("{place} refused the call: {text}");
    match MOVES.iter().any(|code| fault.says(code)) {
        true => StoreError::did_not_run(message),
        false => StoreError::may_have_run(message),
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::Ran;

    use super::*;

    #[test]
    fn what_surely_did_not_run_is_told_apart() {
        let refused = |text: &str| store_error("here:1", &Fault::refused(text));
        for (code, _) in REFUSALS {
            let error = refused(&format!("{code} said the server"));
            assert_eq!((error.ran(), error.is_of_state()), (Ran::No, false), "{error}");
        }
        assert_eq!(refused("MOVED 1 there:2").ran(), Ran::No);
        assert_eq!(refused("BUSY a script is running").ran(), Ran::Perhaps);
        assert_eq!(refused("ERR no idea").ran(), Ran::Perhaps);
        let text = || "reset".to_owned();
        assert_eq!(store_error("here:1", &Fault::Broken { text: text() }).ran(), Ran::Perhaps);
        assert_eq!(store_error("here:1", &Fault::Unconnected { text: text() }).ran(), Ran::No);
    }

    #[test]
    fn a_value_that_is_not_ours_is_the_fault_of_a_key_and_not_of_the_server() {
        let error = store_error("here:1", &Fault::refused("WRONGTYPE Operation against a key"));
        assert_eq!((error.ran(), error.is_of_state()), (Ran::No, true));
        assert!(error.to_string().contains("store.prefix"), "{error}");
    }
}
