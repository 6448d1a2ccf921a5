//! What a failed call means: whether it can have run, and what to do about it.

use tollkeeper_core::StoreError;

use crate::driver::{Fault, Refusal};

/// What a user must be granted.
const GRANT: &str = "let the user run our scripts on our keys: ACL SETUSER … ~rl:* +@read +@write \
                     +@scripting +@connection +info +time, with `store.prefix` for rl, and \
                     +cluster|slots +cluster|info on a cluster";

/// Refusals that are made before a script begins, and what to do about them.
const REFUSALS: [(&str, &str); 14] = [
    ("NOAUTH", "put the password into `store.url`: redis://:PASSWORD@HOST"),
    ("WRONGPASS", "check the user and the password in `store.url`"),
    ("called without any password", "remove the password from `store.url`"),
    ("DB index is out of range", "check the database in `store.url`"),
    ("NOPERM", GRANT),
    ("DENIED", "give the server a password, and put it into `store.url`"),
    ("max number of clients", "raise the server's `maxclients`"),
    ("OOM", "the server is full: raise its `maxmemory`"),
    (
        "READONLY",
        "the server is a replica: let `store.url` name the one that takes writes, or its sentinels",
    ),
    ("LOADING", "the server is still reading its data"),
    ("MASTERDOWN", "the server is a replica that has lost its master"),
    ("MISCONF", "the server cannot save its data and so takes no writes"),
    (
        "NOREPLICAS",
        "the server has fewer replicas than its `min-replicas-to-write` and so takes no writes",
    ),
    ("NOSCRIPT", "the server has forgotten a script between two calls"),
];

/// Further refusals that are made before a script begins.
const MOVES: [&str; 5] = ["MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT"];

/// Refusals of what a script does on the user's behalf; something may have been done before.
const HALFWAY: [&str; 2] = ["ACL failure in script", "The user executing the script"];

/// What the server says of a value that is not ours: of another type, or of a form that a script does
/// not write, which then asks for it as if it were of another type.
const FOREIGN: &str = "WRONGTYPE";

/// What is told of a call to the server at `place` that failed.
pub(crate) fn store_error(place: &str, fault: &Fault) -> StoreError {
    match fault {
        Fault::Unconnected { text } => StoreError::unreached(format!("cannot use {place}: {text}")),
        Fault::TurnedAway(refusal) => {
            StoreError::unreached(format!("cannot use {place}: {}", advised(refusal)))
        }
        Fault::Broken { text } => {
            StoreError::may_have_run(format!("lost the connection to {place}: {text}"))
        }
        Fault::Refused(refusal) => refused(place, refusal),
    }
}

/// The same, and whose key it may be, where it is about a key. Whoever looks for it in the server finds
/// the limit's name in the key's; whom it counts is nobody's business.
pub(crate) fn of_limits<'a>(
    error: StoreError,
    limits: impl Iterator<Item = &'a str>,
) -> StoreError {
    if !error.is_of_state() {
        return error;
    }
    let names: Vec<String> = limits.map(|name| format!("`{name}`")).collect();
    StoreError::unusable_state(format!("{error}; it is of the limit {}", names.join(" or ")))
}

fn refused(place: &str, refusal: &Refusal) -> StoreError {
    if refusal.says(FOREIGN) {
        return StoreError::unusable_state(format!(
            "a key of ours on {place} holds a value that is not ours ({}); \
             delete it, or choose another `store.prefix`",
            refusal.text()
        ));
    }
    let message = format!("{place} refused the call: {}", advised(refusal));
    let is_early = REFUSALS.iter().map(|(code, _)| code).chain(&MOVES).any(|c| refusal.says(c));
    match is_early && !is_halfway(refusal) {
        true => StoreError::did_not_run(message),
        false => StoreError::may_have_run(message),
    }
}

fn is_halfway(refusal: &Refusal) -> bool {
    HALFWAY.iter().any(|words| refusal.says(words))
}

/// What the server said, and what to do about it.
fn advised(refusal: &Refusal) -> String {
    let text = refusal.text();
    let known = || REFUSALS.iter().find(|(code, _)| refusal.says(code)).map(|(_, advice)| *advice);
    match if is_halfway(refusal) { Some(GRANT) } else { known() } {
        Some(advice) => format!("{text} ({advice})"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::{About, Ran};

    use super::*;

    fn told(text: &str) -> StoreError {
        store_error("here:1", &Fault::refused(text))
    }

    #[test]
    fn what_surely_did_not_run_is_told_apart() {
        for (words, advice) in REFUSALS {
            // A code stands first, or in the text of what a script met.
            let is_code = !words.contains(' ');
            for before in if is_code { ["", "ERR in a script: "] } else { ["ERR "; 2] } {
                let error = told(&format!("{before}{words} said the server"));
                assert_eq!((error.ran(), error.is_of_state()), (Ran::No, false), "{error}");
                assert!(error.to_string().contains(advice), "{error}");
            }
        }
        assert_eq!(told("MOVED 1 there:2").ran(), Ran::No);
        assert_eq!(told("BUSY a script is running").ran(), Ran::Perhaps);
        assert_eq!(told("ERR no idea").ran(), Ran::Perhaps);
        let text = || "reset".to_owned();
        assert_eq!(store_error("here:1", &Fault::Broken { text: text() }).ran(), Ran::Perhaps);
        assert_eq!(store_error("here:1", &Fault::Unconnected { text: text() }).ran(), Ran::No);
    }

    #[test]
    fn what_closed_a_connection_befell_nobody_who_comes_later() {
        for text in ["ERR no idea", "BUSY a script is running", "READONLY", "NOAUTH"] {
            let error = store_error("here:1", &Fault::refused(text).unsent());
            assert_eq!(error.ran(), Ran::No, "{error}");
            assert!(error.to_string().starts_with(&format!("cannot use here:1: {text}")));
        }
        let broken = Fault::Broken { text: "reset".to_owned() };
        assert_eq!(store_error("here:1", &broken.unsent()).ran(), Ran::No);
    }

    #[test]
    fn a_script_that_may_not_go_on_may_have_begun() {
        for text in [
            "ERR The user executing the script can't run this command or subcommand script: 0",
            "ERR ACL failure in script: User alice has no permissions to run the 'time' command",
            "ERR Error running script (call to f_0): @user_script:1: @user_script: 1: \
             The user executing the script can't run this command or subcommand",
        ] {
            let error = told(text);
            assert_eq!(error.ran(), Ran::Perhaps, "{error}");
            assert!(error.to_string().contains("ACL SETUSER"), "{error}");
            assert!(!error.to_string().contains("alice"), "{error}");
        }
    }

    #[test]
    fn what_was_not_sent_tells_of_the_way_and_what_was_refused_of_the_server() {
        let about = |fault: &Fault| store_error("h:1", fault).about();
        let refused = Fault::refused("LOADING Redis is loading");
        let lost = Fault::Broken { text: "reset".to_owned() };
        assert_eq!([&refused, &lost].map(about), [About::Store; 2]);
        assert_eq!([refused, lost].map(|fault| about(&fault.unsent())), [About::Way; 2]);
    }

    #[test]
    fn a_value_that_is_not_ours_is_the_fault_of_a_key_and_not_of_the_server() {
        for text in [
            "WRONGTYPE Operation against a key",
            "ERR Error running script: WRONGTYPE Operation against a key",
        ] {
            let error = told(text);
            assert_eq!((error.ran(), error.is_of_state()), (Ran::No, true));
            assert!(error.to_string().contains("store.prefix"), "{error}");
        }
        assert!(!told("ERR attempt to perform arithmetic on local 'units'").is_of_state());
        let of_two = |text| of_limits(told(text), ["api", "day"].into_iter()).to_string();
        assert!(of_two("WRONGTYPE").ends_with("it is of the limit `api` or `day`"));
        assert!(!of_two("LOADING").contains("api"));
    }
}
