//! Owns [`RedisStore`]: requests as script calls to whoever holds their keys, and their answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Colocate, Entry, Filter, Hears, Part, RedisUrl, Request,
    Store, StoreError,
};

use crate::call::{Terms, Told, amend_call, amended, answer, state_keys, unreadable};
use crate::driver::{Ear, Fault, Reply};
use crate::error::{of_limits, store_error};
use crate::hearsay::{self, Listen, Listeners};
use crate::look;
use crate::merge::{Aside, Asked, Carrier, Merger};
use crate::names::{Naming, tagged};
use crate::script::{AMEND, Call, DECIDE, Script};
use crate::topology::{Topology, Way};

/// The least time that opening a connection may take.
const CONNECT_PATIENCE: Duration = Duration::from_millis(350);

/// Where keys lie, whose time counts, and how the server is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Begins every key.
    pub prefix: String,
    /// Which keys' states lie together where they are spread.
    pub colocate: Colocate,
    /// Decides by this time instead of the server's, for simulations and tests.
    pub virtual_clock: Option<Arc<dyn Clock>>,
    /// How many connections are held to each server.
    pub connections: usize,
    /// Whether checks that wait at the same moment go to a server together.
    pub merge: bool,
    /// How long opening a connection may take; more for a server that is far away.
    pub connect_patience: Duration,
    /// A PEM text of the authorities that are trusted instead of the system's.
    pub ca: Option<Vec<u8>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "rl".to_owned(),
            colocate: Colocate::default(),
            virtual_clock: None,
            connections: 2,
            merge: true,
            connect_patience: CONNECT_PATIENCE,
            ca: None,
        }
    }
}

/// A store on Redis or Valkey: one server, the master that sentinels name, or a cluster.
#[derive(Debug)]
pub struct RedisStore {
    merger: Arc<Merger<Servers>>,
    settings: Settings,
    amend: Script,
    hearsay: Listeners,
}

/// The servers, and what they are asked to decide with.
#[derive(Debug)]
struct Servers {
    topology: Topology,
    place: String,
    decide: Script,
}

impl Servers {
    fn error(&self, fault: &Fault) -> StoreError {
        store_error(&self.place, fault)
    }

    /// Where the keys of a call lie.
    fn holder(&self, call: &Call) -> Way<'_> {
        self.topology.holder(call.keys.first().map_or("", String::as_str))
    }

    /// What the script answered to the `nth` of its requests.
    fn told(&self, terms: &Terms, reply: &Reply, nth: usize) -> Told {
        match terms.told(reply, nth) {
            Some(told) => told.map_err(|fault| self.error(&fault)),
            None => Err(unreadable()),
        }
    }
}

impl Carrier for Servers {
    async fn carry_one(&self, terms: &Terms, keys: Vec<String>, aside: Aside<'_>) -> Told {
        let call = terms.call(keys);
        match self.decide.run(&self.holder(&call).stepping(aside), &call).await {
            Ok(reply) => self.told(terms, &reply, 0),
            Err(fault) => Err(self.error(&fault)),
        }
    }

    async fn carry(
        &self,
        terms: &Terms,
        mut keys: Vec<Vec<String>>,
        aside: Aside<'_>,
    ) -> Vec<Told> {
        let count = keys.len();
        if count == 1 {
            return vec![self.carry_one(terms, keys.swap_remove(0), aside).await];
        }
        let call = terms.call(keys.into_iter().flatten().collect());
        let way = self.holder(&call).without_waiting().stepping(aside);
        match self.decide.run(&way, &call).await {
            Ok(reply) => (0..count).map(|nth| self.told(terms, &reply, nth)).collect(),
            // Some of the keys are on their way to another node, and nothing ran. Those of each
            // request are here or there.
            Err(fault) if fault.says("TRYAGAIN") => {
                let each = call.keys.chunks((call.keys.len() / count).max(1));
                join_all(each.map(|keys| self.carry_one(terms, keys.to_vec(), aside))).await
            }
            Err(fault) => vec![Err(self.error(&fault)); count],
        }
    }
}

/// The servers, as long as the store is there.
struct Within(Weak<Merger<Servers>>);

impl Listen for Within {
    async fn listen(&self, channel: &str) -> Option<Result<Ear, Fault>> {
        let merger = self.0.upgrade()?;
        Some(merger.carrier().topology.listen(channel).await)
    }
}

impl RedisStore {
    /// A store on the server at `url`, which need not be there yet: connections are opened, and
    /// opened again, in the background. Needs a runtime.
    pub fn open(url: &RedisUrl, settings: Settings) -> Result<Self, StoreError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::did_not_run("connections need a Tokio runtime to live in"));
        }
        let place = url.place();
        let topology =
            Topology::open(url, &settings).map_err(|fault| store_error(&place, &fault))?;
        let servers = Servers { topology, place, decide: Script::new(DECIDE) };
        let merger = Merger::new(servers);
        Ok(Self { merger, settings, amend: Script::new(AMEND), hearsay: Listeners::default() })
    }

    /// The same, once the server is there and is one that can be used.
    pub async fn connect(url: &RedisUrl, settings: Settings) -> Result<Self, StoreError> {
        let store = Self::open(url, settings)?;
        store.opened().await?;
        Ok(store)
    }

    fn servers(&self) -> &Servers {
        self.merger.carrier()
    }

    fn topology(&self) -> &Topology {
        &self.servers().topology
    }

    /// What every key begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.settings.prefix
    }

    /// Which keys' states lie together.
    #[must_use]
    pub fn colocate(&self) -> Colocate {
        self.settings.colocate
    }

    fn naming(&self) -> Naming<'_> {
        Naming { prefix: &self.settings.prefix, colocate: self.settings.colocate }
    }

    /// The time that counts, where it is not the server's own.
    fn now_us(&self) -> Option<u64> {
        self.settings.virtual_clock.as_ref().map(|clock| clock.now_us())
    }

    async fn amend_one(&self, amendment: &Amendment<'_>) -> Result<Amended, StoreError> {
        let call = amend_call(self.naming(), self.now_us(), amendment)?;
        let servers = self.servers();
        let replied = self.amend.run(&servers.holder(&call), &call).await;
        let replied = replied
            .map_err(|fault| of_limits(servers.error(&fault), std::iter::once(amendment.limit)))?;
        let numbers = replied.wholes().ok_or_else(unreadable)?;
        amended(amendment.change, &numbers).ok_or_else(unreadable)
    }
}

impl Store for RedisStore {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        join_all(requests.iter().map(|request| self.decide_one(request))).await
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let terms = Terms::of(self.now_us(), request);
        let keys = state_keys(self.naming(), request);
        let Part { shard, slot } = self.topology().part(keys.first().map_or("", String::as_str));
        let told = match self.settings.merge {
            true => self.merger.ask(shard, Asked { terms, slot, keys }).await,
            false => self.servers().carry_one(&terms, keys, Aside::NOBODY).await,
        };
        let limits = || request.checks().iter().map(|check| check.limit);
        answer(request, &told.map_err(|error| of_limits(error, limits()))?)
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        join_all(amendments.iter().map(|amendment| self.amend_one(amendment))).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let reset = look::reset(self.topology(), &self.settings.prefix, filter).await;
        // Also where it failed: some of it may have been done.
        hearsay::tell_of_anything(self.topology(), &self.settings.prefix).await;
        reset.map_err(|fault| self.servers().error(&fault))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let shown = look::inspect(self.topology(), &self.settings.prefix, filter, most).await;
        shown.map_err(|fault| self.servers().error(&fault))
    }

    async fn opened(&self) -> Result<(), StoreError> {
        self.topology().opened().await.map_err(|fault| self.servers().error(&fault))
    }

    fn tell(&self, hears: Arc<dyn Hears>) {
        let servers = Within(Arc::downgrade(&self.merger));
        self.hearsay.add(servers, self.settings.prefix.clone(), hears);
    }

    fn part(&self, key: &str) -> Part {
        self.topology().part(&tagged(self.naming(), key))
    }

    fn shards(&self) -> usize {
        self.topology().shards()
    }

    fn is_used(&self, shard: usize) -> bool {
        self.topology().is_used(shard)
    }

    fn shard_name(&self, shard: usize) -> String {
        self.topology().shard_name(shard).unwrap_or_else(|| self.servers().place.clone())
    }
}
