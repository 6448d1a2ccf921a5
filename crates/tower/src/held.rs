//! What must be given back whatever becomes of a request: a permit, or the charge of one that gave
//! up while it waited. A future that is dropped cannot wait, so a task does it.

use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tollkeeper_core::{Amended, Store};
use tollkeeper_engine::{Engine, EngineError, Handle, HandleKind, Undecided, Verdict};

/// How many are given back at once.
static TURNS: Semaphore = Semaphore::const_new(64);

/// Between two tries to give back a permit.
const PAUSE: Duration = Duration::from_secs(1);

/// Renewals in the time that a lease lasts: one may fail.
const RENEWALS: u32 = 3;

/// What a request holds of a `concurrency` limit. It is renewed while it lives, and given back when
/// the last clone of it is dropped.
///
/// The answer's body has one until it ends. A handler whose work goes on after that, such as one
/// with a WebSocket, takes its own from the request's extensions and keeps it for as long.
#[derive(Clone, Debug)]
pub struct InFlight {
    _held: Arc<dyn Held>,
}

/// Something that is given back when it is dropped.
trait Held: Debug + Send + Sync {}

impl InFlight {
    /// Holds the permit of `verdict`, if it has one.
    pub fn of<S, L>(engine: &Arc<Engine<S, L>>, verdict: &Verdict) -> Option<Self>
    where
        S: Store + Debug + 'static,
        L: Store + Debug + 'static,
    {
        let handle = verdict.handle().filter(|handle| handle.kind() == HandleKind::Permit)?;
        let lease = Duration::from_micros(verdict.lease_us()?);
        let (engine, handle) = (Arc::clone(engine), handle.clone());
        let renewing = spawn(renew(Arc::clone(&engine), handle.clone(), lease / RENEWALS));
        Some(Self { _held: Arc::new(Permit { engine, handle, lease, renewing }) })
    }
}

/// A permit of a concurrency limit.
#[derive(Debug)]
struct Permit<S: Store + 'static, L: Store + 'static> {
    engine: Arc<Engine<S, L>>,
    handle: Handle,
    lease: Duration,
    renewing: Option<AbortHandle>,
}

impl<S: Store + Debug, L: Store + Debug> Held for Permit<S, L> {}

impl<S: Store + 'static, L: Store + 'static> Drop for Permit<S, L> {
    fn drop(&mut self) {
        if let Some(renewing) = self.renewing.take() {
            renewing.abort();
        }
        give_back(release(Arc::clone(&self.engine), self.handle.clone(), self.lease));
    }
}

/// Gives a permit back. Where the store is away it is tried again, until the permit has ended by itself: to
/// release one twice is nothing. One that the store does not know is tried once more, too: the call that takes it
/// may have been given up while it was on its way.
async fn release<S: Store, L: Store>(engine: Arc<Engine<S, L>>, handle: Handle, lease: Duration) {
    let released = async {
        let mut was_unknown = false;
        loop {
            match in_turn(engine.release(&handle)).await {
                Err(EngineError::Store(_)) => {}
                Ok(Amended::Unknown) if !was_unknown => was_unknown = true,
                _ => return,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(lease, released).await;
}

/// Gives back when it is its turn: very many at once, as when an app dies, would be more than may be under way
/// to a store, and those that are too many would not be given back.
async fn in_turn<T>(giving_back: impl Future<Output = T>) -> T {
    // It is never closed.
    let _turn = TURNS.acquire().await;
    giving_back.await
}

/// Lets a permit last for as long as its request does.
async fn renew<S: Store, L: Store>(engine: Arc<Engine<S, L>>, handle: Handle, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        // Where the store is away the next one may do.
        let _ = engine.renew(&handle).await;
    }
}

/// A request that was charged and waits for its turn.
#[derive(Debug)]
pub(crate) struct Waiting<S: Store + 'static, L: Store + 'static> {
    engine: Arc<Engine<S, L>>,
    /// What is given back if it gives up.
    verdict: Option<Verdict>,
}

impl<S: Store + 'static, L: Store + 'static> Waiting<S, L> {
    pub(crate) fn new(engine: &Arc<Engine<S, L>>, verdict: &Verdict) -> Self {
        Self { engine: Arc::clone(engine), verdict: Some(verdict.clone()) }
    }

    /// Its turn has come.
    pub(crate) fn goes(mut self) {
        self.verdict = None;
    }
}

impl<S: Store + 'static, L: Store + 'static> Drop for Waiting<S, L> {
    fn drop(&mut self) {
        let Some(verdict) = self.verdict.take() else { return };
        let engine = Arc::clone(&self.engine);
        give_back(async move { drop(in_turn(engine.undo(&verdict)).await) });
    }
}

/// Waits for what a store has to be waited for to decide. A permit that it gives to one who has gone meanwhile
/// is given back.
pub async fn check_waiting<S, L>(
    engine: &Arc<Engine<S, L>>,
    undecided: Undecided,
) -> Result<Verdict, EngineError>
where
    S: Store + Debug + 'static,
    L: Store + Debug + 'static,
{
    if !undecided.takes_permit() {
        return engine.check_waiting(undecided).await;
    }
    let (deciding, leaving) = (Arc::clone(engine), Arc::clone(engine));
    let deciding = async move { deciding.check_waiting(undecided).await };
    let give_back = move |decided: Result<Verdict, EngineError>| {
        decided.iter().for_each(|verdict| drop(InFlight::of(&leaving, verdict)));
    };
    ToTheEnd::new(deciding, give_back).await
}

/// What is done to its end whether or not somebody waits for it: if nobody does any more, by a task, which then
/// does with it whatever was said.
pub struct ToTheEnd<T: Send + 'static>(Option<Doing<T>>);

type Doing<T> = (Pin<Box<dyn Future<Output = T> + Send>>, Box<dyn FnOnce(T) + Send>);

impl<T: Send + 'static> ToTheEnd<T> {
    /// Whoever drops it leaves what comes of `doing` to `unheard`.
    pub fn new(
        doing: impl Future<Output = T> + Send + 'static,
        unheard: impl FnOnce(T) + Send + 'static,
    ) -> Self {
        Self(Some((Box::pin(doing), Box::new(unheard))))
    }
}

impl<T: Send + 'static> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some((doing, _)) = &mut self.0 else { return Poll::Pending };
        let done = doing.as_mut().poll(context);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        let Some((doing, unheard)) = self.0.take() else { return };
        give_back(async move { unheard(doing.await) });
    }
}

impl<T: Send + 'static> Debug for ToTheEnd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToTheEnd").field(&self.0.is_some()).finish()
    }
}

/// How much is being given back by tasks of this process, and who wants to know when that is done.
static GIVING_BACK: AtomicUsize = AtomicUsize::new(0);
static GIVEN_BACK: Notify = Notify::const_new();

/// Waits until all that was held or waited for, and is not any more, has been given back: for a program that
/// is about to end, and has no requests any more. One that ends before leaves its permits to their leases. While a
/// store is away this lasts for as long as the leases do.
pub async fn given_back() {
    loop {
        let mut heard = pin!(GIVEN_BACK.notified());
        heard.as_mut().enable();
        if GIVING_BACK.load(Ordering::Acquire) == 0 {
            return;
        }
        heard.await;
    }
}

/// Counted until it is dropped, be that with the runtime.
struct Counted;

impl Counted {
    fn new() -> Self {
        GIVING_BACK.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if GIVING_BACK.fetch_sub(1, Ordering::Release) == 1 {
            GIVEN_BACK.notify_waiters();
        }
    }
}

fn give_back(future: impl Future<Output = ()> + Send + 'static) {
    let counted = Counted::new();
    spawn(async move {
        future.await;
        drop(counted);
    });
}

fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
    // Without a runtime the program is at its end.
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.spawn(future).abort_handle())
}
