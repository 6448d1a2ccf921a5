//! Owns [`RedisStore`]: requests as script calls to one server, and their answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tollkeeper_core::{
    Amended, Amendment, Answer, Clock, Colocate, Entry, Filter, RedisUrl, Request, Store,
    StoreError,
};

use crate::call::{amend_call, amended, answer, decide_call};
use crate::connections::Connections;
use crate::driver::{Client, Fault, Reply};
use crate::error::store_error;
use crate::look;
use crate::names::Naming;
use crate::script::{AMEND, DECIDE, Script};

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
    /// How many connections are held.
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

/// A store on one Redis or Valkey server.
#[derive(Debug)]
pub struct RedisStore {
    connections: Connections<Client>,
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
        let client = Client::new(url, settings.ca.as_deref(), settings.connect_patience)
            .map_err(|fault| store_error(&place, &fault))?;
        let connections = Connections::open(client, settings.connections);
        let (decide, amend) = (Script::new(DECIDE), Script::new(AMEND));
        Ok(Self { connections, settings, place, decide, amend })
    }

    /// The same, once the server is there and is one that can be used.
    pub async fn connect(url: &RedisUrl, settings: Settings) -> Result<Self, StoreError> {
        let store = Self::open(url, settings)?;
        store.opened().await?;
        Ok(store)
    }

    /// Waits until a connection is open, or none could be opened.
    pub async fn opened(&self) -> Result<(), StoreError> {
        self.connections.opened().await.map_err(|fault| self.error(&fault))
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

    async fn amend_one(&self, amendment: &Amendment<'_>) -> Result<Amended, StoreError> {
        let call = amend_call(self.naming(), self.now_us(), amendment)?;
        let replied = self.amend.run(&self.connections, &call).await;
        match numbers(&replied.map_err(|fault| self.error(&fault))?)?.as_slice() {
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
        let replied = self.decide.run(&self.connections, &call).await;
        answer(request, &numbers(&replied.map_err(|fault| self.error(&fault))?)?)
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        join_all(amendments.iter().map(|amendment| self.amend_one(amendment))).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        let reset = look::reset(&self.connections, &self.settings.prefix, filter).await;
        reset.map_err(|fault| self.error(&fault))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        let shown = look::inspect(&self.connections, &self.settings.prefix, filter, most).await;
        shown.map_err(|fault| self.error(&fault))
    }
}
