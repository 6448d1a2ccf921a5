//! What no real server shows at will: faults that come late, and answers that never come. Time
//! stands until there is nothing else to do.

use std::future::pending;
use std::sync::atomic::AtomicU64;

use tokio::time::advance;

use super::*;

/// How a connection behaves.
#[derive(Clone, Debug)]
enum Mood {
    Answers,
    Silent,
    Says(Fault),
}

#[derive(Debug)]
struct FakeLink {
    mood: watch::Sender<Mood>,
    end: watch::Sender<Option<Fault>>,
    pings: AtomicU64,
    calls: AtomicU64,
    is_closed: watch::Sender<bool>,
}

impl Link for Arc<FakeLink> {
    async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        let is_ping = command.args().next() == Some(b"PING");
        let count = if is_ping { &self.pings } else { &self.calls };
        count.fetch_add(1, Ordering::Relaxed);
        let mut mood = self.mood.subscribe();
        let spoken = mood.wait_for(|mood| !matches!(mood, Mood::Silent)).await;
        match spoken.as_deref() {
            Ok(Mood::Says(fault)) => Err(fault.clone()),
            _ => Ok(Reply::Text(Vec::new())),
        }
    }

    async fn call_after(&self, _first: &Command, command: &Command) -> Result<Reply, Fault> {
        self.call(command).await
    }

    fn end(&self) -> Option<Fault> {
        self.end.borrow().clone()
    }

    async fn ended(&self) -> Fault {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match ended {
            Some(fault) => fault,
            None => pending().await,
        }
    }

    fn close(&self) {
        self.is_closed.send_replace(true);
    }
}

/// A server whose connections begin in the moods given, and then answer.
#[derive(Clone, Debug)]
struct FakeServer {
    moods: Arc<Mutex<Vec<Mood>>>,
    links: watch::Sender<Vec<Arc<FakeLink>>>,
}

impl FakeServer {
    fn new(moods: impl IntoIterator<Item = Mood>) -> Self {
        let moods: Vec<Mood> = moods.into_iter().collect();
        Self { moods: Arc::new(Mutex::new(moods)), links: watch::Sender::new(Vec::new()) }
    }

    /// Waits for the connection of that number, from 0.
    async fn link(&self, nth: usize) -> Arc<FakeLink> {
        let mut links = self.links.subscribe();
        let links = soon(links.wait_for(|links| links.len() > nth)).await.unwrap();
        Arc::clone(&links[nth])
    }

    fn count(&self) -> usize {
        self.links.borrow().len()
    }
}

const PATIENCE: Duration = Duration::from_millis(350);

impl Driver for FakeServer {
    type Link = Arc<FakeLink>;

    fn patience(&self) -> Duration {
        PATIENCE
    }

    async fn connect(&self) -> Result<Arc<FakeLink>, Fault> {
        let mut moods = self.moods.lock();
        let mood = if moods.is_empty() { Mood::Answers } else { moods.remove(0) };
        let link = Arc::new(FakeLink {
            mood: watch::Sender::new(mood),
            end: watch::Sender::new(None),
            pings: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            is_closed: watch::Sender::new(false),
        });
        self.links.send_modify(|links| links.push(Arc::clone(&link)));
        Ok(link)
    }
}

fn get() -> Command {
    Command::new("GET").arg("a")
}

fn broken() -> Fault {
    Fault::Broken { text: "reset".to_owned() }
}

/// What must come comes long before this.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(60), future).await.unwrap()
}

/// Waits until the first connection is open, or is not.
async fn first_is_open(connections: &Connections<FakeServer>, open: bool) {
    let mut slot = connections.shared.slots[0].subscribe();
    soon(slot.wait_for(|slot| matches!(slot, Slot::Open(_)) == open)).await.unwrap();
}

/// Leaves a doubt about the connection that a call takes.
async fn give_up(connections: &Connections<FakeServer>) {
    assert!(timeout(Duration::from_millis(20), connections.call(&get())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_befalls_an_old_connection_does_not_close_the_next_one() {
    let server = FakeServer::new([]);
    let connections = Arc::new(Connections::open(server.clone(), 1));
    connections.opened().await.unwrap();
    let old = server.link(0).await;
    old.mood.send_replace(Mood::Silent);
    let late = tokio::spawn({
        let connections = Arc::clone(&connections);
        async move { connections.call(&get()).await }
    });
    let later = tokio::spawn({
        let connections = Arc::clone(&connections);
        async move { connections.call(&get()).await }
    });
    give_up(&connections).await;
    soon(old.is_closed.subscribe().wait_for(|closed| *closed)).await.unwrap();
    let new = server.link(1).await;
    first_is_open(&connections, true).await;
    let pings = new.pings.load(Ordering::Relaxed);

    later.abort();
    assert!(later.await.unwrap_err().is_cancelled());
    old.mood.send_replace(Mood::Says(broken()));
    assert_eq!(late.await.unwrap(), Err(broken()));
    advance(Duration::from_secs(5)).await;
    assert_eq!(connections.call(&get()).await, Ok(Reply::Text(Vec::new())));
    assert_eq!((server.count(), new.pings.load(Ordering::Relaxed)), (2, pings));
    assert!(!*new.is_closed.borrow());
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_on_a_good_connection_costs_one_ping() {
    let server = FakeServer::new([]);
    let connections = Connections::open(server.clone(), 1);
    connections.opened().await.unwrap();
    let link = server.link(0).await;
    let pings = link.pings.load(Ordering::Relaxed);
    link.mood.send_replace(Mood::Silent);
    give_up(&connections).await;
    link.mood.send_replace(Mood::Answers);
    advance(PATIENCE * 2).await;
    assert_eq!(connections.call(&get()).await, Ok(Reply::Text(Vec::new())));
    assert_eq!((server.count(), link.pings.load(Ordering::Relaxed)), (1, pings + 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_at_first_is_told_and_tried_again() {
    let refusal = Fault::refused("LOADING Redis is loading the dataset in memory");
    for refuses in [refusal.clone(), broken()] {
        let server = FakeServer::new([Mood::Says(refuses.clone()), Mood::Says(refuses.clone())]);
        let connections = Connections::open(server.clone(), 2);
        assert_eq!(connections.opened().await, Err(refuses.clone().unsent()));
        assert_eq!(connections.call(&get()).await, Err(refuses.unsent()));
        first_is_open(&connections, true).await;
        assert_eq!(connections.opened().await, Ok(()));
        assert_eq!(connections.call(&get()).await, Ok(Reply::Text(Vec::new())));
    }
}

#[tokio::test(start_paused = true)]
async fn one_good_connection_is_enough_to_begin() {
    let server = FakeServer::new([Mood::Silent, Mood::Answers]);
    let connections = Connections::open(server, 2);
    let begun = Instant::now();
    assert_eq!(connections.opened().await, Ok(()));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lets_us_in_and_says_nothing_is_left_in_time() {
    let server = FakeServer::new([Mood::Silent, Mood::Silent]);
    let connections = Connections::open(server.clone(), 1);
    let begun = Instant::now();
    let text = "no answer within 350ms".to_owned();
    assert_eq!(connections.opened().await, Err(Fault::Unconnected { text }));
    assert_eq!(begun.elapsed(), PATIENCE);
    first_is_open(&connections, true).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_died_in_silence_is_found_without_a_call() {
    let server = FakeServer::new([]);
    let connections = Connections::open(server.clone(), 1);
    connections.opened().await.unwrap();
    let begun = Instant::now();
    server.link(0).await.mood.send_replace(Mood::Silent);
    first_is_open(&connections, false).await;
    assert_eq!(begun.elapsed(), TRY_EVERY + PATIENCE);
    first_is_open(&connections, true).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_over_a_connection_that_has_ended() {
    let server = FakeServer::new([]);
    let connections = Connections::open(server.clone(), 2);
    let (ended, other) = (server.link(0).await, server.link(1).await);
    first_is_open(&connections, true).await;
    let calls = |link: &FakeLink| link.calls.load(Ordering::Relaxed);
    let before = (calls(&ended), calls(&other));
    let end = Fault::Unconnected { text: "the server closed the connection".to_owned() };
    ended.end.send_replace(Some(end.clone()));
    // Nobody else has run since.
    for _ in 0..4 {
        assert_eq!(connections.call(&get()).await, Ok(Reply::Text(Vec::new())));
    }
    assert_eq!((calls(&ended), calls(&other)), (before.0, before.1 + 4));
    other.end.send_replace(Some(end.clone()));
    assert_eq!(connections.call(&get()).await, Err(end));
    first_is_open(&connections, false).await;
    first_is_open(&connections, true).await;
    assert_eq!(connections.call(&get()).await, Ok(Reply::Text(Vec::new())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lets_us_in_and_refuses_every_call_is_not_stormed() {
    let server = FakeServer::new([]);
    let connections = Connections::open(server.clone(), 1);
    let readonly = Fault::refused("READONLY You can't write against a read only replica.");
    let begun = Instant::now();
    for nth in 0..200 {
        first_is_open(&connections, true).await;
        server.link(nth).await.mood.send_replace(Mood::Says(readonly.clone()));
        assert_eq!(connections.call(&get()).await, Err(readonly.clone()));
        first_is_open(&connections, false).await;
        assert_eq!(connections.call(&get()).await, Err(readonly.clone().unsent()));
    }
    // 150 ms each, give or take.
    let took = begun.elapsed();
    assert!((20..40).contains(&took.as_secs()), "{took:?}");
}

/// A try that hung when the server came back was followed by a pause as long as any: with the next probe
/// that was more than a second.
#[tokio::test(start_paused = true)]
async fn a_try_that_hangs_is_followed_by_the_next_at_once() {
    const TRIES: u32 = 50;
    let server = FakeServer::new((0..TRIES).map(|_| Mood::Silent));
    let begun = Instant::now();
    let connections = Connections::open(server.clone(), 1);
    first_is_open(&connections, true).await;
    assert_eq!(begun.elapsed().as_millis(), (PATIENCE * TRIES).as_millis());
}

#[test]
fn pauses_differ() {
    let mut pauses: Vec<Duration> = (0..200).map(|_| jittered(FIRST_PAUSE)).collect();
    pauses.sort_unstable();
    assert!(pauses[0] < FIRST_PAUSE / 4 && pauses[199] > FIRST_PAUSE * 3 / 4, "{pauses:?}");
    assert!(pauses[199] <= FIRST_PAUSE);
    pauses.dedup();
    assert!(pauses.len() > 190, "{pauses:?}");
}
