//! Owns [`Asking`]: of a key that was denied lately one caller asks the store at a time. What he is told
//! is mostly that nothing is left, and that may be told to everybody who came meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tollkeeper_core::Answer;

/// The most who wait for one caller; further ones ask for themselves.
const MOST_WAITING: usize = 16_384;

/// Somebody's question, until it is answered or given up.
#[derive(Debug, Default)]
pub(super) struct Asking {
    has_ended: AtomicBool,
    waiting: AtomicUsize,
    ended: Notify,
}

impl Asking {
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Takes a place among those who wait, if there is one.
    pub(super) fn join(self: &Arc<Self>) -> Option<Waiting> {
        let waiting = Waiting(Arc::clone(self));
        (self.waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

/// Whoever asks. Its end, however it comes, lets those go who wait.
#[derive(Debug)]
pub(crate) struct Lead(pub(super) Arc<Asking>);

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

/// Whoever waits for him.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Asking>);

impl Waiting {
    /// Ends when the question has.
    pub(super) async fn end(&self) {
        let ended = self.0.ended.notified();
        if !self.0.has_ended() {
            ended.await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Told {
    /// A denial.
    Denied(Box<Answer>),
    /// The deadline.
    Nothing,
    /// That he is to ask, and from when on that counts; for others too, if he leads.
    Ask { lead: Option<Lead>, sent_us: u64 },
}

/// What somebody is to do whose request no denial answers.
#[derive(Debug)]
pub(super) enum Turn {
    /// Ask, as everybody.
    Free,
    /// Ask, for others too.
    Lead(Lead),
    /// Wait for what somebody else is told.
    Wait(Waiting),
}
