//! A limit that becomes slower, on a server with its own clock. A busy key lives longer than its state,
//! so the state is still there when it is as new.

use tollkeeper_core::{Answer, Check, LeakMode, Quota, Rate, Request, Store};
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::{Launch, RedisServer};

use crate::store;

const MINUTE_US: u64 = 60_000_000;

/// Limits of 10 that are as new after two minutes for two units, or for any, and the same by the day.
fn quick_and_slow() -> Vec<[Quota; 2]> {
    let [quick, slow] = [MINUTE_US, 1_440 * MINUTE_US];
    let rate = |us| Rate::new(1, us).unwrap();
    vec![
        [quick, slow].map(|us| Quota::token_bucket(10, rate(us)).unwrap()),
        [quick, slow].map(|us| Quota::gcra(10, rate(us)).unwrap()),
        [quick, slow].map(|us| Quota::leaking_bucket(10, rate(us), LeakMode::Meter, None).unwrap()),
        [2 * quick, slow].map(|us| Quota::sliding_window_log(10, us).unwrap()),
    ]
}

async fn ask(store: &RedisStore, quota: &Quota, cost: u64) -> Answer {
    let request = Request::new([Check::new("api", quota, "alice", cost)], None).unwrap();
    store.decide(&[request]).await.remove(0).unwrap()
}

/// Moves the server's clock to so many minutes from the real time.
fn move_clock(server: &RedisServer, minutes: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "a few minutes")]
    let offset_us = (minutes * 60e6) as i64;
    server.set_clock_offset_us(offset_us).unwrap();
}

/// It was read with the slower limit, which denied what nobody owed any more.
#[tokio::test]
async fn a_state_that_is_as_new_counts_for_nobody_though_its_key_lives_on() {
    for program in peers::servers().unwrap() {
        for [quick, slow] in quick_and_slow() {
            let server = Launch::new(&program).fake_time().start().unwrap();
            let store = store::store_on(server.port(), Settings::default()).await;
            let name = format!("rl:{{alice}}:api:{}", quick.algorithm().suffix());
            let is_there = || server.command(&["EXISTS", &name]).unwrap().integer() == Some(1);
            // The second time the key is busy: it is given half as much life again.
            for left in [9, 8] {
                assert_eq!(ask(&store, &quick, 1).await.outcomes()[0].remaining, left);
            }
            assert_eq!(ask(&store, &slow, 0).await.outcomes()[0].remaining, 8, "{quick:?}");
            move_clock(&server, 2.5);
            assert!(is_there(), "{name} is gone, and shows nothing");
            let seen = ask(&store, &slow, 10).await;
            assert!(seen.allowed, "{quick:?}: {:?}", seen.outcomes());
            assert!(!ask(&store, &slow, 1).await.allowed);
            assert!(is_there());
        }
    }
}

/// What a clock has run past is owed again when it steps back.
#[tokio::test]
async fn a_state_counts_again_after_a_clock_that_ran_ahead() {
    for program in peers::servers().unwrap() {
        for [quick, slow] in quick_and_slow() {
            let server = Launch::new(&program).fake_time().start().unwrap();
            let store = store::store_on(server.port(), Settings::default()).await;
            for _ in 0..2 {
                ask(&store, &quick, 1).await;
            }
            for (minutes, left) in [(2.5, 10), (0.5, 8), (2.5, 10)] {
                move_clock(&server, minutes);
                let seen = ask(&store, &slow, 0).await.outcomes()[0];
                assert_eq!(seen.remaining, left, "{quick:?} after {minutes} minutes");
            }
        }
    }
}
