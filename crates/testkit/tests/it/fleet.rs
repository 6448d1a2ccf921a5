//! The fleet simulator: it does what its scenarios say, and its judges find who cheats.

mod faults;
mod judges;
mod nodes;

use nodes::{AsksAlways, Cheats, Shares};
use tollkeeper_core::{Quota, Rate};
use tollkeeper_testkit::fleet::{Dated, Scenario, Spread, StoreSickness, run};

/// 1000 a second, 100 at once.
fn bucket() -> Quota {
    Quota::token_bucket(100, Rate::new(1_000, 1_000_000).unwrap()).unwrap()
}

fn window() -> Quota {
    Quota::fixed_window(500, 500_000).unwrap()
}

fn log() -> Quota {
    Quota::sliding_window_log(300, 300_000).unwrap()
}

#[test]
fn a_seed_gives_the_same_fleet() {
    for seed in 0..20 {
        let scenario = Scenario::random(seed, bucket());
        assert_eq!(scenario, Scenario::random(seed, bucket()));
        assert_ne!(scenario, Scenario::random(seed + 1, bucket()));
        let first = run(&scenario, AsksAlways::new);
        assert_eq!(first, run(&scenario, AsksAlways::new));
        let other = Scenario { seed: seed + 1, ..scenario };
        assert_ne!(first.admissions, run(&other, AsksAlways::new).admissions);
    }
}

#[test]
fn who_asks_the_store_each_time_uses_all_and_never_exceeds() {
    for (seed, quota) in (0..).zip([bucket(), window(), log()]) {
        let scenario = Scenario::calm(seed, quota, 20);
        let report = run(&scenario, AsksAlways::new);
        // Each way takes as long as any other, so that being told is as good as being decided.
        assert_eq!(report.excess(Dated::Decided), Some(0), "{quota}");
        if !matches!(quota, Quota::FixedWindow(_)) {
            assert_eq!(report.excess(Dated::Told), Some(0), "{quota}");
        }
        assert!(report.utilisation() >= 0.999, "{quota}: {}", report.utilisation());
        assert!(report.fairness() > 0.99, "{quota}: {}", report.fairness());
        assert_eq!((report.calls, report.failed), (report.requests, 0));
        assert_eq!(report.waited_us.len() as u64, report.requests);
        assert_eq!((report.waited_us(1), report.waited_us(100)), (1_000, 1_000));
        assert_eq!(report.untold, 0);
    }
}

#[test]
fn who_asks_the_store_each_time_never_exceeds_whatever_happens() {
    for seed in 0..25 {
        for quota in [bucket(), window(), log()] {
            let mut scenario = Scenario::random(seed, quota);
            // A store that forgets is over by what it forgot; that is another test.
            scenario.store.troubles.retain(|trouble| trouble.kind != StoreSickness::Emptied);
            let report = run(&scenario, AsksAlways::new);
            assert_eq!(report.excess(Dated::Decided), Some(0), "seed {seed}, {quota}");
            // Who came to a paused node that then crashed was not even asked for.
            assert!(report.calls <= report.requests);
        }
    }
}

#[test]
fn whoever_is_asked_less_than_the_limit_admits_all() {
    let mut scenario = Scenario::calm(3, bucket(), 5);
    scenario.demand.percent = 50;
    let report = run(&scenario, AsksAlways::new);
    assert_eq!(report.admitted(), report.demanded());
    assert_eq!(report.ideal, report.demanded());
    assert_eq!(report.fairness(), 1.0);
}

#[test]
fn a_fixed_share_wastes_what_others_lack_and_is_unfair() {
    let even = Scenario::calm(4, bucket(), 10);
    let report = run(&even, Shares::new);
    assert_eq!((report.calls, report.excess(Dated::Told)), (0, Some(0)));
    assert!(report.utilisation() > 0.99, "{}", report.utilisation());

    let mut skewed = even;
    skewed.demand.spread = Spread::Zipf;
    let report = run(&skewed, Shares::new);
    assert_eq!(report.excess(Dated::Told), Some(0));
    // Of 2000 a second the nth is asked 683/n, and has 100: the last four do not need theirs.
    let used = report.utilisation();
    assert!((0.91..0.94).contains(&used), "{used}");
    assert!((0.82..0.86).contains(&report.fairness()), "{}", report.fairness());
}

#[test]
fn a_fleet_that_admits_everything_is_over_by_what_it_must_be() {
    let mut scenario = Scenario::calm(5, bucket(), 10);
    scenario.demand.percent = 300;
    let report = run(&scenario, Cheats::new);
    let all: u64 = report.admissions.iter().map(|admission| admission.units).sum();
    assert_eq!(all, report.requests);
    let over = report.excess(Dated::Told).unwrap();
    // The whole of it is one interval; a little more is in the worst.
    let length_us = report.admissions.last().unwrap().told_us - report.admissions[0].told_us;
    let least = all - 100 - length_us / 1_000;
    assert!((least..least + 200).contains(&over), "{over} against {least}");
    assert!(report.utilisation() > 2.9, "{}", report.utilisation());

    let scenario = Scenario { quota: window(), ..scenario };
    let report = run(&scenario, Cheats::new);
    let over = report.excess(Dated::Told).unwrap();
    // About 1500 in a window of 500.
    assert!((950..1_250).contains(&over), "{over}");
}

#[test]
fn one_cheat_among_many_is_found() {
    let scenario = Scenario::calm(6, bucket(), 10);
    let honest = run(&scenario, Shares::new);
    assert_eq!(honest.excess(Dated::Told), Some(0));
    let report = run(&scenario, |seat| match seat.nth {
        7 => Shares::cheating(seat),
        _ => Shares::new(seat),
    });
    // It is asked 200 a second and takes them all, where 100 are its own.
    let over = report.excess(Dated::Told).unwrap();
    assert!((800..1_100).contains(&over), "{over}");
    assert!(report.fairness() < honest.fairness());
}

#[test]
fn random_scenarios_are_of_every_kind() {
    let all: Vec<Scenario> = (0..300).map(|seed| Scenario::random(seed, bucket())).collect();
    let some = |what: &str, is_so: &dyn Fn(&Scenario) -> bool| {
        let count = all.iter().filter(|scenario| is_so(scenario)).count();
        assert!((10..300).contains(&count), "{what}: {count}");
    };
    some("few nodes", &|scenario| scenario.nodes.len() <= 4);
    some("many nodes", &|scenario| scenario.nodes.len() >= 40);
    some("little demand", &|scenario| scenario.demand.percent < 100);
    some("much demand", &|scenario| scenario.demand.percent > 500);
    some("zipf", &|scenario| scenario.demand.spread == Spread::Zipf);
    some("bursts", &|scenario| scenario.demand.bursts.is_some());
    some("costs", &|scenario| scenario.demand.most_cost > 1);
    some("losses", &|scenario| scenario.network.lost_calls_ppm > 0);
    some("a sick store", &|scenario| !scenario.store.troubles.is_empty());
    some("sick nodes", &|scenario| scenario.nodes.iter().any(|node| !node.troubles.is_empty()));
    some("skew", &|scenario| scenario.nodes.iter().any(|node| node.skew.drift_ppm != 0));
    some("late comers", &|scenario| scenario.nodes.iter().any(|node| node.joins_us > 0));
    some("leavers", &|scenario| scenario.nodes.iter().any(|node| node.leaves_us.is_some()));
    for scenario in &all {
        assert!((2..=50).contains(&scenario.nodes.len()));
        assert!((50..=1_000).contains(&scenario.demand.percent));
        assert!((5_000_000..=20_000_000).contains(&scenario.duration_us));
        let round_trip_us = 2 * (scenario.network.one_way_us + scenario.network.jitter_us);
        assert!((199..=5_000).contains(&round_trip_us), "{round_trip_us}");
        let drifts = scenario.nodes.iter().map(|node| node.skew.drift_ppm.abs());
        assert!(drifts.max().unwrap() <= 200);
    }
}
