//! Owns [`RedisStore`]: requests as script calls, and their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, RedisResult};
use tollkeeper_core::{
    Algorithm, Amended, Amendment, Answer, Change, Clock, Entry, Filter, LeakMode, Outcome, Quota,
    Request, State, Store, StoreError,
};

use crate::decode;
use crate::error::store_error;
use crate::names::{self, parse, permit_text, record_key, state_key};
use crate::script::{AMEND, Call, DECIDE, Script};

/// How long connecting may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// Keys that one step of a scan asks for.
const SCAN_COUNT: usize = 500;

/// Where keys lie, and whose time counts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Begins every key.
    pub prefix: String,
    /// Decides by this time instead of the server's, for simulations and tests.
    pub virtual_clock: Option<Arc<dyn Clock>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { prefix: "rl".to_owned(), virtual_clock: None }
    }
}

/// A store on one Redis or Valkey server.
#[derive(Debug)]
pub struct RedisStore {
    connection: Connection,
    settings: Settings,
    decide: Script,
    amend: Script,
}

/// The driver, which has no Debug.
struct Connection(ConnectionManager);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl RedisStore {
    /// Connects to the server at `url`.
    pub async fn connect(url: &str, settings: Settings) -> Result<Self, StoreError> {
        let connected = async {
            let client = redis::Client::open(url)?;
            let config = ConnectionManagerConfig::new()
                .set_number_of_retries(1)
                .set_connection_timeout(Some(CONNECT_PATIENCE));
            ConnectionManager::new_with_config(client, config).await
        };
        let connection = Connection(connected.await.map_err(|error| store_error(&error))?);
        let (decide, amend) = (Script::new(DECIDE), Script::new(AMEND));
        Ok(Self { connection, settings, decide, amend })
    }

    fn now_text(&self) -> String {
        let clock = self.settings.virtual_clock.as_ref();
        clock.map_or_else(String::new, |clock| clock.now_us().to_string())
    }

    async fn decide_one(&self, request: &Request<'_>) -> Result<Answer, StoreError> {
        let mut connection = self.connection.0.clone();
        let call = self.decide_call(request);
        let reply: Vec<i64> =
            self.decide.run(&mut connection, &call).await.map_err(|error| store_error(&error))?;
        answer(request, &reply)
            .ok_or_else(|| StoreError::may_have_run("the script's answer cannot be read"))
    }

    fn decide_call(&self, request: &Request<'_>) -> Call {
        let ticket = request.ticket();
        let life_us = ticket.and_then(|ticket| ticket.reserve_for_us);
        let mut call = Call::default();
        call.args.push(self.now_text());
        call.args.push(ticket.map_or_else(String::new, |ticket| permit_text(ticket.id)));
        call.args.push(life_us.map_or_else(String::new, |us| us.to_string()));
        for check in request.checks() {
            let algorithm = check.quota.algorithm();
            call.keys.push(state_key(&self.settings.prefix, check.limit, algorithm, check.key));
            call.args.push(algorithm.suffix().to_owned());
            call.args.push(check.cost.to_string());
            call.args.push(u8::from(check.shadow).to_string());
            call.args.extend(parameters(check.quota));
        }
        if let (Some(ticket), Some(_)) = (ticket, life_us) {
            let records: Vec<String> =
                call.keys.iter().map(|key| record_key(key, ticket.id)).collect();
            call.keys.extend(records);
        }
        call
    }

    async fn amend_one(&self, amendment: &Amendment<'_>) -> Result<Amended, StoreError> {
        let Amendment { limit, quota, key, change } = *amendment;
        let algorithm = quota.algorithm();
        let state = state_key(&self.settings.prefix, limit, algorithm, key);
        let mut call = Call::default();
        call.args.push(self.now_text());
        call.args.push(algorithm.suffix().to_owned());
        call.args.extend(parameters(quota));
        let mut say = |words: &[String]| call.args.extend_from_slice(words);
        match change {
            Change::Refund { units, charged_at_us } => {
                let at = charged_at_us.map_or_else(String::new, |us| us.to_string());
                say(&["refund".to_owned(), units.to_string(), at]);
            }
            Change::Settle { id, actual } => {
                say(&["settle".to_owned(), actual.to_string()]);
                call.keys.push(record_key(&state, id));
            }
            Change::Release { id } => say(&["release".to_owned(), permit_text(id)]),
            Change::Renew { id } => say(&["renew".to_owned(), permit_text(id)]),
            _ => return Err(StoreError::did_not_run("this change is not known here")),
        }
        call.keys.insert(0, state);
        let mut connection = self.connection.0.clone();
        let reply: (i64, u64) =
            self.amend.run(&mut connection, &call).await.map_err(|error| store_error(&error))?;
        Ok(match reply {
            (1, forgiven) => Amended::Done { forgiven },
            (2, _) => Amended::Repeated,
            _ => Amended::Unknown,
        })
    }

    /// Every key of ours, in no order. One key may come twice, as SCAN has it.
    async fn scan(&self) -> RedisResult<Vec<String>> {
        let mut connection = self.connection.0.clone();
        let pattern = names::pattern(&self.settings.prefix);
        let mut cursor = 0u64;
        let mut found = Vec::new();
        loop {
            let (next, keys): (u64, Vec<String>) = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg(&pattern)
                .arg("COUNT")
                .arg(SCAN_COUNT)
                .query_async(&mut connection)
                .await?;
            found.extend(keys);
            if next == 0 {
                found.sort_unstable();
                found.dedup();
                return Ok(found);
            }
            cursor = next;
        }
    }

    async fn reset_all(&self, filter: Filter<'_>) -> RedisResult<u64> {
        let mut connection = self.connection.0.clone();
        let mut states = 0;
        for name in self.scan().await? {
            let Some(parsed) = parse(&self.settings.prefix, &name) else { continue };
            if filter.matches(&parsed.limit, &parsed.key) {
                let gone: u64 = connection.unlink(&name).await?;
                states += if parsed.record { 0 } else { gone };
            }
        }
        Ok(states)
    }

    async fn inspect_some(&self, filter: Filter<'_>, most: usize) -> RedisResult<Vec<Entry>> {
        let mut shown = Vec::new();
        for name in self.scan().await? {
            let Some(parsed) = parse(&self.settings.prefix, &name) else { continue };
            if shown.len() == most || parsed.record || !filter.matches(&parsed.limit, &parsed.key) {
                continue;
            }
            let mut connection = self.connection.0.clone();
            let ttl_ms: i64 = connection.pttl(&name).await?;
            let Some(state) = self.read_state(parsed.algorithm, &name).await? else { continue };
            shown.push(Entry {
                limit: parsed.limit,
                algorithm: parsed.algorithm,
                key: parsed.key,
                state,
                ttl_us: u64::try_from(ttl_ms).unwrap_or(0).saturating_mul(1000),
            });
        }
        Ok(shown)
    }

    async fn read_state(&self, algorithm: Algorithm, name: &str) -> RedisResult<Option<State>> {
        let mut connection = self.connection.0.clone();
        Ok(match algorithm {
            Algorithm::SlidingWindowLog => {
                let elements: Vec<i64> = connection.lrange(name, 0, -1).await?;
                decode::list(&elements)
            }
            Algorithm::Concurrency => {
                let members: Vec<(String, f64)> = connection.zrange_withscores(name, 0, -1).await?;
                decode::sorted_set(&members)
            }
            _ => {
                let fields: HashMap<String, String> = connection.hgetall(name).await?;
                decode::hash(algorithm, &fields)
            }
        })
    }
}

/// A quota as the scripts take it: five numbers, of which some are not used.
fn parameters(quota: &Quota) -> [String; 5] {
    let numbers: [i128; 5] = match quota {
        Quota::TokenBucket(bucket) | Quota::Gcra(bucket) => {
            [bucket.capacity().into(), bucket.drain().into(), bucket.unit().into(), -1, 0]
        }
        Quota::LeakingBucket(leak) => {
            let bucket = leak.bucket();
            let max_delay = leak.max_delay_us().map_or(-1, i128::from);
            let shape = i128::from(leak.mode() == LeakMode::Shape);
            let unit = bucket.unit().into();
            [bucket.capacity().into(), bucket.drain().into(), unit, max_delay, shape]
        }
        Quota::FixedWindow(window)
        | Quota::SlidingWindowLog(window)
        | Quota::SlidingWindowCounter(window) => {
            [window.max_requests().into(), window.size_us().into(), 0, 0, 0]
        }
        Quota::Concurrency(in_flight) => {
            [in_flight.max_in_flight().into(), in_flight.lease_us().into(), 0, 0, 0]
        }
        _ => [0; 5],
    };
    numbers.map(|number| number.to_string())
}

/// The script's numbers as an answer to `request`.
fn answer(request: &Request<'_>, reply: &[i64]) -> Option<Answer> {
    let (&[now_us, charged], rest) = reply.split_first_chunk::<2>()?;
    let checks = request.checks();
    if rest.len() != checks.len() * 5 {
        return None;
    }
    let outcome = |(numbers, check): (&[i64], &tollkeeper_core::Check<'_>)| {
        let &[admits, retry, delay, remaining, reset] = numbers.first_chunk::<5>()?;
        Some(Outcome {
            allowed: admits == 1,
            shadow: check.shadow,
            limit: check.quota.limit(),
            remaining: u64::try_from(remaining).ok()?,
            // Minus one is never.
            retry_after_us: u64::try_from(retry).ok(),
            reset_after_us: u64::try_from(reset).ok()?,
            delay_us: u64::try_from(delay).ok()?,
        })
    };
    let outcomes: Option<Vec<Outcome>> = rest.chunks(5).zip(checks).map(outcome).collect();
    Some(Answer::new(u64::try_from(now_us).ok()?, charged == 1, outcomes?))
}

impl Store for RedisStore {
    async fn decide(&self, requests: &[Request<'_>]) -> Vec<Result<Answer, StoreError>> {
        join_all(requests.iter().map(|request| self.decide_one(request))).await
    }

    async fn amend(&self, amendments: &[Amendment<'_>]) -> Vec<Result<Amended, StoreError>> {
        join_all(amendments.iter().map(|amendment| self.amend_one(amendment))).await
    }

    async fn reset(&self, filter: Filter<'_>) -> Result<u64, StoreError> {
        self.reset_all(filter).await.map_err(|error| store_error(&error))
    }

    async fn inspect(&self, filter: Filter<'_>, most: usize) -> Result<Vec<Entry>, StoreError> {
        self.inspect_some(filter, most).await.map_err(|error| store_error(&error))
    }
}
