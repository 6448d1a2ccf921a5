//! A cluster, and nodes that go, freeze, and hand over slots.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollkeeper_core::Store;
use tollkeeper_redis::{RedisStore, Settings};
use tollkeeper_testkit::cluster::Cluster;
use tollkeeper_testkit::moment::pass;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::redis_server::Launch;

use crate::alone;
use crate::load::{DEADLINE, place_of, url_of};
use crate::report::Field;

/// How long until all is well after another node holds the slots.
const SOON: Duration = Duration::from_secs(3);

/// How long a node may be silent where another is to take over, and where none is.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);
const CALM: Duration = Duration::from_secs(10);

/// More of what was written last than any failover loses here.
const LOST: Duration = Duration::from_secs(1);

/// Keys of each node.
const EACH: usize = 2;

/// A cluster under load. While a node is down the others go on.
struct Scene {
    cluster: Cluster,
    field: Field,
    /// The slot of each key, and which node holds it at first.
    keys: BTreeMap<String, (u16, usize)>,
}

impl Scene {
    fn new(program: impl AsRef<Path>, replicas: usize) -> Self {
        let partial = |launch: Launch| launch.args(&["--cluster-require-full-coverage", "no"]);
        let timeout = if replicas > 0 { NODE_TIMEOUT } else { CALM };
        let cluster = Cluster::of(program, 3, replicas, timeout, partial).unwrap();
        let ports: Vec<u16> = cluster.nodes.iter().map(|node| node.server.port()).collect();
        let place = place_of("cluster", &ports[..2]);
        let keys = keys(&cluster, &place);
        let names: Vec<String> = keys.keys().cloned().collect();
        let mut field = Field::begin(&place, &names);
        pass(Duration::from_millis(700));
        field.assert_well();
        Self { cluster, field, keys }
    }

    /// Whether a key was held by a node at first.
    fn is_of(&self, key: &str, node: usize) -> bool {
        self.keys[key].1 == node
    }

    /// A slot with keys of a node.
    fn slot_of(&self, node: usize) -> u16 {
        self.keys.values().find(|(_, held)| *held == node).unwrap().0
    }

    /// Since the last phase only keys of `node` have failed, and they have.
    fn assert_only_failed(&mut self, node: usize) {
        let phase = self.field.phase();
        let others = phase.failed(|key| !self.is_of(key, node));
        assert_eq!(others, 0, "keys of other nodes failed too: {phase}");
        assert!(phase.failed(|key| self.is_of(key, node)) > 0, "nobody noticed: {phase}");
    }
}

/// Some keys of each node.
fn keys(cluster: &Cluster, place: &str) -> BTreeMap<String, (u16, usize)> {
    let slot_of = {
        let runtime = Runtime::new().unwrap();
        let store =
            runtime.block_on(RedisStore::connect(&url_of(place), Settings::default())).unwrap();
        move |key: &str| store.part(key).slot
    };
    let mut keys = BTreeMap::new();
    for nth in 0.. {
        let key = format!("key-{nth}");
        let slot = slot_of(&key);
        let node = cluster.holder_as_told_by(0, slot).unwrap();
        if keys.values().filter(|(_, held)| *held == node).count() < EACH {
            keys.insert(key, (slot, node));
        }
        if keys.len() == 3 * EACH {
            break;
        }
    }
    keys
}

#[test]
fn a_master_is_killed_and_its_replica_goes_on() {
    let _alone = alone();
    let mut scene = Scene::new("redis-server", 1);
    let slot = scene.slot_of(1);
    scene.cluster.nodes[1].server.kill();
    scene.cluster.wait_for_another(0, slot, 1).unwrap();
    scene.assert_only_failed(1);
    scene.field.until_well(SOON);
    // It comes back as a replica, and nobody minds.
    scene.cluster.nodes[1].server.restart().unwrap();
    scene.cluster.wait_until_ready().unwrap();
    scene.field.assert_well();
    let keys = scene.keys;
    let balance = scene.field.end();
    balance.assert_charged_once();
    balance.assert_kept(|key| keys[key].1 != 1);
    balance.assert_bounded(Some(LOST));
    // It was used up long before, and the replica had heard of it.
    balance.assert_exact("narrow");
}

#[test]
fn a_master_freezes_and_its_replica_goes_on() {
    let _alone = alone();
    let mut scene = Scene::new(peers::valkey().unwrap(), 1);
    let slot = scene.slot_of(2);
    scene.cluster.nodes[2].server.stop().unwrap();
    scene.cluster.wait_for_another(0, slot, 2).unwrap();
    scene.assert_only_failed(2);
    scene.field.until_well(SOON);
    // What it finds waiting when it thaws is of no more use to anybody.
    scene.cluster.nodes[2].server.cont().unwrap();
    scene.cluster.wait_until_ready().unwrap();
    scene.field.assert_well();
    let keys = scene.keys;
    let balance = scene.field.end();
    balance.assert_charged_once();
    balance.assert_kept(|key| keys[key].1 != 2);
    balance.assert_bounded(Some(LOST));
    balance.assert_exact("narrow");
}

#[test]
fn a_slot_moves_back_and_forth_and_nobody_notices() {
    for program in peers::servers().unwrap() {
        let _alone = alone();
        let mut scene = Scene::new(program, 0);
        let slot = scene.slot_of(0);
        // At least ten times, and until its keys are used up under way.
        for round in 0.. {
            scene.cluster.migrate(slot, 0, 1).unwrap();
            pass(Duration::from_millis(20));
            scene.cluster.migrate(slot, 1, 2).unwrap();
            scene.cluster.nodes[0].server.command(&["SCRIPT", "FLUSH"]).unwrap();
            scene.cluster.migrate(slot, 2, 0).unwrap();
            pass(Duration::from_millis(20));
            scene.field.phase();
            let mut middle = scene.field.all.each().filter(|(limit, ..)| *limit == "middle");
            let is_used_up = middle.all(|(.., counts)| counts.denied > 0);
            if round >= 10 && is_used_up {
                break;
            }
            assert!(round < 500, "{}", scene.field.all);
        }
        let balance = scene.field.end();
        assert_eq!(balance.all.failed(|_| true), 0, "{}", balance.all);
        balance.assert_charged_once();
        balance.assert_kept(|_| true);
        balance.assert_bounded(None);
        balance.assert_exact("narrow");
        balance.assert_exact("middle");
    }
}

#[test]
fn all_nodes_are_killed_and_restarted() {
    let _alone = alone();
    let mut scene = Scene::new("redis-server", 0);
    scene.cluster.nodes.iter_mut().for_each(|node| node.server.kill());
    // Answers that came before may not have been heard yet.
    pass(DEADLINE);
    scene.field.phase();
    pass(Duration::from_millis(500));
    let outage = scene.field.phase();
    for (name, counts) in &outage.counts {
        assert_eq!(counts.admitted + counts.denied, 0, "{name}: {counts:?}");
    }
    for node in &mut scene.cluster.nodes {
        node.server.restart().unwrap();
    }
    scene.field.until_well(Duration::from_secs(10));
    let balance = scene.field.end();
    balance.assert_charged_once();
    balance.assert_bounded(Some(LOST));
}
