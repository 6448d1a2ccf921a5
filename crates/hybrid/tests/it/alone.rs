//! What of a request is decided here when the store gave no answer, and what is left to others.

use std::time::Duration;

use tokio::time::advance;
use tollkeeper_core::{Alone, Check, Consistency, Quota, Request, Store, Ticket};
use tollkeeper_testkit::faulty::Mood;

use crate::store::{PER_SECOND, Scene};

/// A limit that only the store decides.
fn exact() -> Quota {
    Quota::fixed_window(1_000, 60_000_000).unwrap()
}

/// What is decided of both: the limit of the scene, and one that only the store decides before it.
fn alone<'a>(scene: &'a Scene, exact: &'a Quota, ticket: Option<Ticket>) -> Option<Alone<'a>> {
    let checks = [Check::new("many", exact, "hot", 1), scene.check()];
    scene.nodes[0].decide_alone(&Request::new(checks, ticket).unwrap())
}

/// A process with units in hand that has lost its store.
async fn lost() -> Scene {
    let scene = Scene::new(1);
    scene.flood(PER_SECOND / 2, 1).await;
    scene.table().set(Mood::Refusing);
    scene
}

#[tokio::test(start_paused = true)]
async fn units_are_spent_if_the_request_goes_and_put_back_if_it_does_not() {
    let (scene, exact) = (lost().await, exact());
    let calls = scene.table().calls();
    let left = |alone: &Alone<'_>| alone.answer.outcomes()[0].remaining;
    let first = alone(&scene, &exact, None).unwrap();
    assert_eq!((first.which.as_slice(), first.answer.outcomes().len()), (&[1][..], 1));
    assert!(first.answer.allowed && first.answer.outcomes()[0].here);
    assert!(first.answer.charged_at_us.is_some());
    let before = left(&first);
    drop(first);
    let second = alone(&scene, &exact, None).unwrap();
    assert_eq!(left(&second), before, "it was put back");
    second.held.keep();
    assert_eq!(left(&alone(&scene, &exact, None).unwrap()), before - 1);
    assert_eq!(scene.table().calls(), calls, "nobody was asked");
}

#[tokio::test(start_paused = true)]
async fn with_nothing_in_hand_nothing_is_decided() {
    let (scene, exact) = (lost().await, exact());
    let mut spent = 0;
    while let Some(alone) = alone(&scene, &exact, None) {
        assert!(alone.answer.allowed, "{alone:?}");
        alone.held.keep();
        spent += 1;
        // The draw fails while something is left.
        tokio::task::yield_now().await;
    }
    assert!(spent > 10, "{spent}");
    // A key that nobody has asked for is the store's.
    let cold = Check { key: "cold", ..scene.check() };
    let request = Request::new([cold, Check::new("many", &exact, "cold", 1)], None).unwrap();
    assert!(scene.nodes[0].decide_alone(&request).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_reserved_has_its_record_in_the_store() {
    let (scene, exact) = (lost().await, exact());
    let ticket = |reserve_for_us| Some(Ticket { id: 7, reserve_for_us });
    assert!(alone(&scene, &exact, ticket(Some(1_000_000))).is_none());
    assert!(alone(&scene, &exact, ticket(None)).is_some(), "a permit is no reservation");
}

/// More is wanted than there is, and the store has not failed as far as is known.
#[tokio::test(start_paused = true)]
async fn who_is_denied_here_is_denied_whatever_the_rest_says() {
    let (scene, exact) = (Scene::new(1), exact());
    scene.flood(10 * PER_SECOND, 1).await;
    while scene.ask(0, scene.check()).await.unwrap().allowed {}
    let alone = alone(&scene, &exact, None).unwrap();
    assert_eq!(alone.which.as_slice(), [0, 1]);
    assert!(!alone.answer.allowed && alone.answer.fold().unwrap().binding == 1);
    let other = alone.answer.outcomes()[0];
    assert!(other.allowed && other.here && other.remaining == 0, "nothing is known: {other:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_and_what_is_shared_counts_as_long_as_it_does() {
    let exact = exact();
    let mut scene = Scene::new(1);
    // What it says thrice, when each time what it took is put back.
    let thrice = |scene: &Scene| {
        let mut left = Vec::new();
        for _ in 0..3 {
            let alone = alone(scene, &exact, None).unwrap();
            assert_eq!((alone.which.as_slice(), alone.answer.allowed), (&[1][..], true));
            left.push(alone.answer.outcomes()[0].remaining);
        }
        left
    };
    let is_same = |left: &[u64]| left[0] > 100 && left.iter().all(|each| *each == left[0]);
    scene.consistency = Consistency::sync(&scene.quota, None, 1).unwrap();
    scene.flood(PER_SECOND / 2, 1).await;
    scene.table().set(Mood::Refusing);
    let left = thrice(&scene);
    assert!(is_same(&left), "{left:?}");
    // Two periods.
    advance(Duration::from_millis(200)).await;
    assert!(alone(&scene, &exact, None).is_none());
    // A share that nobody has to count needs nobody.
    scene.consistency = Consistency::share(&scene.quota, Some(4)).unwrap();
    let left = thrice(&scene);
    assert!(is_same(&left), "{left:?}");
}
