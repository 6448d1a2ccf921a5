//! Checks that go to a real server together: exact, in few calls, and each with its own fate.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollkeeper_core::{Answer, Check, Quota, Rate, Request, Store, StoreError};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::RedisServer;
use tollkeeper_testkit::resp::Reply;

use crate::store;

const CALLERS: u64 = 64;

/// Nothing comes back while a test runs.
fn bucket(capacity: u64) -> Quota {
    Quota::token_bucket(capacity, Rate::new(1, 86_400_000_000).unwrap()).unwrap()
}

/// As many callers as there are keys ask once each, all at the same moment.
async fn ask_at_once(
    store: &Arc<RedisStore>,
    limits: &[(&'static str, Quota)],
    keys: impl Iterator<Item = String>,
) -> Vec<(String, Result<Answer, StoreError>)> {
    let mut asking = JoinSet::new();
    for key in keys {
        let (store, limits) = (Arc::clone(store), limits.to_vec());
        asking.spawn(async move {
            let check = |(limit, quota)| Check::new(limit, quota, &key, 1);
            let checks = limits.iter().map(|(limit, quota)| check((*limit, quota)));
            let request = Request::new(checks, None).unwrap();
            let answer = store.decide_one(&request).await;
            drop(request);
            (key, answer)
        });
    }
    asking.join_all().await
}

/// How many scripts the server has run by their hash.
pub(crate) fn scripts_run(server: &RedisServer) -> u64 {
    let Reply::Text(text) = server.command(&["INFO", "commandstats"]).unwrap() else { panic!() };
    let calls = text.split("cmdstat_evalsha:calls=").nth(1);
    calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

async fn start(
    program: impl AsRef<std::path::Path>,
    merge: bool,
) -> (RedisServer, Arc<RedisStore>) {
    let server = RedisServer::start(program, &[]).unwrap();
    let settings = Settings { merge, ..Settings::default() };
    let store = Arc::new(store::store_on(server.port(), settings).await);
    // The script is known from here on.
    let _ = ask_at_once(&store, &[("first", bucket(1))], ["k".to_owned()].into_iter()).await;
    (server, store)
}

#[tokio::test]
async fn callers_of_one_key_share_calls_and_are_admitted_exactly() {
    for program in peers::servers().unwrap() {
        for merge in [true, false] {
            let (server, store) = start(&program, merge).await;
            let before = scripts_run(&server);
            let (mut admitted, mut asked) = (0, 0);
            for _ in 0..20 {
                let keys = (0..CALLERS).map(|_| "hot".to_owned());
                for (_, answer) in ask_at_once(&store, &[("api", bucket(1000))], keys).await {
                    asked += 1;
                    admitted += u64::from(answer.unwrap().allowed);
                }
            }
            assert_eq!(admitted, 1000, "{program:?}, merge: {merge}");
            let calls = scripts_run(&server) - before;
            match merge {
                // In one thread all have asked before it has looked for answers more than twice.
                true => assert!(calls <= asked / CALLERS * 6, "{calls} calls for {asked} checks"),
                false => assert_eq!(calls, asked),
            }
        }
    }
}

/// The numbers that each is told are those of its own turn.
#[tokio::test]
async fn each_is_told_what_was_left_after_its_own_turn() {
    let (_server, store) = start("redis-server", true).await;
    let limits = [("narrow", bucket(40)), ("wide", bucket(1000))];
    let keys = (0..CALLERS).map(|_| "k".to_owned());
    let mut left = Vec::new();
    for (_, answer) in ask_at_once(&store, &limits, keys).await {
        let answer = answer.unwrap();
        let outcomes = answer.outcomes();
        match answer.allowed {
            true => left.push((outcomes[0].remaining, outcomes[1].remaining)),
            // What is denied by one limit is not charged to the other.
            false => assert_eq!((outcomes[0].remaining, outcomes[1].remaining), (0, 960)),
        }
    }
    left.sort_unstable();
    let expected: Vec<_> = (0..40).map(|nth| (nth, 960 + nth)).collect();
    assert_eq!(left, expected);
}

/// A value that somebody else has put under one of our names is the affair of that key alone, and
/// not of those that happen to go with it.
#[tokio::test]
async fn a_key_that_is_not_ours_fails_alone() {
    for program in peers::servers().unwrap().into_iter().chain(peers::oldest_redis()) {
        let (server, store) = start(&program, true).await;
        server.holds_others();
        server.command(&["SET", "rl:{bad}:api:tb", "not ours"]).unwrap();
        let keys =
            (0..CALLERS).map(|nth| if nth % 8 == 3 { "bad".to_owned() } else { format!("k{nth}") });
        for (key, answer) in ask_at_once(&store, &[("api", bucket(10))], keys).await {
            match (key.as_str(), answer) {
                ("bad", Err(error)) => {
                    assert!(error.is_of_state(), "{program:?}: {error}");
                    assert!(error.to_string().contains("WRONGTYPE"), "{error}");
                }
                ("bad", Ok(answer)) => panic!("{program:?}: {answer:?}"),
                (_, answer) => assert_eq!(answer.unwrap().outcomes()[0].remaining, 9),
            }
        }
    }
}
