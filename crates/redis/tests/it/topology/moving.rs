//! Slots that move from node to node while they are used.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tollkeeper_core::{Ran, Store};
use tollkeeper_redis::RedisStore;
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::peers;

use super::kit::*;
use crate::store::cluster_url;

#[tokio::test]
async fn a_slot_on_its_way_is_followed_step_by_step() {
    for program in peers::servers().unwrap() {
        let cluster = Cluster::of(program, 2, 0, CALM, |launch| launch).unwrap();
        let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
        let (key, slot) = key_in(&store, 0);
        let from = cluster.holder_as_told_by(0, slot).unwrap();
        let to = 1 - from;
        let count = |nth: usize| cluster.nodes[nth].server.command(&["DBSIZE"]).unwrap().integer();
        assert_eq!(used(&ask(&store, &key).await.unwrap()), 1);

        cluster.begin_move(slot, from, to).unwrap();
        // What is there stays there; what is new is made at the other, by ASKING.
        assert_eq!(used(&ask(&store, &key).await.unwrap()), 2);
        let fresh = ask_limits(&store, &key, &["fresh"]).await.unwrap();
        assert_eq!((used(&fresh), count(from), count(to)), (1, Some(1), Some(1)));
        // One here and one there: nobody can decide both, and nothing is charged.
        let error = ask_limits(&store, &key, &["api", "fresh"]).await.unwrap_err();
        assert_eq!(error.ran(), Ran::No, "{error}");
        assert!(error.to_string().contains("TRYAGAIN"), "{error}");

        cluster.move_keys(slot, from, to).unwrap();
        assert_eq!(used(&ask(&store, &key).await.unwrap()), 3);
        let both = ask_limits(&store, &key, &["api", "fresh"]).await.unwrap();
        assert_eq!((used(&both), both.outcomes()[1].remaining), (4, 999_998));
        // A script that the other node has forgotten, too.
        cluster.nodes[to].server.command(&["SCRIPT", "FLUSH"]).unwrap();
        assert_eq!(used(&ask(&store, &key).await.unwrap()), 5);

        let moved = errors(&cluster.nodes[from].server, "MOVED");
        cluster.end_move(slot, from, to).unwrap();
        for nth in 6..106 {
            assert_eq!(used(&ask(&store, &key).await.unwrap()), nth);
        }
        // The first is sent on, and the others go there at once.
        let told = errors(&cluster.nodes[from].server, "MOVED") - moved;
        assert!((1..=5).contains(&told), "{told}");
        assert_eq!(store.shard_name(store.part(&key).shard), place(&cluster, to));
    }
}

fn place(cluster: &Cluster, node: usize) -> String {
    format!("127.0.0.1:{}", cluster.nodes[node].server.port())
}

/// A key whose slot leaves a node: of its limits `a` has gone and `b` has not.
async fn half_moved() -> (Cluster, RedisStore, String, usize) {
    let cluster = Cluster::of("redis-server", 2, 0, CALM, |launch| launch).unwrap();
    let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
    let (key, slot) = key_in(&store, 0);
    let from = cluster.holder_as_told_by(0, slot).unwrap();
    ask_limits(&store, &key, &["a", "b"]).await.unwrap();
    cluster.begin_move(slot, from, 1 - from).unwrap();
    cluster.move_key(&format!("rl:{{{key}}}:a:fw"), from, 1 - from).unwrap();
    (cluster, store, key, from)
}

#[tokio::test]
async fn a_call_that_meets_keys_on_their_way_is_tried_again_for_a_little_while() {
    let (cluster, store, key, from) = half_moved().await;
    let name = |limit: &str| format!("rl:{{{key}}}:{limit}:fw");
    let tries = errors(&cluster.nodes[1 - from].server, "TRYAGAIN");
    ask_limits(&store, &key, &["a", "b"]).await.unwrap_err();
    let tries = errors(&cluster.nodes[1 - from].server, "TRYAGAIN")
        + errors(&cluster.nodes[from].server, "TRYAGAIN")
        - tries;
    assert!((2..=6).contains(&tries), "{tries}");
    // While it waits, the other key arrives.
    let (answered, moved) = tokio::join!(
        until("still on its way", async || ask_limits(&store, &key, &["a", "b"]).await.ok()),
        async { cluster.move_key(&name("b"), from, 1 - from) },
    );
    moved.unwrap();
    assert_eq!(used(&answered), 2);
}

/// Checks that went together were refused together, though each had its one key here or there.
#[tokio::test]
async fn checks_that_go_together_are_parted_while_their_keys_are() {
    let (cluster, store, key, from) = half_moved().await;
    let asks = (0..32).map(|nth| {
        let limit = if nth % 2 == 0 { "a" } else { "b" };
        let (store, key) = (&store, &key);
        async move { used(&ask_limits(store, key, &[limit]).await.unwrap()) }
    });
    let mut told = futures_util::future::join_all(asks).await;
    told.sort_unstable();
    let expected: Vec<_> = (2..18).flat_map(|used| [used, used]).collect();
    assert_eq!(told, expected);
    let parted = errors(&cluster.nodes[from].server, "TRYAGAIN")
        + errors(&cluster.nodes[1 - from].server, "TRYAGAIN");
    assert!(parted > 0, "they never went together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_as_a_whole_is_never_out_of_reach() {
    let cluster = Cluster::of(peers::valkey().unwrap(), 2, 0, CALM, |launch| launch).unwrap();
    let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
    let (key, slot) = key_in(&store, 0);
    let from = cluster.holder_as_told_by(0, slot).unwrap();
    let (mut count, ended) = (0, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let moved = scope.spawn(|| {
            let moved = cluster.migrate_whole(slot, from, 1 - from);
            ended.store(true, Ordering::SeqCst);
            moved
        });
        // One state is there and grows, others are made all the time.
        while !ended.load(Ordering::SeqCst) {
            count += 1;
            let fresh = format!("fresh-{count}");
            let limits = ["api", fresh.as_str()];
            let asked = ask_limits(&store, &key, &limits);
            let answer = tokio::task::block_in_place(|| Handle::current().block_on(asked));
            assert_eq!(used(&answer.unwrap()), count);
        }
        moved.join().unwrap().unwrap();
    });
    assert_eq!(used(&ask(&store, &key).await.unwrap()), count + 1);
    assert_eq!(store.shard_name(store.part(&key).shard), place(&cluster, 1 - from));
}

#[tokio::test]
async fn a_node_that_joins_is_found_and_one_that_leaves_is_left() {
    let mut cluster = Cluster::of("redis-server", 1, 0, CALM, |launch| launch).unwrap();
    let store = store_at(&cluster_url(&[cluster.nodes[0].server.port()])).await;
    let (key, slot) = key_in(&store, 0);
    assert_eq!(used(&ask(&store, &key).await.unwrap()), 1);
    let new = cluster.join().unwrap();
    assert_eq!(store.shards(), 1);
    cluster.migrate(slot, 0, new).unwrap();
    assert_eq!(used(&ask(&store, &key).await.unwrap()), 2);
    until("it has no number", async || (store.shards() == 2).then_some(())).await;
    assert_eq!((store.part(&key).shard, store.shard_name(1)), (1, place(&cluster, new)));
    assert!(clients(&cluster.nodes[new].server) > 0);

    cluster.migrate(slot, new, 0).unwrap();
    assert_eq!(used(&ask(&store, &key).await.unwrap()), 3);
    cluster.forget(new).unwrap();
    until("it is still connected to", async || {
        (clients(&cluster.nodes[new].server) == 0).then_some(())
    })
    .await;
    assert_eq!((store.shards(), store.part(&key).shard), (2, 0));
    assert_eq!(used(&ask(&store, &key).await.unwrap()), 4);
}
