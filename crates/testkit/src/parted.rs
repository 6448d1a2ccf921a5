//! A store of several parts: made of several stores, each of which fails by itself.

use tollkeeper_core::{
    Amended, Amendment, Answer, Entry, Filter, Part, Request, Store, StoreError,
};

/// Parts of each store: what it decides in one step.
const SLOTS: usize = 4;

/// Several stores as one. It takes no request across parts.
#[derive(Debug)]
pub struct Parted<S> {
    each: Vec<S>,
}

impl<S: Store> Parted<S> {
    /// A store of these.
    pub fn new(each: Vec<S>) -> Self {
        Self { each }
    }

    /// One of them.
    pub fn shard(&self, shard: usize) -> &S {
        &self.each[shard]
    }

    /// A key that begins with `stem` and lies on a shard.
    pub fn key_on(&self, shard: usize, stem: &str) -> String {
        let mut keys = (0..).map(|nth| format!("{stem}{nth}"));
        keys.find(|key| self.part(key).shard == shard).unwrap_or_default()
    }

    fn of(&self, key: &str) -> &S {
        &self.each[self.part(key).shard]
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let [first, others @ ..] = request.checks() else {
            return Err(StoreError::did_not_run("the request meets no limit"));
        };
        if others.iter().any(|check| self.part(check.key) != self.part(first.key)) {
            return Err(StoreError::did_not_run("the request lies in several parts"));
        }
        let mut answers = self.of(first.key).decide(std::slice::from_ref(request)).await;
        answers.pop().unwrap_or_else(|| Err(StoreError::did_not_run("no answer came")))
    }
}

impl<S: Store> Store for Parted<S> {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.decide_one(request).await);
        }
        answers
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        let mut amended = Vec::new();
        for amendment in amendments {
            let one = self.of(amendment.key).amend(std::slice::from_ref(amendment)).await;
            amended.extend(one);
        }
        amended
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for store in &self.each {
            forgotten += store.reset(filter).await?;
        }
        Ok(forgotten)
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let mut shown = Vec::new();
        for store in &self.each {
            shown.extend(store.inspect(filter, most - shown.len()).await?);
        }
        Ok(shown)
    }

    /// By the sum of its bytes, each with another weight.
    fn part(&self, key: &str) -> Part {
        let weighed = key.bytes().zip(1..).map(|(byte, weight)| usize::from(byte) * weight);
        let sum: usize = weighed.sum();
        let slot = u16::try_from(sum / self.each.len() % SLOTS).unwrap_or_default();
        Part { shard: sum % self.each.len(), slot }
    }

    fn shards(&self) -> usize {
        self.each.len()
    }

    fn shard_name(&self, shard: usize) -> String {
        format!("shard-{shard}")
    }
}
