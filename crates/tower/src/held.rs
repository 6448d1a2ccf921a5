//! What must be given back whatever becomes of a request: a permit, or the charge of one that gave
//! up while it waited. A future that is dropped cannot wait, so a task does it.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use tollkeeper_core::Store;
use tollkeeper_engine::{Engine, Handle, Verdict};

/// Something that is given back when it is dropped.
pub(crate) trait Held: Debug + Send + Sync {}

/// A permit of a concurrency limit.
#[derive(Debug)]
pub(crate) struct Permit<S: Store + 'static, L: Store + 'static> {
    pub(crate) engine: Arc<Engine<S, L>>,
    pub(crate) handle: Option<Handle>,
}

impl<S: Store + Debug, L: Store + Debug> Held for Permit<S, L> {}

impl<S: Store + 'static, L: Store + 'static> Drop for Permit<S, L> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let engine = Arc::clone(&self.engine);
        // One that cannot be given back ends by itself.
        spawn(async move { drop(engine.release(&handle).await) });
    }
}

/// A request that was charged and waits for its turn.
#[derive(Debug)]
pub(crate) struct Waiting<S: Store + 'static, L: Store + 'static> {
    pub(crate) engine: Arc<Engine<S, L>>,
    pub(crate) verdict: Option<Box<Verdict>>,
}

impl<S: Store + 'static, L: Store + 'static> Waiting<S, L> {
    /// Its turn has come.
    pub(crate) fn goes(mut self) -> Option<Box<Verdict>> {
        self.verdict.take()
    }
}

impl<S: Store + 'static, L: Store + 'static> Drop for Waiting<S, L> {
    fn drop(&mut self) {
        let Some(verdict) = self.verdict.take() else { return };
        let engine = Arc::clone(&self.engine);
        spawn(async move { drop(engine.undo(&verdict).await) });
    }
}

fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    // Without a runtime the program is at its end.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(future);
    }
}
