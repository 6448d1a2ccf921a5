//! Owns [`Shards`]: several servers as one store, over which keys are spread by their hash tag.
//!
//! Each tag goes to the server that scores highest for it (rendezvous hashing), so a server that
//! joins or leaves moves its own share and nothing else, and their order does not matter. The score
//! is `XXH3_64(tag, seed = XXH3_64(name))`, where the name is the server's place: the same in every
//! process, version and language.

use std::sync::Arc;

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Colocate, Entry, Filter, Hears, MAX_SHARDS, Part, RedisUrl,
    Request, Store, StoreError,
};
use twox_hash::XxHash3_64;

use crate::names::tag;
use crate::store::{RedisStore, Settings};

/// Several servers as one store.
#[derive(Debug)]
pub struct Shards {
    each: Vec<Shard>,
    colocate: Colocate,
}

#[derive(Debug)]
struct Shard {
    store: RedisStore,
    place: Place,
}

/// What a server is called, and what its scores begin with.
#[derive(Debug)]
struct Place {
    name: String,
    seed: u64,
}

impl Place {
    fn new(name: String) -> Self {
        let seed = XxHash3_64::oneshot(name.as_bytes());
        Self { name, seed }
    }

    fn score(&self, tag: &str) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, tag.as_bytes())
    }
}

/// The place where a tag lies. Of equals it is the one that is named first in the alphabet.
fn place_of<'a>(places: impl Iterator<Item = &'a Place>, tag: &str) -> usize {
    let scored = places.enumerate().map(|(nth, place)| (place.score(tag), &place.name, nth));
    let best = scored.reduce(|best, next| match best.0.cmp(&next.0).then(next.1.cmp(best.1)) {
        std::cmp::Ordering::Less => next,
        _ => best,
    });
    best.map_or(0, |(_, _, nth)| nth)
}

impl Shards {
    /// A store on the servers at `urls`, which need not be there yet. Needs a runtime. `settings`
    /// are those of each of them.
    pub fn open(
        urls: &[RedisUrl],
        settings: impl Fn(&RedisUrl) -> Settings,
    ) -> Result<Self, StoreError> {
        if !(1..=MAX_SHARDS).contains(&urls.len()) {
            let count = urls.len();
            let message = format!("there are {count} servers; expected 1 to {MAX_SHARDS}");
            return Err(StoreError::did_not_run(message));
        }
        let mut colocate = Colocate::default();
        let opened = urls.iter().map(|url| {
            let settings = settings(url);
            colocate = settings.colocate;
            Ok(Shard { place: Place::new(url.place()), store: RedisStore::open(url, settings)? })
        });
        let each = opened.collect::<Result<_, StoreError>>()?;
        Ok(Self { each, colocate })
    }

    /// The same, once all servers are there and can be used.
    pub async fn connect(
        urls: &[RedisUrl],
        settings: impl Fn(&RedisUrl) -> Settings,
    ) -> Result<Self, StoreError> {
        let shards = Self::open(urls, settings)?;
        shards.opened().await?;
        Ok(shards)
    }

    /// What every key begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.each.first().map_or("", |shard| shard.store.prefix())
    }

    /// Which keys' states lie together.
    #[must_use]
    pub fn colocate(&self) -> Colocate {
        self.colocate
    }

    fn nth(&self, key: &str) -> usize {
        let places = self.each.iter().map(|shard| &shard.place);
        place_of(places, &tag(self.colocate, key))
    }

    fn of(&self, key: &str) -> &RedisStore {
        &self.each[self.nth(key)].store
    }

    /// The servers that hold what is meant: all, unless it is of one key.
    fn meant(&self, filter: Filter<'_>) -> Vec<&RedisStore> {
        match filter.key {
            Some(key) => vec![self.of(key)],
            None => self.each.iter().map(|shard| &shard.store).collect(),
        }
    }
}

impl Store for Shards {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        join_all(requests.iter().map(|request| self.decide_one(request))).await
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let nothing = || StoreError::did_not_run("the request meets no limit");
        let (first, others) = request.checks().split_first().ok_or_else(nothing)?;
        let nth = self.nth(first.key);
        if others.iter().any(|check| check.key != first.key && self.nth(check.key) != nth) {
            return Err(StoreError::did_not_run("the request's limits lie on several servers"));
        }
        self.each[nth].store.decide_one(request).await
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        let each = amendments.iter().map(|amendment| async move {
            let amended = self.of(amendment.key).amend(std::slice::from_ref(amendment)).await;
            let none = || Err(StoreError::may_have_run("no answer came"));
            amended.into_iter().next().unwrap_or_else(none)
        });
        join_all(each).await
    }

    /// Forgets on every server, also when one of them fails; that is then the error.
    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let each = join_all(self.meant(filter).into_iter().map(|store| store.reset(filter))).await;
        each.into_iter().sum()
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let each = self.meant(filter).into_iter().map(|store| store.inspect(filter, most));
        let mut shown = Vec::new();
        for entries in join_all(each).await {
            shown.extend(entries?);
        }
        shown.sort_by(|one: &Entry, other: &Entry| {
            (&one.key, &one.limit).cmp(&(&other.key, &other.limit))
        });
        shown.truncate(most);
        Ok(shown)
    }

    async fn opened(&self) -> Result<(), StoreError> {
        let opened = join_all(self.each.iter().map(|shard| shard.store.opened())).await;
        opened.into_iter().collect()
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        self.each.iter().for_each(|shard| shard.store.tell(Arc::clone(&hears)));
    }

    fn part(&self, key: &str) -> Part {
        Part { shard: self.nth(key), slot: 0 }
    }

    fn shards(&self) -> usize {
        self.each.len()
    }

    fn shard_name(&self, shard: usize) -> String {
        self.each.get(shard).map_or_else(String::new, |shard| shard.place.name.clone())
    }
}

#[cfg(test)]
mod tests;
