//! What must be given back whatever becomes of a request: a permit, or the charge of one that gave
//! up while it waited. A future that is dropped cannot wait, so a task does it.

use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::AbortHandle;
use tollkeeper_core::Store;
use tollkeeper_engine::{
    Engine, EngineError, Handle, HandleKind, Returning, Returns, Undecided, Verdict,
};

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
        let (handle, lease) = permit_of(verdict)?;
        let engine = Arc::clone(engine);
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
        let releasing = release(Arc::clone(&self.engine), self.handle.clone(), self.lease);
        give_back(self.engine.returns().begin(), releasing);
    }
}

/// Gives back the permit of `verdict`, if it has one. Whoever does not wait for that leaves it to a task.
pub fn releasing<S, L>(engine: &Arc<Engine<S, L>>, verdict: &Verdict) -> Option<ToTheEnd<()>>
where
    S: Store + 'static,
    L: Store + 'static,
{
    let (handle, lease) = permit_of(verdict)?;
    let releasing = release(Arc::clone(engine), handle, lease);
    Some(ToTheEnd::new(engine.returns(), releasing, drop))
}

/// The permit of `verdict`, and how long it lasts.
fn permit_of(verdict: &Verdict) -> Option<(Handle, Duration)> {
    let handle = verdict.handle().filter(|handle| handle.kind() == HandleKind::Permit)?;
    Some((handle.clone(), Duration::from_micros(verdict.lease_us()?)))
}

/// Gives a permit back. Where the store is away it is tried again, until the permit has ended by itself: to
/// release one twice is nothing.
async fn release<S: Store, L: Store>(engine: Arc<Engine<S, L>>, handle: Handle, lease: Duration) {
    let released = async {
        while let Err(EngineError::Store(_)) =
            engine.returns().in_turn(engine.release(&handle)).await
        {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(lease, released).await;
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
        let returning = engine.returns().begin();
        let undoing = async move { drop(engine.returns().in_turn(engine.undo(&verdict)).await) };
        give_back(returning, undoing);
    }
}

/// Gives back what the store may hold for `verdict` though it never said so.
pub fn repay<S, L>(engine: &Arc<Engine<S, L>>, verdict: &Verdict)
where
    S: Store + 'static,
    L: Store + 'static,
{
    engine.repaying(verdict).and_then(spawn);
}

/// Waits for what a store has to be waited for to decide. A permit that it gives to one who has gone meanwhile
/// is given back, and so is one that it gives too late.
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
    let deciding = async move {
        let decided = deciding.check_waiting(undecided).await;
        decided.iter().for_each(|verdict| repay(&deciding, verdict));
        decided
    };
    let give_back = move |decided: Result<Verdict, EngineError>| {
        decided.iter().for_each(|verdict| drop(InFlight::of(&leaving, verdict)));
    };
    ToTheEnd::new(engine.returns(), deciding, give_back).await
}

/// What is done to its end whether or not somebody waits for it: if nobody does any more, by a task, which then
/// does with it whatever was said.
pub struct ToTheEnd<T: Send + 'static> {
    doing: Option<Doing<T>>,
    returns: Arc<Returns>,
}

type Doing<T> = (Pin<Box<dyn Future<Output = T> + Send>>, Box<dyn FnOnce(T) + Send>);

impl<T: Send + 'static> ToTheEnd<T> {
    /// Whoever drops it leaves what comes of `doing` to `unheard`. It then counts among what is given back.
    pub fn new(
        returns: &Arc<Returns>,
        doing: impl Future<Output = T> + Send + 'static,
        unheard: impl FnOnce(T) + Send + 'static,
    ) -> Self {
        let doing: Doing<T> = (Box::pin(doing), Box::new(unheard));
        Self { doing: Some(doing), returns: Arc::clone(returns) }
    }
}

impl<T: Send + 'static> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some((doing, _)) = &mut self.doing else { return Poll::Pending };
        let done = doing.as_mut().poll(context);
        if done.is_ready() {
            self.doing = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for ToTheEnd<T> {
    fn drop(&mut self) {
        let Some((doing, unheard)) = self.doing.take() else { return };
        give_back(self.returns.begin(), async move { unheard(doing.await) });
    }
}

impl<T: Send + 'static> Debug for ToTheEnd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToTheEnd").field(&self.doing.is_some()).finish()
    }
}

fn give_back(returning: Returning, future: impl Future<Output = ()> + Send + 'static) {
    spawn(async move {
        future.await;
        drop(returning);
    });
}

fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
    // Without a runtime the program is at its end.
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.spawn(future).abort_handle())
}
