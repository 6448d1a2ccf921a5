//! What must be given back whatever becomes of a request: a permit, or the charge of one that gave
//! up while it waited. A future that is dropped cannot wait, so a task does it.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tollkeeper_core::Store;
use tollkeeper_engine::{Engine, EngineError, Handle, HandleKind, Judgement, Undecided, Verdict};

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
    pub(crate) fn of<S, L>(engine: &Arc<Engine<S, L>>, verdict: &Verdict) -> Option<Self>
    where
        S: Store + Debug + 'static,
        L: Store + Debug + 'static,
    {
        let handle = verdict.handle().filter(|handle| handle.kind() == HandleKind::Permit)?;
        let lease = Duration::from_micros(verdict.lease_us()?);
        let renewing = spawn(renew(Arc::clone(engine), handle.clone(), lease / RENEWALS));
        let permit = Permit { engine: Arc::clone(engine), handle: handle.clone(), renewing };
        Some(Self { _held: Arc::new(permit) })
    }
}

/// A permit of a concurrency limit.
#[derive(Debug)]
struct Permit<S: Store + 'static, L: Store + 'static> {
    engine: Arc<Engine<S, L>>,
    handle: Handle,
    renewing: Option<AbortHandle>,
}

impl<S: Store + Debug, L: Store + Debug> Held for Permit<S, L> {}

impl<S: Store + 'static, L: Store + 'static> Drop for Permit<S, L> {
    fn drop(&mut self) {
        if let Some(renewing) = self.renewing.take() {
            renewing.abort();
        }
        let (engine, handle) = (Arc::clone(&self.engine), self.handle.clone());
        // One that cannot be given back ends by itself.
        spawn(async move { drop(engine.release(&handle).await) });
    }
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
        spawn(async move { drop(engine.undo(&verdict).await) });
    }
}

/// Waits for the store's decision, whether or not the client does: a permit that it gives to one who
/// has gone is given back.
pub(crate) async fn judge_to_the_end<S, L>(
    engine: Arc<Engine<S, L>>,
    undecided: Undecided,
) -> Result<Judgement, EngineError>
where
    S: Store + Debug + 'static,
    L: Store + Debug + 'static,
{
    let (told, tells) = oneshot::channel();
    spawn(async move {
        let judged = Some(engine.judge_waiting(undecided).await);
        let _ = told.send(Judged { engine, judged });
    });
    let told: Result<Judged<S, L>, _> = tells.await;
    let judged = told.ok().and_then(|mut told| told.judged.take());
    judged.unwrap_or(Err(EngineError::Unfit("the program is at its end")))
}

/// What was decided, until somebody takes it.
struct Judged<S: Store + Debug + 'static, L: Store + Debug + 'static> {
    engine: Arc<Engine<S, L>>,
    judged: Option<Result<Judgement, EngineError>>,
}

impl<S: Store + Debug, L: Store + Debug> Drop for Judged<S, L> {
    fn drop(&mut self) {
        if let Some(Ok(Judgement::Decided(verdict))) = &self.judged {
            drop(InFlight::of(&self.engine, verdict));
        }
    }
}

fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
    // Without a runtime the program is at its end.
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    Some(runtime.spawn(future).abort_handle())
}
