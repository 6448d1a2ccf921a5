//! Owns [`Builder`]: names, limits and bounds, checked when the limiter is built.

use std::sync::Arc;

use tollkeeper_core::{Clock, Quota, WhenFull};
use tollkeeper_engine::Engine;
use tollkeeper_memory::{MemoryStore, Settings, SystemClock};
use tollkeeper_policy::{Policy, Rule, RuleError};

use crate::limit::Limit;
use crate::limiter::Tollkeeper;

/// What was wrong with a limiter that was to be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BuildError {
    message: String,
}

impl BuildError {
    pub(crate) fn new(message: String) -> Self {
        Self { message }
    }

    pub(crate) fn unfit(why: &str) -> Self {
        Self::new(why.to_owned())
    }

    fn of(name: &str, error: &Self) -> Self {
        Self::new(format!("limit `{name}`: {error}"))
    }
}

impl From<RuleError> for BuildError {
    fn from(error: RuleError) -> Self {
        Self::new(error.to_string())
    }
}

/// Builds a [`Tollkeeper`] on the embedded store.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    limits: Vec<(String, Limit)>,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl Builder {
    pub(crate) fn memory() -> Self {
        let clock = Arc::new(SystemClock::new());
        Self { limits: Vec::new(), settings: Settings::default(), clock }
    }

    /// Adds a limit under a name. The same name again adds a further limit to it: a request must
    /// meet all of them, and is charged to all or none.
    pub fn limit(mut self, name: &str, limit: Limit) -> Self {
        self.limits.push((name.to_owned(), limit));
        self
    }

    /// The most keys kept in memory; a million where nothing is said.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.settings.max_keys = max_keys;
        self
    }

    /// What a new key meets when the table is full.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.settings.when_full = when_full;
        self
    }

    /// The time to decide by, for your own tests.
    ///
    /// ```
    /// use tollkeeper::{Limit, ManualClock, Tollkeeper};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollkeeper::Error> {
    /// let clock = ManualClock::default();
    /// let limiter =
    ///     Tollkeeper::memory().limit("api", Limit::per_second(1)).clock(clock.clone()).build();
    /// assert!(limiter.check("api", "alice").await?.allowed());
    /// assert!(!limiter.check("api", "alice").await?.allowed());
    /// clock.advance(1_000_000);
    /// assert!(limiter.check("api", "alice").await?.allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Builds the limiter.
    ///
    /// # Panics
    ///
    /// If a limit or a name is wrong, which is a mistake in the program. Where limits come from
    /// outside, use [`try_build`](Self::try_build).
    #[must_use]
    #[expect(clippy::panic, reason = "documented; try_build is the way that does not")]
    pub fn build(self) -> Tollkeeper {
        match self.try_build() {
            Ok(limiter) => limiter,
            Err(error) => panic!("{error}"),
        }
    }

    /// Builds the limiter, or says what is wrong with it.
    ///
    /// ```
    /// use tollkeeper::{Limit, Tollkeeper};
    /// let built = Tollkeeper::memory().limit("api", Limit::token_bucket(10, "5/fortnight")).try_build();
    /// assert_eq!(
    ///     built.unwrap_err().to_string(),
    ///     "limit `api`: `5/fortnight`: `fortnight` is not a unit of time (us, ms, s, min, h, day, \
    ///      week); expected a rate such as 5 (per second), 2.5/s, 300/min, 1000/h, 10 per 10 s"
    /// );
    /// ```
    pub fn try_build(self) -> Result<Tollkeeper, BuildError> {
        let policy = Policy::from_rules(rules(&self.limits)?)?;
        let store = MemoryStore::new(self.settings, self.clock);
        Ok(Tollkeeper::new(Engine::new(policy, store)))
    }
}

/// One rule for each name, in the order in which the names first came.
fn rules(limits: &[(String, Limit)]) -> Result<Vec<Rule>, BuildError> {
    let mut grouped: Vec<(&str, Vec<Quota>, bool)> = Vec::new();
    for (name, limit) in limits {
        let quota = limit.quota().map_err(|error| BuildError::of(name, &error))?;
        match grouped.iter_mut().find(|(known, _, _)| known == name) {
            None => grouped.push((name, vec![quota], limit.shadow)),
            Some((_, _, shadow)) if *shadow != limit.shadow => {
                let error = BuildError::unfit("its limits must all be shadow, or none of them");
                return Err(BuildError::of(name, &error));
            }
            Some((_, quotas, _)) => quotas.push(quota),
        }
    }
    let rule = |(name, quotas, shadow): (&str, Vec<Quota>, bool)| {
        Ok(Rule::new(name, quotas)?.shadow(shadow))
    };
    grouped.into_iter().map(rule).collect()
}
