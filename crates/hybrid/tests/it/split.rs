//! A key that is split over several servers, one of which is away.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{advance, sleep};
use tollkeeper_core::{Amended, Amendment, Answer, Clock, Consistency, Request, Store, StoreError};
use tollkeeper_hybrid::Hybrid;
use tollkeeper_memory::Settings;
use tollkeeper_testkit::relay::{Relay, Relayed};

use crate::store::{Common, PER_SECOND, Scene};

const PATIENCE: Duration = Duration::from_millis(20);

/// A store of which one part is away: it refuses, or says nothing.
#[derive(Clone, Debug)]
struct Without {
    store: Common,
    part: Option<&'static str>,
    is_silent: bool,
}

impl Without {
    async fn meets(&self, mut keys: impl Iterator<Item = &str>) -> Result<(), StoreError> {
        if keys.any(|key| self.part.is_some_and(|part| key.ends_with(part))) {
            if self.is_silent {
                sleep(Duration::from_secs(3600)).await;
            }
            return Err(StoreError::did_not_run("it is away"));
        }
        Ok(())
    }
}

impl Relay for Without {
    type To = Common;

    fn to(&self) -> &Common {
        &self.store
    }

    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let keys = requests.iter().flat_map(|request| request.checks()).map(|check| check.key);
        match self.meets(keys).await {
            Ok(()) => self.store.decide(requests).await,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        match self.meets(amendments.iter().map(|amendment| amendment.key)).await {
            Ok(()) => self.store.amend(amendments).await,
            Err(error) => amendments.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// What a process admits of a key in so many parts, at ten times the limit for five seconds.
async fn admitted(parts: u64, away: Option<&'static str>, is_silent: bool) -> usize {
    let mut scene = Scene::new(1);
    scene.consistency = Consistency::sync(&scene.quota, None, parts).unwrap();
    let store = Relayed(Without { store: scene.common.clone(), part: away, is_silent });
    let clock = Arc::new(scene.clock.clone());
    let node = Hybrid::new(store, clock, PATIENCE, Settings::default(), 0);
    let mut admitted = Vec::new();
    for _ in 0..10 * PER_SECOND * 5 {
        let request = Request::new([scene.check()], None).unwrap();
        let told = match node.decide_at_once(&request) {
            Some(told) => told,
            None => node.decide_one(&request).await,
        };
        if told.is_ok_and(|answer| answer.allowed) {
            admitted.push((scene.clock.now_us(), 1));
        }
        advance(Duration::from_micros(100)).await;
    }
    let most = 10 * PER_SECOND / 10;
    assert!(scene.over(&admitted) <= most, "{} over", scene.over(&admitted));
    admitted.len()
}

/// Every call to it was followed by another one to the same: nothing of the whole key was had any more.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_away_does_not_stop_a_key_whose_other_parts_live() {
    for parts in [2, 4, 16] {
        let all = admitted(parts, None, false).await;
        for away in ["#0", "#1"] {
            for is_silent in [false, true] {
                let some = admitted(parts, Some(away), is_silent).await;
                println!("{parts} parts without {away}, silent: {is_silent}: {some} of {all}");
                let lives =
                    all * usize::try_from(parts - 1).unwrap() / usize::try_from(parts).unwrap();
                assert!(some >= lives * 8 / 10, "{parts} parts without {away}: {some} of {all}");
            }
        }
    }
}
