//! Several quotas that ask for one state in turn, as the tiers of a rule do whose key they share, and as an
//! old and a new policy do.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{Check, Clock, Consistency, Quota, Rate};
use tollkeeper_testkit::fleet::judge;

use crate::store::{PER_SECOND, Scene};

/// A limit, and who decides it.
#[derive(Clone, Copy)]
struct Tier(Quota, Consistency);

fn bucket(capacity: u64, per_second: u64) -> Quota {
    Quota::token_bucket(capacity, Rate::new(per_second, 1_000_000).unwrap()).unwrap()
}

fn leased(quota: Quota) -> Tier {
    Tier(quota, Consistency::lease(&quota, 2, None).unwrap())
}

fn synced(quota: Quota) -> Tier {
    Tier(quota, Consistency::sync(&quota, None, 1).unwrap())
}

/// Asks for each tier in turn, in both processes, so often a second for so long. When each tier was admitted.
async fn flood(
    scene: &Scene,
    tiers: [Tier; 2],
    per_second: u64,
    seconds: u64,
) -> [Vec<(u64, u64)>; 2] {
    let mut admitted = [Vec::new(), Vec::new()];
    for nth in 0..per_second * seconds {
        let nth = usize::try_from(nth).unwrap();
        let Tier(quota, consistency) = tiers[nth % 2];
        let check = Check { quota: &quota, consistency, ..scene.check() };
        if scene.ask(nth / 2 % 2, check).await.is_ok_and(|answer| answer.allowed) {
            admitted[nth % 2].push((scene.clock.now_us(), 1));
        }
        advance(Duration::from_nanos(1_000_000_000 / per_second)).await;
    }
    admitted
}

/// What all tiers were admitted beyond one limit.
fn over(quota: &Quota, admitted: &[Vec<(u64, u64)>; 2]) -> u64 {
    let Quota::TokenBucket(bucket) = quota else { panic!("{quota:?}") };
    let mut all = admitted.concat();
    all.sort_unstable();
    judge::over_bucket(bucket, &all)
}

/// Each call of one began the key anew for the other: of requests that no limit denies, nearly all were denied.
#[tokio::test(start_paused = true)]
async fn tiers_of_one_key_below_their_limits_are_all_admitted() {
    for way in [leased, synced] {
        let tiers = [way(bucket(PER_SECOND, PER_SECOND)), way(bucket(3 * PER_SECOND, PER_SECOND))];
        let scene = Scene::new(2);
        let admitted = flood(&scene, tiers, PER_SECOND * 6 / 10, 5).await;
        assert_eq!(over(&tiers[0].0, &admitted), 0);
        assert_eq!(admitted.map(|tier| tier.len()), [1_500; 2], "{}", tiers[0].1);
    }
}

#[tokio::test(start_paused = true)]
async fn tiers_of_one_key_have_what_their_limits_allow_and_no_more() {
    for way in [leased, synced] {
        let tiers =
            [way(bucket(2 * PER_SECOND, PER_SECOND)), way(bucket(2 * PER_SECOND, 2 * PER_SECOND))];
        let scene = Scene::new(2);
        let admitted = flood(&scene, tiers, 10 * PER_SECOND, 5).await;
        let (over, calls) = (over(&tiers[1].0, &admitted), scene.table().calls());
        let [slow, fast] = admitted.map(|tier| tier.len() as u64);
        println!("{}: {slow} and {fast}, {over} over, {calls} calls", tiers[0].1);
        let most = match tiers[0].1 {
            // What comes in a period.
            Consistency::Sync { .. } => 10 * PER_SECOND / 10,
            _ => 0,
        };
        assert!(over <= most, "{over}");
        // Of five seconds of the slower one, and what it has saved.
        assert!(slow + fast >= 6 * PER_SECOND, "{slow}, {fast}");
        assert!(slow.min(fast) * 4 >= slow.max(fast), "{slow}, {fast}");
        // Of each tier in two processes 1.1 in a period, which is a tenth of a second or a twentieth.
        assert!(calls <= 2 * (8 + 55 + 1) + 2 * (8 + 110 + 1), "{calls} calls");
    }
}

/// What the old policy had taken was more than may be out by the new one: nobody had any of it until it ended.
#[tokio::test(start_paused = true)]
async fn what_the_old_policy_holds_comes_back_with_the_first_draw_of_the_new_one() {
    let scene = Scene::new(2);
    let (old, new) =
        (leased(bucket(10 * PER_SECOND, PER_SECOND)), leased(bucket(2 * PER_SECOND, PER_SECOND)));
    let mut last = None;
    for _ in 0..500 {
        let check = Check { quota: &old.0, consistency: old.1, ..scene.check() };
        last = scene.ask(0, check).await.ok();
        advance(Duration::from_micros(200)).await;
    }
    let held = last.unwrap().outcomes()[0].remaining;
    assert!(held > new.0.limit() / 4, "{held} are out");
    let admitted = flood(&scene, [new; 2], 10 * PER_SECOND, 1).await;
    let admitted = admitted.concat();
    let begun_us = scene.clock.now_us() - 1_000_000;
    let first = admitted.iter().filter(|(at_us, _)| *at_us < begun_us + 50_000).count();
    println!("{held} were held, {first} admitted in 50 ms");
    assert!(first >= 200, "{first} of 500 in 50 ms");
}
