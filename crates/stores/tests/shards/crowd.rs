//! 64 callers on limits on two servers, by the servers' own clocks.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tollkeeper_core::{Check, LeakMode, Quota, Rate, Request, Store, Ticket};
use tollkeeper_engine::Whole;
use tollkeeper_redis::{Settings, Shards};

use crate::{servers, urls};

const CALLERS: u64 = 64;
const EACH: u64 = 8;
const WIDE: u64 = 1000;
const NARROW: u64 = 150;
const LONG_US: u64 = 400 * 86_400_000_000;

fn quotas(limit: u64) -> Vec<Quota> {
    let rate = Rate::new(1, 86_400_000_000).unwrap();
    vec![
        Quota::token_bucket(limit, rate).unwrap(),
        Quota::gcra(limit, rate).unwrap(),
        Quota::leaking_bucket(limit, rate, LeakMode::Shape, None).unwrap(),
        Quota::fixed_window(limit, LONG_US).unwrap(),
        Quota::sliding_window_log(limit, LONG_US).unwrap(),
        Quota::sliding_window_counter(limit, LONG_US).unwrap(),
        Quota::concurrency(limit, LONG_US).unwrap(),
    ]
}

async fn ask(
    store: &Whole<Shards>,
    quotas: &[Quota; 2],
    keys: &[String; 2],
    cost: u64,
    id: u128,
) -> (bool, Vec<u64>) {
    let checks = quotas.iter().zip(keys);
    let checks = checks.map(|(quota, key)| Check::new("l", quota, key, cost));
    let ticket = Some(Ticket { id, reserve_for_us: None });
    let request = Request::new(checks, ticket).unwrap();
    let answer = store.decide(&[request]).await.remove(0).unwrap();
    (answer.allowed, answer.outcomes().iter().map(|outcome| outcome.remaining).collect())
}

async fn storm(store: &Arc<Whole<Shards>>, quotas: [Quota; 2], keys: [String; 2]) -> u64 {
    let gate = Arc::new(Barrier::new(64));
    let callers = (0..CALLERS).map(|caller| {
        let (store, gate) = (Arc::clone(store), Arc::clone(&gate));
        let (quotas, keys) = (quotas, keys.clone());
        tokio::spawn(async move {
            gate.wait().await;
            let mut admitted = 0;
            for id in caller * EACH..(caller + 1) * EACH {
                admitted += u64::from(ask(&store, &quotas, &keys, 1, id.into()).await.0);
            }
            admitted
        })
    });
    let callers: Vec<_> = callers.collect();
    let mut admitted = 0;
    for caller in callers {
        admitted += caller.await.unwrap();
    }
    admitted
}

#[test]
fn nobody_is_admitted_beyond_a_limit_and_no_charge_is_left_behind() {
    let servers = servers(2);
    Runtime::new().unwrap().block_on(async {
        let urls = urls(&servers);
        let opening = Shards::connect(&urls, |_| Settings::default());
        let store = Arc::new(Whole(opening.await.unwrap()));
        let on = |shard: usize, stem: String| {
            let mut keys = (0..).map(|nth| format!("{stem}-{nth}"));
            keys.find(|key| store.0.part(key).shard == shard).unwrap()
        };
        let narrow = quotas(NARROW).into_iter().cycle().skip(3);
        for (nth, (wide, narrow)) in quotas(WIDE).into_iter().zip(narrow).enumerate() {
            let told = format!("{} and {}", wide.algorithm(), narrow.algorithm());
            let (quotas, keys) =
                ([wide, narrow], [on(0, format!("w{nth}")), on(1, format!("n{nth}"))]);
            let admitted = storm(&store, quotas, keys.clone()).await;
            assert!(admitted <= NARROW, "{told}: {admitted}");
            assert!(admitted + CALLERS > NARROW, "{told}: {admitted}");
            let (_, left) = ask(&store, &quotas, &keys, 0, u128::MAX).await;
            assert_eq!(left, [WIDE - admitted, NARROW - admitted], "{told}");
        }
    });
    for server in &servers {
        assert_eq!(server.keys_without_ttl().unwrap(), Vec::<String>::new());
    }
}
