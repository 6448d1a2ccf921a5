//! Owns [`Reservation`]: an estimate that is charged now and settled later, or given back.

use tollkeeper_core::Amended;
use tollkeeper_engine::Handle;

use crate::Error;
use crate::decision::Decision;
use crate::limiter::Tollkeeper;

/// A charge whose real cost is not known yet. One that is dropped before it is
/// [settled](Self::settle) is given back, so that a handler that fails, or whose client has gone,
/// costs nothing.
///
/// ```
/// use tollkeeper::{Limit, Tollkeeper};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollkeeper::Error> {
/// let limiter = Tollkeeper::memory().limit("tokens", Limit::per_day(1000)).build();
///
/// let reservation = limiter.reservation("tokens", "alice", 500).await?;
/// assert!(reservation.decision().allowed());
/// let used = 120; // whatever the work turned out to cost
/// reservation.settle(used).await?;
///
/// assert_eq!(limiter.peek("tokens", "alice").await?.remaining(), 880);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    limiter: Tollkeeper,
    decision: Decision,
    open: Option<Handle>,
}

impl Reservation {
    pub(crate) fn new(limiter: Tollkeeper, decision: Decision) -> Self {
        let open = decision.handle().cloned();
        Self { limiter, decision, open }
    }

    /// Whether the estimate was admitted, and the numbers. One that was not holds nothing.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Charges or gives back the difference to what it really cost.
    pub async fn settle(mut self, actual: u64) -> Result<Amended, Error> {
        match self.open.take() {
            Some(handle) => self.limiter.settle(&handle, actual).await,
            None => Ok(Amended::Unknown),
        }
    }

    /// Lets the estimate stand.
    pub fn keep(mut self) {
        self.open = None;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(handle) = self.open.take() else { return };
        // What is dropped cannot wait, so a task does it; without a runtime the program is at its
        // end, and the estimate stands.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let limiter = self.limiter.clone();
        runtime.spawn(async move { drop(limiter.cancel(&handle).await) });
    }
}
