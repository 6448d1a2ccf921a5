//! Users who may do more or less.

use tollkeeper_core::{
    Amendment, Change, Check, Consistency, Filter, LeakMode, Lend, Quota, Ran, Rate, Request,
    Store, Ticket,
};
use tollkeeper_redis::RedisStore;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use super::kit::*;
use crate::store::RIGHTS;

/// What the advice says that a user needs.
const GRANTED: &str = "~rl:* +@read +@write +@scripting +@connection +info +time";

async fn with_rules(program: &std::path::Path, rules: &str) -> (RedisServer, RedisStore) {
    let server = Launch::new(program).user(USER, PASSWORD, rules).start().unwrap();
    let url = url_as(server.port(), Some(USER), Some(PASSWORD));
    let store = store_on(&url, patient()).await;
    (server, store)
}

fn quotas() -> Vec<Quota> {
    let rate = Rate::new(7, 13_000_000).unwrap();
    vec![
        Quota::token_bucket(10, rate).unwrap(),
        Quota::gcra(10, rate).unwrap(),
        Quota::leaking_bucket(10, rate, LeakMode::Shape, None).unwrap(),
        Quota::fixed_window(10, 60_000_000).unwrap(),
        Quota::sliding_window_log(10, 60_000_000).unwrap(),
        Quota::sliding_window_counter(10, 60_000_000).unwrap(),
        Quota::concurrency(10, 60_000_000).unwrap(),
    ]
}

#[tokio::test]
async fn what_the_advice_grants_is_enough_for_everything() {
    does_everything(GRANTED).await;
}

#[tokio::test]
async fn the_commands_that_the_manual_names_are_enough_for_everything() {
    does_everything(RIGHTS).await;
}

async fn does_everything(rules: &str) {
    let programs = peers::servers().unwrap().into_iter().chain([peers::oldest_redis().unwrap()]);
    for program in programs {
        let (_server, store) = with_rules(&program, rules).await;
        let quotas = quotas();
        let checks: Vec<Check<'_>> =
            quotas.iter().map(|quota| Check::new("api", quota, "alice", 2)).collect();
        let held = Some(Ticket { id: 7, reserve_for_us: None });
        for check in &checks {
            let ticket = Some(Ticket { id: 7, reserve_for_us: Some(1_000_000) });
            let request = Request::new([*check], ticket).or_else(|_| Request::new([*check], held));
            store.decide(&[request.unwrap()]).await.remove(0).unwrap();
        }
        // All at once, where something is there already.
        let held = Some(Ticket { id: 8, reserve_for_us: None });
        let request = Request::new(checks.iter().copied(), held).unwrap();
        assert!(store.decide(&[request]).await.remove(0).unwrap().allowed);
        for check in &checks {
            amend_every_way(&store, check.quota).await;
        }
        ask_soon(&store).await.unwrap();
        let everything = Filter::default();
        assert!(!store.inspect(everything, 100).await.unwrap().is_empty());
        assert!(store.reset(everything).await.unwrap() > 0);
    }
}

async fn amend_every_way(store: &RedisStore, quota: &Quota) {
    let (back, period_us) = (Default::default(), 1_000_000);
    let lend = Lend { most: 1, least: 1, most_out: 1, period_us, back };
    let changes = [
        Change::Settle { id: 7, actual: 1 },
        Change::Refund { units: 1, charged_at_us: None },
        Change::Draw { most: 1, least: 1 },
        Change::Lend(lend),
        Change::Renew { id: 7 },
        Change::Release { id: 7 },
    ];
    for change in changes {
        let consistency = Consistency::Exact;
        let amendment = Amendment { limit: "api", quota, key: "alice", change, consistency };
        if let Err(error) = store.amend(&[amendment]).await.remove(0) {
            panic!("{change:?} of {quota:?}: {error}");
        }
    }
}

#[tokio::test]
async fn who_may_not_look_at_the_server_may_still_decide() {
    for program in peers::servers().unwrap() {
        let (_server, store) = with_rules(&program, "~rl:* +@all -info -ping -client").await;
        ask_soon(&store).await.unwrap();
        // A doubt is answered by a refusal, and that is an answer.
        ask_soon(&store).await.unwrap();
    }
}

#[tokio::test]
async fn who_may_not_run_scripts_is_told_what_to_grant() {
    for program in peers::servers().unwrap() {
        for rules in ["~rl:* +@all -evalsha", "~rl:* +@all -@scripting", "~other:* +@all"] {
            let (_server, store) = with_rules(&program, rules).await;
            let error = ask_soon(&store).await.unwrap_err();
            let words = ["127.0.0.1:", "NOPERM", "permissions", "ACL SETUSER", GRANTED];
            check_told(&error, Ran::No, &words);
        }
    }
}

#[tokio::test]
async fn a_script_that_may_not_do_everything_may_have_begun() {
    let programs = peers::servers().unwrap().into_iter().chain([peers::oldest_redis().unwrap()]);
    for program in programs {
        let (server, store) = with_rules(&program, "~rl:* +@all -time").await;
        let error = ask_soon(&store).await.unwrap_err();
        check_told(&error, Ran::Perhaps, &["127.0.0.1:", "ACL SETUSER", GRANTED]);
        assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(0));
    }
}

/// Scripts are not undone when they fail: who may write but not limit the life of a key would
/// leave keys for ever. Such a user is refused before anything is written.
#[tokio::test]
async fn a_user_who_may_not_limit_the_life_of_keys_is_refused_before_anything_is_written() {
    let programs = peers::servers().unwrap().into_iter().chain([peers::oldest_redis().unwrap()]);
    for program in programs {
        for rules in ["~rl:* +@all -pexpireat", "~rl:* +@all -@write"] {
            let server = Launch::new(&program).user(USER, PASSWORD, rules).start().unwrap();
            let url = url_as(server.port(), Some(USER), Some(PASSWORD));
            let error = RedisStore::connect(&url, patient()).await.unwrap_err();
            check_told(&error, Ran::No, &["127.0.0.1:", "pexpireat", "ACL SETUSER", GRANTED]);
            assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(0));
        }
    }
}
