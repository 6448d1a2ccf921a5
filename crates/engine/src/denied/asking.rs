//! Owns [`Asking`]: of a key that was denied lately one caller asks the store at a time. What he is told
//! is mostly that nothing is left, and that may be told to everybody who came meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tollkeeper_core::{Answer, Check};

use super::{Denied, can_hold, named};
use crate::guard::{Deadline, Guard};

/// The most who wait for one caller; further ones ask for themselves.
const MOST_WAITING: usize = 16_384;

/// For so many callers somebody waits, one after the other, before he asks for himself: it is twice as a
/// rule, and more if what they were told helps nobody.
const MOST_WAITS: usize = 8;

impl Denied {
    /// Lets a request that no denial answers wait while somebody else asks.
    pub(crate) async fn wait(
        &self,
        guard: &Guard,
        checks: &[Check<'_>],
        deadline: Deadline,
    ) -> Told {
        let mut sent_us = deadline.began_us();
        for _ in 0..MOST_WAITS {
            let waiting = match self.turn(checks) {
                Turn::Free => break,
                Turn::Lead(lead) => return Told::Ask { lead: Some(lead), sent_us },
                Turn::Wait(waiting) => waiting,
            };
            let waited = guard.wait(deadline, waiting.end()).await;
            sent_us = guard.now_us();
            // What was denied at any moment since it came is denied.
            if let Some(answer) = self.find(checks, deadline.began_us(), sent_us) {
                return Told::Denied(answer.into());
            }
            if waited.is_err() {
                return Told::Nothing;
            }
        }
        Told::Ask { lead: None, sent_us }
    }

    /// What somebody is to do whose request no denial answers.
    fn turn(&self, checks: &[Check<'_>]) -> Turn {
        for check in checks.iter().filter(|check| can_hold(check)) {
            let name = named(check);
            let mut table = self.table(&name).lock();
            let Some(entry) = table.entries.get_mut(&name) else { continue };
            if entry.quota != *check.quota {
                continue;
            }
            if let Some(left) = entry.left.checked_sub(check.cost) {
                entry.left = left;
                continue;
            }
            if let Some(asking) = entry.asking.as_ref().filter(|asking| !asking.has_ended()) {
                return asking.join().map_or(Turn::Free, Turn::Wait);
            }
            let asking = entry.asking.insert(Arc::default());
            return Turn::Lead(Lead(Arc::clone(asking)));
        }
        Turn::Free
    }
}

/// Somebody's question, until it is answered or given up.
#[derive(Debug, Default)]
pub(super) struct Asking {
    has_ended: AtomicBool,
    waiting: AtomicUsize,
    ended: Notify,
}

impl Asking {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Takes a place among those who wait, if there is one.
    fn join(self: &Arc<Self>) -> Option<Waiting> {
        let waiting = Waiting(Arc::clone(self));
        (self.waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

/// Whoever asks. Its end, however it comes, lets those go who wait.
#[derive(Debug)]
pub(crate) struct Lead(Arc<Asking>);

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.ended.notify_waiters();
    }
}

/// Whoever waits for him.
#[derive(Debug)]
struct Waiting(Arc<Asking>);

impl Waiting {
    /// Ends when the question has.
    async fn end(&self) {
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
enum Turn {
    /// Ask, as everybody.
    Free,
    /// Ask, for others too.
    Lead(Lead),
    /// Wait for what somebody else is told.
    Wait(Waiting),
}
