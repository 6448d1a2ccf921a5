//! Permits that are given back to a store that is away, late or busy.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{advance, timeout};
use tollkeeper_core::{Amended, Amendment, ManualClock, Store, StoreError};
use tollkeeper_engine::{Ask, Engine, ManualTimer, Target};
use tollkeeper_memory::{MemoryStore, Settings};
use tollkeeper_policy::Policy;
use tollkeeper_testkit::faulty::{FaultyStore, Mood};
use tollkeeper_testkit::relay::{Relay, Relayed};
use tollkeeper_tower::{Body, RateLimitLayer, releasing};
use tower::util::ServiceExt;
use tower::{Layer, service_fn};

type Memory = MemoryStore<ManualClock>;
type App<R> = Engine<Relayed<R>>;

/// So many permits, for an hour.
fn engine<R: Relay>(permits: usize, relay: impl FnOnce(Memory) -> R) -> Arc<App<R>> {
    let file =
        format!("rules: {{ few: {{ concurrency: {{ max_in_flight: {permits}, lease: 1h }} }} }}");
    let policy = Policy::parse(&file, &|_| None).unwrap();
    let memory = MemoryStore::new(Settings::default(), ManualClock::at(1_700_000_000_000_000));
    Arc::new(Engine::new(policy, Relayed(relay(memory))))
}

/// The answer to a request, which holds its permit.
async fn answer<R>(layer: &RateLimitLayer<Relayed<R>>) -> Response<Body<Full<Bytes>>>
where
    R: Relay + std::fmt::Debug + 'static,
{
    let app =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::from("hello"))));
    let answered = layer.layer(app).oneshot(Request::new(())).await.unwrap();
    assert_eq!(answered.status(), 200);
    answered
}

async fn free<R: Relay>(engine: &App<R>) -> u64 {
    let ask = Ask { target: Target::Rule("few"), key: None, cost: 0 };
    engine.check(ask).await.unwrap().decision().remaining
}

/// Lets tasks do what they can at this moment.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Says `otherwise` of calls that amend, for as long as it is to.
#[derive(Debug)]
struct Away {
    memory: Memory,
    calls: AtomicUsize,
    /// How many calls it is away for.
    times: usize,
    otherwise: Result<Amended, StoreError>,
}

impl Away {
    fn new(memory: Memory, times: usize, otherwise: Result<Amended, StoreError>) -> Self {
        Self { memory, calls: AtomicUsize::new(0), times, otherwise }
    }
}

impl Relay for Away {
    type To = Memory;

    fn to(&self) -> &Memory {
        &self.memory
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.times {
            return amendments.iter().map(|_| self.otherwise.clone()).collect();
        }
        self.memory.amend(amendments).await
    }
}

/// The only permit was held for an hour by a request that had ended while the store was away.
#[tokio::test(start_paused = true)]
async fn a_permit_is_given_back_when_the_store_is_there_again() {
    let error = Err(StoreError::unreached("no connection"));
    let engine = engine(1, |memory| Away::new(memory, 60, error));
    drop(answer(&RateLimitLayer::new(Arc::clone(&engine))).await);
    for _ in 0..60 {
        settle().await;
        assert_eq!(free(&engine).await, 0);
        advance(Duration::from_secs(1)).await;
    }
    settle().await;
    assert_eq!((free(&engine).await, engine.store().0.calls.load(Ordering::SeqCst)), (1, 61));
}

/// Nobody would know of it after that.
#[tokio::test(start_paused = true)]
async fn a_permit_that_has_ended_is_given_back_no_more() {
    let error = Err(StoreError::unreached("no connection"));
    let engine = engine(1, |memory| Away::new(memory, usize::MAX, error));
    drop(answer(&RateLimitLayer::new(Arc::clone(&engine))).await);
    let calls = || engine.store().0.calls.load(Ordering::SeqCst);
    let pass = async |seconds| {
        for _ in 0..seconds {
            settle().await;
            advance(Duration::from_secs(1)).await;
        }
        calls()
    };
    let (before, after) = (pass(3500).await, pass(200).await);
    assert!(before > 3000 && after > before, "{before}, {after}");
    assert_eq!(pass(1000).await, after);
}

/// One that the store does not know any more was asked for again, after a second.
#[tokio::test(start_paused = true)]
async fn a_permit_that_the_store_does_not_know_is_given_back_once() {
    let engine = engine(1, |memory| Away::new(memory, 9, Ok(Amended::Unknown)));
    drop(answer(&RateLimitLayer::new(Arc::clone(&engine))).await);
    engine.given_back().await;
    assert_eq!(engine.store().0.calls.load(Ordering::SeqCst), 1);
}

/// The store gave it after the deadline, and it was held by nobody until its lease ended.
#[tokio::test]
async fn a_permit_that_the_store_gave_too_late_is_given_back() {
    let file = "rules: { few: { concurrency: { max_in_flight: 1, lease: 1h } } }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let memory = || MemoryStore::new(Settings::default(), ManualClock::at(1_700_000_000_000_000));
    let timer = ManualTimer::default();
    let store = FaultyStore::new(memory());
    let engine = Engine::guarded(policy, store, memory(), Arc::new(timer.clone())).unwrap();
    let engine = Arc::new(engine);
    engine.store().set(Mood::RanSilent);
    let app =
        service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::from("hello"))));
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    let mut call = Box::pin(layer.layer(app).oneshot(Request::new(())));
    let mut context = Context::from_waker(Waker::noop());
    assert!(call.as_mut().poll(&mut context).is_pending(), "the store has to be asked");
    engine.store().set(Mood::Well);
    timer.advance(20_000);
    // It goes by the permit of this process.
    let answered: Response<Body<Full<Bytes>>> = call.await.unwrap();
    assert_eq!(answered.status(), 200);
    engine.given_back().await;
    let ask = Ask { target: Target::Rule("few"), key: None, cost: 0 };
    assert_eq!(engine.check(ask).await.unwrap().decision().remaining, 1);
}

/// Where the store is away, who gives it back does not wait for that.
#[tokio::test(start_paused = true)]
async fn what_nobody_waits_to_give_back_is_given_back_by_a_task() {
    let error = Err(StoreError::unreached("no connection"));
    let engine = engine(1, |memory| Away::new(memory, 3, error));
    let ask = Ask { target: Target::Rule("few"), key: None, cost: 1 };
    let verdict = engine.check(ask).await.unwrap();
    let releasing = releasing(&engine, &verdict).unwrap();
    assert!(timeout(Duration::from_millis(20), releasing).await.is_err());
    assert_eq!(free(&engine).await, 0);
    engine.given_back().await;
    assert_eq!((free(&engine).await, engine.store().0.calls.load(Ordering::SeqCst)), (1, 4));
}

/// Lets calls that amend wait, and counts them.
#[derive(Debug)]
struct Busy {
    memory: Memory,
    under_way: AtomicUsize,
    most: AtomicUsize,
    goes: Notify,
}

impl Busy {
    fn new(memory: Memory) -> Self {
        let [under_way, most] = [(); 2].map(|()| AtomicUsize::new(0));
        Self { memory, under_way, most, goes: Notify::new() }
    }
}

impl Relay for Busy {
    type To = Memory;

    fn to(&self) -> &Memory {
        &self.memory
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        self.goes.notified().await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.memory.amend(amendments).await
    }
}

/// A thousand requests that were cut off at once were more calls than may be under way to a store: most of
/// their permits were held for an hour.
#[tokio::test]
async fn a_thousand_permits_are_given_back_by_turns() {
    let engine = engine(1000, Busy::new);
    let layer = RateLimitLayer::new(Arc::clone(&engine));
    let answers = join_all((0..1000).map(|_| answer(&layer))).await;
    assert_eq!(free(&engine).await, 0);
    drop(answers);
    let busy = &engine.store().0;
    while free(&engine).await < 1000 {
        busy.goes.notify_waiters();
        yield_now().await;
    }
    assert_eq!(busy.most.load(Ordering::SeqCst), 64);
}

/// An engine whose store stood still kept others in the same process from giving anything back.
#[tokio::test]
async fn one_engine_does_not_wait_for_what_another_gives_back() {
    let busy = engine(100, Busy::new);
    let layer = RateLimitLayer::new(Arc::clone(&busy));
    drop(join_all((0..100).map(|_| answer(&layer))).await);
    settle().await;
    assert_eq!(busy.store().0.under_way.load(Ordering::SeqCst), 64);
    let other = engine(1, |memory| Away::new(memory, 0, Ok(Amended::Unknown)));
    drop(answer(&RateLimitLayer::new(Arc::clone(&other))).await);
    other.given_back().await;
    assert_eq!(free(&other).await, 1);
}
