//! Processes that lease, with the calls that they really make, on a store that is ill by chance: what
//! the simulated fleets show of the plan holds of what is around it.

use std::time::Duration;

use tokio::time::{advance, timeout};
use tollkeeper_core::{Clock, Consistency, Quota, Rate};
use tollkeeper_testkit::dice::Dice;
use tollkeeper_testkit::faulty::Mood;

use crate::store::{PER_SECOND, Scene};

const NODES: usize = 3;
const DEADLINE: Duration = Duration::from_millis(20);

/// What a store may do to calls; mostly it is well.
const MOODS: [Mood; 7] = [
    Mood::Well,
    Mood::Well,
    Mood::Silent,
    Mood::RanSilent,
    Mood::Refusing,
    Mood::Unreached,
    Mood::Undecided,
];

/// What a fleet was admitted, at ten times what is allowed, in ten seconds.
async fn storm(seed: u64, is_ill: bool) -> (Scene, Vec<(u64, u64)>) {
    let mut scene = Scene::new(u32::try_from(NODES).unwrap());
    let rate = Rate::new(PER_SECOND, 1_000_000).unwrap();
    scene.quota = Quota::token_bucket(2 * PER_SECOND, rate).unwrap();
    scene.consistency = Consistency::lease(&scene.quota, NODES as u64, None).unwrap();
    let mut dice = Dice::new(seed);
    let mut admitted = Vec::new();
    for nth in 0..10 * 10 * PER_SECOND {
        if is_ill && nth.is_multiple_of(PER_SECOND) {
            scene.table().set(dice.pick(&MOODS));
        }
        let node = usize::try_from(dice.below(NODES as u64)).unwrap();
        // Nobody waits for longer: who does is not admitted by the store.
        let told = timeout(DEADLINE, scene.ask(node, scene.check())).await;
        if told.is_ok_and(|answer| answer.is_ok_and(|answer| answer.allowed)) {
            admitted.push((scene.clock.now_us(), 1));
        }
        advance(Duration::from_micros(100)).await;
    }
    (scene, admitted)
}

#[tokio::test(start_paused = true)]
async fn nobody_is_over_however_the_store_is() {
    for seed in 0..8 {
        let (scene, admitted) = storm(seed, true).await;
        assert_eq!(scene.over(&admitted), 0, "seed {seed}");
        assert!(admitted.len() as u64 > PER_SECOND, "seed {seed}: {} units", admitted.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_well_is_used_up_and_hardly_called() {
    let (scene, admitted) = storm(99, false).await;
    assert_eq!(scene.over(&admitted), 0);
    let admitted = admitted.len() as u64;
    assert!(admitted * 100 >= 97 * 10 * PER_SECOND, "{admitted}");
    let Consistency::Lease { period_us } = scene.consistency else { panic!("{:?}", scene.quota) };
    let periods = 10_000_000 / u64::from(period_us);
    let calls = scene.table().calls() as u64;
    let most = NODES as u64 * (8 + periods * 11 / 10 + 1);
    assert!(calls <= most, "{calls} calls where {most} may be");
}
