//! Who goes with whom, and when: on a carrier that answers when it is told to.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use smallvec::smallvec;
use tollkeeper_core::{Check, Quota, Rate, Request, Ticket};

use super::*;

/// Calls that were sent: their keys, and where their answers are awaited.
type Sent = Arc<Mutex<VecDeque<(Vec<Vec<String>>, oneshot::Sender<Vec<Told>>)>>>;

/// The key of a call that the server sends on.
const SENT_ON: &str = "sent on";

#[derive(Debug, Default)]
struct OnDemand {
    sent: Sent,
}

impl Carrier for OnDemand {
    async fn carry_one(&self, terms: &Terms, keys: Vec<String>, aside: Aside<'_>) -> Told {
        self.carry(terms, vec![keys], aside).await.remove(0)
    }

    async fn carry(&self, _terms: &Terms, keys: Vec<Vec<String>>, aside: Aside<'_>) -> Vec<Told> {
        let (answer, answered) = oneshot::channel();
        if keys.iter().flatten().any(|key| key == SENT_ON) {
            aside.step();
        }
        self.sent.lock().push_back((keys, answer));
        answered.await.unwrap()
    }
}

struct Scene {
    merger: Arc<Merger<OnDemand>>,
    sent: Sent,
}

impl Scene {
    fn new() -> Self {
        let carrier = OnDemand::default();
        let sent = Arc::clone(&carrier.sent);
        Self { merger: Merger::new(carrier), sent }
    }

    /// One who asks for a key in a task of its own; it has begun when this returns.
    async fn ask(&self, terms: Terms, slot: u16, key: &str) -> tokio::task::JoinHandle<Told> {
        let (merger, keys) = (Arc::clone(&self.merger), vec![key.to_owned()]);
        let asked = tokio::spawn(async move { merger.ask(0, Asked { terms, slot, keys }).await });
        settle().await;
        asked
    }

    /// So many who ask for keys of one slot, one after the other.
    async fn ask_for(&self, count: usize) -> Vec<tokio::task::JoinHandle<Told>> {
        let mut asked = Vec::new();
        for key in names(0, count) {
            asked.push(self.ask(terms(1), 0, &key).await);
        }
        asked
    }

    /// The keys of the calls that are under way, in the order in which they were sent.
    fn under_way(&self) -> Vec<Vec<String>> {
        self.sent.lock().iter().map(|(keys, _)| keys.concat()).collect()
    }

    /// Answers the call that was sent first: its requests get their places in it as numbers.
    async fn answer(&self) {
        let (keys, answer) = self.sent.lock().pop_front().unwrap();
        let told = (0..).zip(&keys).map(|(nth, _)| Ok(smallvec![nth])).collect();
        // Perhaps nobody waits any more.
        let _ = answer.send(told);
        settle().await;
    }
}

/// Lets every task do what it can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn terms(cost: u64) -> Terms {
    let quota = Quota::gcra(100, Rate::new(1, 1_000_000).unwrap()).unwrap();
    let check = Check::new("api", &quota, "k", cost);
    Terms::of(None, &Request::new([check], None).unwrap())
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|nth| nth.to_string()).collect()
}

#[tokio::test]
async fn who_comes_alone_goes_at_once() {
    let scene = Scene::new();
    for key in ["a", "b"] {
        let asked = scene.ask(terms(1), 0, key).await;
        assert_eq!(scene.under_way(), [[key]]);
        scene.answer().await;
        assert_eq!(asked.await.unwrap().unwrap().as_slice(), [0]);
    }
}

#[tokio::test]
async fn who_waits_goes_with_all_who_wait_in_the_order_in_which_they_came() {
    let scene = Scene::new();
    let asked = scene.ask_for(6).await;
    assert_eq!(scene.under_way(), [names(0, 1), names(1, 2)]);
    scene.answer().await;
    assert_eq!(scene.under_way(), [names(1, 2), names(2, 6)]);
    scene.answer().await;
    scene.answer().await;
    let mut told = Vec::new();
    for asked in asked {
        told.push(asked.await.unwrap().unwrap()[0]);
    }
    assert_eq!(told, [0, 0, 0, 1, 2, 3]);
    // Nobody is left behind, and the next who comes alone goes at once.
    let alone = scene.ask(terms(1), 0, "alone").await;
    assert_eq!(scene.under_way(), [["alone"]]);
    scene.answer().await;
    alone.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_is_of_one_slot_and_of_one_kind_and_not_too_large() {
    let scene = Scene::new();
    let mut asked = vec![scene.ask(terms(1), 0, "x").await, scene.ask(terms(1), 0, "y").await];
    for (cost, slot, key) in [(1, 0, "a"), (2, 0, "b"), (1, 7, "c"), (1, 0, "d"), (2, 0, "e")] {
        asked.push(scene.ask(terms(cost), slot, key).await);
    }
    for key in names(0, 70) {
        asked.push(scene.ask(terms(3), 0, &key).await);
    }
    scene.answer().await;
    let mut expected = [vec!["y"], vec!["a", "d"], vec!["b", "e"], vec!["c"]]
        .map(|keys| keys.into_iter().map(str::to_owned).collect())
        .to_vec();
    expected.extend([names(0, 64), names(64, 70)]);
    assert_eq!(scene.under_way(), expected);
    for _ in 0..expected.len() {
        scene.answer().await;
    }
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_permit_has_a_call_of_its_own() {
    let quota = Quota::concurrency(10, 1_000_000).unwrap();
    let terms = |id| {
        let check = Check::new("api", &quota, "k", 1);
        let ticket = Ticket { id, reserve_for_us: None };
        Terms::of(None, &Request::new([check], Some(ticket)).unwrap())
    };
    assert_ne!(terms(1), terms(2));
    assert_eq!(terms(1).most_together(), 1);
}

#[tokio::test]
async fn who_has_given_up_is_not_sent() {
    let scene = Scene::new();
    let asked = scene.ask_for(5).await;
    asked[3].abort();
    settle().await;
    scene.answer().await;
    assert_eq!(scene.under_way(), [names(1, 2), vec!["2".to_owned(), "4".to_owned()]]);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_keeps_nobody_waiting() {
    let scene = Scene::new();
    let asked = scene.ask_for(3).await;
    // Both that went alone give up: the third goes, and a fourth at once.
    asked[0].abort();
    asked[1].abort();
    settle().await;
    assert_eq!(scene.under_way()[2..], [names(2, 3)]);
    // All of a departure give up: those that wait for it go.
    let stuck = scene.ask(terms(1), 0, "stuck").await;
    let waits = scene.ask(terms(1), 0, "waits").await;
    assert_eq!(scene.under_way()[3..], [["stuck"]]);
    asked[2].abort();
    settle().await;
    assert_eq!(scene.under_way()[4..], [["waits"]]);
    for _ in 0..5 {
        scene.answer().await;
    }
    stuck.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
}

/// Of a cluster that moves a slot all who asked the same server waited for its keys, and for the new node to let
/// us in.
#[tokio::test]
async fn nobody_waits_for_what_is_sent_on() {
    let scene = Scene::new();
    let mut asked = Vec::new();
    for key in [SENT_ON, "a", SENT_ON, "b", "c"] {
        asked.push(scene.ask(terms(1), 0, key).await);
    }
    // Two are under way, but for those that were sent on.
    assert_eq!(scene.under_way(), [[SENT_ON], ["a"], [SENT_ON], ["b"]]);
    asked.push(scene.ask(terms(1), 7, SENT_ON).await);
    scene.sent.lock().rotate_left(1);
    // When one is over those that wait go, and one of these calls is sent on: the departure lasts for the other.
    scene.answer().await;
    let sent_on = || vec![SENT_ON.to_owned()];
    assert_eq!(scene.under_way()[..4], [sent_on(), names_of(["b"]), sent_on(), names_of(["c"])]);
    asked.push(scene.ask(terms(1), 0, "d").await);
    assert_eq!(scene.under_way().len(), 5, "two are under way");
    while !scene.sent.lock().is_empty() {
        scene.answer().await;
    }
    for asked in asked {
        asked.await.unwrap().unwrap();
    }
}

fn names_of<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

#[tokio::test]
async fn what_fails_fails_for_all_who_went() {
    let scene = Scene::new();
    let asked = scene.ask_for(5).await;
    scene.answer().await;
    scene.answer().await;
    let (keys, answer) = scene.sent.lock().pop_front().unwrap();
    let lost = StoreError::may_have_run("lost");
    answer.send(vec![Err(lost.clone()); keys.len()]).unwrap();
    for (nth, asked) in asked.into_iter().enumerate() {
        let told = asked.await.unwrap();
        assert_eq!(told.err(), (nth >= 2).then(|| lost.clone()), "{nth}");
    }
}

#[tokio::test]
async fn only_so_many_wait() {
    let scene = Scene::new();
    let asks: Vec<_> = (0..MOST_WAITING + 3)
        .map(|nth| {
            let asked = Asked { terms: terms(1), slot: 0, keys: vec![nth.to_string()] };
            let merger = Arc::clone(&scene.merger);
            Box::pin(async move { merger.ask(0, asked).await })
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut asks = asks;
    for ask in &mut asks {
        assert!(matches!(pin!(ask).poll(&mut context), Poll::Pending));
    }
    assert_eq!(scene.sent.lock().len(), 3);
}

#[test]
fn who_waits_when_the_runtime_ends_is_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (merger, direct) = runtime.block_on(async {
        let scene = Scene::new();
        let direct = [scene.ask(terms(1), 0, "a").await, scene.ask(terms(1), 0, "b").await];
        (scene.merger, direct)
    });
    let asked = Asked { terms: terms(1), slot: 0, keys: vec!["c".to_owned()] };
    let mut waiting = Box::pin(async move { merger.ask(0, asked).await });
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(runtime);
    drop(direct);
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Err(_))));
}
