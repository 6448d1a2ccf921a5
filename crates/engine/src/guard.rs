//! Owns [`Guard`]: no call to the store waits past its deadline, and a store that fails is not
//! asked.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use tollkeeper_core::{About, StoreError, format_duration};

use crate::breaker::{Breaker, BreakerState, Turn};
use crate::observe::{Observer, StoreChange};
use crate::timer::Timer;

/// The most calls to the store at once; further ones fail at once.
pub const MAX_IN_FLIGHT: usize = 1024;

/// A probe that nobody has ended after so long counts as lost. No decision takes that long.
const PROBE_PATIENCE_US: u64 = 20_000_000;

/// How the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// What the breaker says.
    pub breaker: BreakerState,
    /// How long the store has been down; 0 while it is up.
    pub down_for_us: u64,
}

impl Health {
    /// Nothing is wrong.
    pub(crate) const WELL: Self = Self { breaker: BreakerState::Closed, down_for_us: 0 };
}

/// When a decision began, and when it must be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    began_us: u64,
    /// When the store is asked, which may be later.
    sent_us: u64,
    at_us: u64,
}

/// Stands between the engine and a store that can fail.
#[derive(Debug)]
pub(crate) struct Guard {
    timer: Arc<dyn Timer>,
    observer: Arc<dyn Observer>,
    breaker: Mutex<Breaker>,
    in_flight: AtomicUsize,
    timeout_us: AtomicU64,
}

impl Deadline {
    /// When the decision began.
    pub(crate) fn began_us(self) -> u64 {
        self.began_us
    }

    /// The same of a decision for which the store is asked at `sent_us`.
    pub(crate) fn sent(self, sent_us: u64) -> Self {
        Self { sent_us, ..self }
    }

    /// Whether a store that was silent until then failed. One that has let somebody wait for half of what
    /// a decision has did, or nobody would ever find out; one that was asked in the last moment, or by
    /// somebody without patience, may be well.
    fn tells_of_the_store(self, now_us: u64) -> bool {
        now_us.saturating_sub(self.sent_us) >= self.at_us.saturating_sub(self.began_us) / 2
    }
}

impl Guard {
    pub(crate) fn new(
        timer: Arc<dyn Timer>,
        observer: Arc<dyn Observer>,
        timeout_us: u64,
        seed: u64,
    ) -> Self {
        let breaker = Mutex::new(Breaker::new(seed, PROBE_PATIENCE_US));
        let in_flight = AtomicUsize::new(0);
        Self { timer, observer, breaker, in_flight, timeout_us: AtomicU64::new(timeout_us) }
    }

    pub(crate) fn observed(&mut self, observer: Arc<dyn Observer>) {
        self.observer = observer;
    }

    /// How long further decisions may wait.
    pub(crate) fn set_timeout(&self, timeout_us: u64) {
        self.timeout_us.store(timeout_us, Ordering::Relaxed);
    }

    fn timeout_us(&self) -> u64 {
        self.timeout_us.load(Ordering::Relaxed)
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.timer.now_us()
    }

    /// The deadline of a decision that begins now.
    pub(crate) fn begin(&self) -> Deadline {
        let began_us = self.timer.now_us();
        Deadline { began_us, sent_us: began_us, at_us: began_us + self.timeout_us() }
    }

    pub(crate) fn is_past(&self, deadline: Deadline) -> bool {
        self.timer.now_us() >= deadline.at_us
    }

    pub(crate) fn health(&self) -> Health {
        let breaker = self.breaker.lock();
        Health { breaker: breaker.state(), down_for_us: breaker.down_for_us(self.timer.now_us()) }
    }

    /// What `call` answers, unless the store is not to be asked or does not answer by the
    /// deadline. A call that was begun is never begun again. `name` is what the server is called.
    pub(crate) async fn call<T>(
        &self,
        deadline: Deadline,
        name: impl Fn() -> String,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut under_way = self.enter(deadline, &name)?;
        let answered = self.by(deadline.at_us, call).await;
        under_way.ended = true;
        let now_us = self.timer.now_us();
        self.observer.store_called(now_us.saturating_sub(deadline.sent_us));
        match &answered {
            Some(answered) => {
                self.learn(deadline.sent_us, now_us, &name, answered.as_ref().err());
            }
            None => self.hear_nothing(deadline, now_us, &name, &no_answer(self.timeout_us())),
        }
        answered.unwrap_or_else(|| Err(no_answer(self.timeout_us())))
    }

    /// Waits for an event, and not past the deadline.
    pub(crate) async fn wait(
        &self,
        deadline: Deadline,
        event: impl Future<Output = ()>,
    ) -> Result<(), StoreError> {
        self.by(deadline.at_us, event).await.ok_or_else(|| no_answer(self.timeout_us()))
    }

    /// Gives back what a call was charged. It goes whatever the breaker says and however many are
    /// under way, and it is begun even at the deadline; whether it was answered by then is told.
    pub(crate) async fn give_back<T>(
        &self,
        deadline: Deadline,
        name: impl Fn() -> String,
        call: impl Future<Output = Result<T, StoreError>>,
    ) {
        let mut owed = Owed { guard: self, name: &name, paid: false };
        let answered = self.by(deadline.at_us, call).await;
        owed.paid = true;
        if let Err(error) = answered.unwrap_or_else(|| Err(no_answer(self.timeout_us()))) {
            self.observer.kept_charge(&name(), &error);
        }
    }

    /// The same without the breaker, for calls that are long and rare.
    pub(crate) async fn call_patiently<T>(
        &self,
        patience_us: u64,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let answered = self.by(self.timer.now_us() + patience_us, call).await;
        answered.unwrap_or_else(|| Err(no_answer(patience_us)))
    }

    fn enter<'a, N: Fn() -> String>(
        &'a self,
        deadline: Deadline,
        name: &'a N,
    ) -> Result<UnderWay<'a, N>, StoreError> {
        let others = self.in_flight.fetch_add(1, Ordering::Relaxed);
        // From here on it is counted, and so uncounted on every way out.
        let mut under_way = UnderWay { guard: self, deadline, name, ended: true };
        if others >= MAX_IN_FLIGHT {
            let message = format!("{MAX_IN_FLIGHT} calls to the store are under way");
            return Err(StoreError::did_not_run(message));
        }
        if !self.breaker.lock().admits(deadline.sent_us, others) {
            return Err(StoreError::did_not_run("the store is down"));
        }
        under_way.ended = false;
        Ok(under_way)
    }

    /// What `call` answers by `at_us`.
    async fn by<T>(&self, at_us: u64, call: impl Future<Output = T>) -> Option<T> {
        let mut call = pin!(call);
        let mut deadline = self.timer.at(at_us);
        poll_fn(|context| {
            // An answer that is there counts, however late somebody looks.
            if let Poll::Ready(answered) = call.as_mut().poll(context) {
                return Poll::Ready(Some(answered));
            }
            deadline.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    /// Nobody waits any longer for an answer.
    fn hear_nothing(
        &self,
        deadline: Deadline,
        now_us: u64,
        name: &impl Fn() -> String,
        error: &StoreError,
    ) {
        if deadline.tells_of_the_store(now_us) {
            self.learn(deadline.sent_us, now_us, name, Some(error));
        } else {
            self.breaker.lock().abandoned(deadline.sent_us);
        }
    }

    fn learn(
        &self,
        sent_us: u64,
        now_us: u64,
        name: &impl Fn() -> String,
        error: Option<&StoreError>,
    ) {
        let turn = {
            let mut breaker = self.breaker.lock();
            match error.map(StoreError::about) {
                None | Some(About::State) => breaker.answered(sent_us, now_us),
                Some(About::Way) => breaker.unreached(sent_us, now_us),
                Some(About::Process) => return breaker.abandoned(sent_us),
                Some(_) => breaker.failed(sent_us, now_us),
            }
        };
        if let Some(error) = error.filter(|error| error.is_of_state()) {
            self.observer.state_failed(error);
        }
        let change = match turn {
            None => return,
            Some(Turn::Up { after_us }) => StoreChange::Up { after_us },
            Some(Turn::Down) => {
                StoreChange::Down { reason: error.map_or_else(String::new, ToString::to_string) }
            }
        };
        self.observer.store_changed(&name(), &change);
    }
}

fn no_answer(within_us: u64) -> StoreError {
    let within = format_duration(within_us);
    StoreError::may_have_run(format!("the store gave no answer within {within}"))
}

/// A charge that is being given back. Its caller may go away before that was answered.
struct Owed<'a, N: Fn() -> String> {
    guard: &'a Guard,
    name: &'a N,
    paid: bool,
}

impl<N: Fn() -> String> Drop for Owed<'_, N> {
    fn drop(&mut self) {
        if !self.paid {
            let error = StoreError::may_have_run("nobody waited for the answer");
            self.guard.observer.kept_charge(&(self.name)(), &error);
        }
    }
}

/// A call that is counted until it ends, or its caller gives it up.
struct UnderWay<'a, N: Fn() -> String> {
    guard: &'a Guard,
    deadline: Deadline,
    name: &'a N,
    ended: bool,
}

impl<N: Fn() -> String> Drop for UnderWay<'_, N> {
    fn drop(&mut self) {
        self.guard.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.ended {
            return;
        }
        let error = StoreError::may_have_run("nobody waited for the answer");
        self.guard.hear_nothing(self.deadline, self.guard.timer.now_us(), self.name, &error);
    }
}
