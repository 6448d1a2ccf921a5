//! Owns [`Tollkeeper`]: the limiter that an application holds.

use std::sync::Arc;
use std::time::Duration;

use tollkeeper_core::{Amended, Clock, Store, whole_us};
use tollkeeper_engine::{Ask, Handle, Target};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{Advice, Policy, PolicyErrors, StoreSettings};
use tollkeeper_stores::{StoreEngine, engine};

use crate::Error;
use crate::builder::{BuildError, Builder};
use crate::decision::Decision;
use crate::reservation::Reservation;

/// How long a guarded reservation can be settled.
const RESERVED_FOR: Duration = Duration::from_secs(600);

/// A rate limiter. Clones share their counts.
#[derive(Clone, Debug)]
pub struct Tollkeeper {
    engine: Arc<StoreEngine<Arc<dyn Clock>>>,
}

/// Why a policy file gave no limiter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// Its text is wrong.
    #[error(transparent)]
    Policy(#[from] PolicyErrors),
    /// Its store cannot be opened.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A charge to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// How many units.
    pub cost: u64,
    /// When they were charged ([`Decision::charged_at_us`]). Without it all of them come back,
    /// which may let through that much more than the limit, once.
    pub charged_at_us: Option<u64>,
}

impl Tollkeeper {
    /// A limiter that counts in this process. See [`Builder::limit`].
    pub fn memory() -> Builder {
        Builder::at("memory://")
    }

    /// A limiter that counts on a Redis or Valkey server, so that many processes share its limits:
    /// `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://` or `redis+cluster://`. It is
    /// built within a Tokio runtime.
    ///
    /// The server need not be there: connections are opened, and opened again, in the background,
    /// and without an answer in time it is decided as [`Builder::on_failure`] says.
    ///
    /// ```no_run
    /// use tollkeeper::{Limit, Tollkeeper};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollkeeper::Error> {
    /// let limiter = Tollkeeper::redis("redis://127.0.0.1:6379")
    ///     .limit("api", Limit::per_second(10).burst(20))
    ///     .build();
    /// let decision = limiter.check("api", "alice").await?;
    /// # let _ = decision;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn redis(url: &str) -> Builder {
        Builder::at(url)
    }

    /// A limiter that counts on several servers, over which keys are spread: each key lies on one of
    /// them, the same in every process with the same list, in whatever order.
    ///
    /// ```no_run
    /// use tollkeeper::{Limit, Tollkeeper};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = Tollkeeper::shards(&["redis://10.0.0.1", "redis://10.0.0.2"])
    ///     .limit("api", Limit::per_second(10).burst(20))
    ///     .build();
    /// # let _ = limiter;
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn shards(urls: &[&str]) -> Builder {
        Builder::at_all(urls)
    }

    /// Waits until the store can be asked, or says why it cannot. The limiter works all the same:
    /// this is for programs that would rather not start without their server.
    pub async fn opened(&self) -> Result<(), Error> {
        Ok(self.engine.store().opened().await?)
    }

    /// A limiter by the rules of a policy file. Variables such as `${LIMIT}` come from the
    /// environment. `store.names` makes no difference: names are kept for people who look at a service, and here
    /// nobody can.
    ///
    /// ```
    /// use tollkeeper::Tollkeeper;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Tollkeeper::from_yaml("rules: { api: { limit: 10/min } }")?;
    /// assert_eq!(limiter.check("api", "alice").await?.remaining(), 9);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_yaml(text: &str) -> Result<Self, YamlError> {
        let policy = Policy::parse(text, &|name| std::env::var(name).ok())?;
        // Nobody can be shown them.
        let settings = StoreSettings { names: false, ..policy.store().clone() };
        let policy = policy.stored_by(settings).map_err(BuildError::from)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let engine = engine(policy, clock).map_err(BuildError::from)?;
        Ok(Self::new(engine))
    }

    /// What the limiter's rules will do that was hardly meant: a limit that makes no difference, a cost
    /// that never fits. Nothing for good ones. Each piece has a code, and a page that tells more.
    ///
    /// ```
    /// use tollkeeper::{AdviceCode, Tollkeeper};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Tollkeeper::from_yaml("rules: { api: { limits: [10/s, 1000/min] } }")?;
    /// for advice in limiter.advice() {
    ///     eprintln!("{}", advice.in_one_line());
    ///     # assert_eq!(advice.code, AdviceCode::Hidden);
    /// }
    /// # assert_eq!(limiter.advice().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        self.engine.policy().advice()
    }

    pub(crate) fn new(engine: StoreEngine<Arc<dyn Clock>>) -> Self {
        Self { engine: Arc::new(engine) }
    }

    /// Asks whether a request of `key` may go, and charges it if so.
    pub async fn check(&self, rule: &str, key: &str) -> Result<Decision, Error> {
        self.check_cost(rule, key, 1).await
    }

    /// [`check`](Self::check) for a request that takes `cost` units.
    pub async fn check_cost(&self, rule: &str, key: &str, cost: u64) -> Result<Decision, Error> {
        let verdict = self.engine.check(ask(rule, key, cost)).await?;
        if let Some(repaying) = self.engine.repaying(&verdict)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(repaying);
        }
        Ok(Decision::new(verdict))
    }

    /// Looks at the numbers of `key` and changes nothing.
    pub async fn peek(&self, rule: &str, key: &str) -> Result<Decision, Error> {
        self.check_cost(rule, key, 0).await
    }

    /// Charges an estimate now, to be [settled](Self::settle) within `ttl`, when the cost is known.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollkeeper::{Limit, Tollkeeper};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollkeeper::Error> {
    /// let limiter = Tollkeeper::memory().limit("tokens", Limit::per_day(1000)).build();
    /// let reserved = limiter.reserve("tokens", "alice", 500, Duration::from_secs(600)).await?;
    /// if let Some(reservation) = reserved.handle() {
    ///     limiter.settle(reservation, 120).await?;
    /// }
    /// assert_eq!(limiter.peek("tokens", "alice").await?.remaining(), 880);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(
        &self,
        rule: &str,
        key: &str,
        cost: u64,
        ttl: Duration,
    ) -> Result<Decision, Error> {
        self.engine.reserve(ask(rule, key, cost), Some(whole_us(ttl))).await.map(Decision::new)
    }

    /// [`reserve`](Self::reserve) for ten minutes, held by a guard: what a handler needs whose cost
    /// is known only when it is done.
    pub async fn reservation(
        &self,
        rule: &str,
        key: &str,
        cost: u64,
    ) -> Result<Reservation, Error> {
        let decision = self.reserve(rule, key, cost, RESERVED_FOR).await?;
        Ok(Reservation::new(self.clone(), decision))
    }

    /// Ends a reservation: charges or gives back the difference to what it really cost.
    pub async fn settle(&self, reservation: &Handle, actual: u64) -> Result<Amended, Error> {
        self.engine.settle(reservation, actual).await
    }

    /// Ends a reservation that cost nothing.
    pub async fn cancel(&self, reservation: &Handle) -> Result<Amended, Error> {
        self.settle(reservation, 0).await
    }

    /// Gives a permit of a concurrency limit back.
    pub async fn release(&self, permit: &Handle) -> Result<Amended, Error> {
        self.engine.release(permit).await
    }

    /// Lets a permit of a concurrency limit last a whole lease from now.
    pub async fn renew(&self, permit: &Handle) -> Result<Amended, Error> {
        self.engine.renew(permit).await
    }

    /// Waits until the permits of all requests that have ended have been given back, and of calls that the store
    /// answered too late: for the end of a program. One that ends before leaves them to their leases. While a
    /// store is away this lasts for as long as they do.
    ///
    /// ```
    /// use tollkeeper::{Limit, Tollkeeper};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollkeeper::Error> {
    /// let few = Limit::concurrency(2, "30s");
    /// let limiter = Tollkeeper::memory().limit("few", few).build();
    /// let decision = limiter.check("few", "alice").await?;
    /// if let Some(permit) = decision.handle() {
    ///     // … the work …
    ///     limiter.release(permit).await?;
    /// }
    /// assert_eq!(limiter.peek("few", "alice").await?.remaining(), 2);
    /// // At the end, when no request is left.
    /// limiter.given_back().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn given_back(&self) {
        self.engine.given_back().await;
    }

    /// Gives back a request that should not have counted.
    pub async fn refund(&self, rule: &str, key: &str, charge: Charge) -> Result<Amended, Error> {
        self.engine.refund(ask(rule, key, charge.cost), charge.charged_at_us).await
    }

    /// A layer that protects any tower service by the limiter's rules: in axum one
    /// `.layer(limiter.layer())`.
    ///
    /// Which rules a request meets, and by what it is counted, is the policy's to say
    /// ([`from_yaml`](Self::from_yaml)); limits made in code apply to every request.
    #[cfg(feature = "tower")]
    #[must_use]
    pub fn layer(&self) -> crate::RateLimitLayer {
        tollkeeper_tower::RateLimitLayer::new(Arc::clone(&self.engine))
    }

    /// Forgets a key.
    pub async fn reset(&self, rule: &str, key: &str) -> Result<(), Error> {
        self.engine.reset(Some(rule), Some(key)).await.map(drop)
    }
}

fn ask<'a>(rule: &'a str, key: &'a str, cost: u64) -> Ask<'a> {
    Ask { target: Target::Rule(rule), key: Some(key), cost }
}
