//! A store that fails on demand: in front of one that does not.

use std::future::{Future, pending, poll_fn};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use tollkeeper_core::{
    Amended, Amendment, Answer, Entry, Filter, Part, Request, Store, StoreError,
};

/// How a call ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// As the store behind says.
    #[default]
    Well,
    /// Never; nothing reaches the store behind.
    Silent,
    /// Never, though the store behind has run it.
    RanSilent,
    /// As the store behind says, which has run it, as soon as the mood is another one. Nobody is woken
    /// by that: it is for who polls by hand.
    Slow,
    /// With an error; nothing reaches the store behind.
    Refusing,
    /// With an error that is about a key, not about the store.
    WrongState,
    /// With an error that is about this process, not about the store.
    Undecided,
    /// With an error that says that nothing was sent.
    Unreached,
    /// As the store behind says for the first of it, and with an error for the others.
    Partly,
}

/// A store that does as its mood is.
#[derive(Debug)]
pub struct FaultyStore<S> {
    behind: S,
    mood: Mutex<Mood>,
    /// From which call on it is another one.
    then: Mutex<Option<(usize, Mood)>>,
    calls: AtomicUsize,
}

impl<S: Store> FaultyStore<S> {
    /// Begins well.
    pub fn new(behind: S) -> Self {
        let (mood, then) = (Mutex::new(Mood::Well), Mutex::new(None));
        Self { behind, mood, then, calls: AtomicUsize::new(0) }
    }

    /// How further calls end.
    pub fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = mood;
    }

    /// How calls end after so many further ones.
    pub fn set_after(&self, calls: usize, mood: Mood) {
        let from = self.calls() + calls;
        *self.then.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((from, mood));
    }

    /// How many calls came.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The store behind.
    pub fn behind(&self) -> &S {
        &self.behind
    }

    fn mood(&self) -> Mood {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst);
        let then = *self.then.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, mood)) = then.filter(|(from, _)| nth >= *from) {
            return mood;
        }
        self.set_mood()
    }

    /// The mood that was set last.
    fn set_mood(&self) -> Mood {
        *self.mood.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn many<T>(
        &self,
        count: usize,
        call: impl Future<Output = Vec<Result<T, StoreError>>> + Send,
    ) -> Vec<Result<T, StoreError>> {
        let error = match self.mood() {
            Mood::Well => return call.await,
            Mood::Silent => return pending().await,
            Mood::RanSilent => {
                call.await;
                return pending().await;
            }
            Mood::Slow => {
                let answers = call.await;
                let is_slow = || self.set_mood() == Mood::Slow;
                poll_fn(|_| if is_slow() { Poll::Pending } else { Poll::Ready(()) }).await;
                return answers;
            }
            Mood::Partly => {
                let refused = || Err(StoreError::did_not_run("refused"));
                let first = call.await.into_iter().take(1);
                return first.chain(std::iter::repeat_with(refused)).take(count).collect();
            }
            Mood::Refusing => StoreError::did_not_run("refused"),
            Mood::WrongState => StoreError::unusable_state("a value that is not ours"),
            Mood::Undecided => StoreError::undecided_here("nothing to decide by"),
            Mood::Unreached => StoreError::unreached("no connection"),
        };
        (0..count).map(|_| Err(error.clone())).collect()
    }
}

impl<S: Store> Store for FaultyStore<S> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        self.many(requests.len(), self.behind.decide(requests)).await
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        self.many(amendments.len(), self.behind.amend(amendments)).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let mut one = self.many(1, async { vec![self.behind.reset(filter).await] }).await;
        one.remove(0)
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut one = self.many(1, async { vec![self.behind.inspect(filter, most).await] }).await;
        one.remove(0)
    }

    fn part(&self, key: &str) -> Part {
        self.behind.part(key)
    }

    fn shards(&self) -> usize {
        self.behind.shards()
    }

    fn shard_name(&self, shard: usize) -> String {
        self.behind.shard_name(shard)
    }
}
