//! Owns [`RedisStore`]: requests as script calls to whoever holds their keys, and their answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Colocate, Entry, Filter, Part, RedisUrl, Request, Store,
    StoreError,
};

use crate::call::{amend_call, amended, answer, decide_call};
use crate::driver::{Fault, Reply};
use crate::error::store_error;
use crate::look;
use crate::names::{Naming, tagged};
use crate::script::{AMEND, Call, DECIDE, Script};
use crate::topology::Topology;

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
            connect_patience: CONNECT_PATIENCE,
            ca: None,
        }
    }
}

/// A store on Redis or Valkey: one server, the master that sentinels name, or a cluster.
#[derive(Debug)]
pub struct RedisStore {
    topology: Topology,
    settings: Settings,
    place: String,
    decide: Script,
    amend: Script,
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
        let (decide, amend) = (Script::new(DECIDE), Script::new(AMEND));
        Ok(Self { topology, settings, place, decide, amend })
    }

    /// The same, once the server is there and is one that can be used.
    pub async fn connect(url: &RedisUrl, settings: Settings) -> Result<Self, StoreError> {
        let store = Self::open(url, settings)?;
        store.opened().await?;
        Ok(store)
    }

    /// Waits until a connection is open, or none could be opened.
    pub async fn opened(&self) -> Result<(), StoreError> {
        self.topology.opened().await.map_err(|fault| self.error(&fault))
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

    fn error(&self, fault: &Fault) -> StoreError {
        store_error(&self.place, fault)
    }

    /// The time that counts, where it is not the server's own.
    fn now_us(&self) -> Option<u64> {
        self.settings.virtual_clock.as_ref().map(|clock| clock.now_us())
    }

    /// Runs a script where the keys of its call lie, and reads its numbers.
    async fn run(&self, script: &Script, call: &Call) -> Result<Vec<i64>, StoreError> {
        let way = self.topology.holder(call.keys.first().map_or("", String::as_str));
        let replied = script.run(&way, call).await;
        numbers(&replied.map_err(|fault| self.error(&fault))?)
    }

    async fn amend_one(&self, amendment: &Amendment<'_>) -> Result<Amended, StoreError> {
        let call = amend_call(self.naming(), self.now_us(), amendment)?;
        match self.run(&self.amend, &call).await?.as_slice() {
            &[what, forgiven] => Ok(amended((what, u64::try_from(forgiven).unwrap_or(0)))),
            _ => Err(unreadable()),
        }
    }
}

/// The numbers that a script answered.
fn numbers(reply: &Reply) -> Result<Vec<i64>, StoreError> {
    reply.wholes().ok_or_else(unreadable)
}

fn unreadable() -> StoreError {
    StoreError::may_have_run("the script's answer cannot be read")
}

impl Store for RedisStore {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        join_all(requests.iter().map(|request| self.decide_one(request))).await
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let call = decide_call(self.naming(), self.now_us(), request);
        answer(request, &self.run(&self.decide, &call).await?)
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        join_all(amendments.iter().map(|amendment| self.amend_one(amendment))).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let reset = look::reset(&self.topology, &self.settings.prefix, filter).await;
        reset.map_err(|fault| self.error(&fault))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let shown = look::inspect(&self.topology, &self.settings.prefix, filter, most).await;
        shown.map_err(|fault| self.error(&fault))
    }

    fn part(&self, key: &str) -> Part {
        self.topology.part(&tagged(self.naming(), key))
    }

    fn shards(&self) -> usize {
        self.topology.shards()
    }

    fn is_used(&self, shard: usize) -> bool {
        self.topology.is_used(shard)
    }

    fn shard_name(&self, shard: usize) -> String {
        self.topology.shard_name(shard).unwrap_or_else(|| self.place.clone())
    }
}
