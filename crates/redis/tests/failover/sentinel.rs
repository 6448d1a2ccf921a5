//! Sentinels, and a master that goes.

use std::time::Duration;

use tollkeeper_testkit::moment::pass;
use tollkeeper_testkit::peers;
use tollkeeper_testkit::sentinels::Sentinels;

use crate::alone;
use crate::load::place_of;
use crate::report::Field;

/// How long until all is well after there is another master.
const SOON: Duration = Duration::from_secs(3);

/// More of what was written last than any failover loses here.
const LOST: Duration = Duration::from_secs(1);

fn keys() -> Vec<String> {
    (0..4).map(|nth| format!("key-{nth}")).collect()
}

fn begin(set: &Sentinels) -> Field {
    let ports: Vec<u16> = set.sentinels.iter().map(|sentinel| sentinel.port()).collect();
    Field::begin(&place_of("sentinel", &ports), &keys())
}

/// A master is killed; what was used up before stays used up.
#[test]
fn a_master_is_killed_and_its_replica_goes_on() {
    let _alone = alone();
    let mut set = Sentinels::start("redis-server").unwrap();
    let mut field = begin(&set);
    pass(Duration::from_millis(700));
    field.assert_well();
    set.servers[0].kill();
    let new = set.wait_for_another(0).unwrap();
    field.until_well(SOON);
    let outage = field.all.failed(|_| true);
    assert!(outage > 0, "nobody noticed");
    // The old one comes back, as a replica of the new one, and nobody minds.
    set.servers[0].restart().unwrap();
    field.assert_well();
    assert_eq!(set.master_of(0), Ok(new));
    let balance = field.end();
    balance.assert_charged_once();
    balance.assert_bounded(Some(LOST));
    // It was used up long before, and the replica had heard of it.
    balance.assert_exact("narrow");
}

/// All of them are gone, and come back with nothing.
#[test]
fn all_servers_and_sentinels_are_killed_and_restarted() {
    let _alone = alone();
    let mut set = Sentinels::start(peers::valkey().unwrap()).unwrap();
    let mut field = begin(&set);
    pass(Duration::from_millis(500));
    field.assert_well();
    set.servers.iter_mut().chain(&mut set.sentinels).for_each(|server| server.kill());
    field.phase();
    pass(Duration::from_millis(500));
    let outage = field.phase();
    for (name, counts) in &outage.counts {
        assert_eq!(counts.admitted + counts.denied, 0, "{name}: {counts:?}");
    }
    for server in set.servers.iter_mut().chain(&mut set.sentinels) {
        server.restart().unwrap();
    }
    field.until_well(Duration::from_secs(10));
    let balance = field.end();
    balance.assert_charged_once();
    balance.assert_bounded(Some(LOST));
}
