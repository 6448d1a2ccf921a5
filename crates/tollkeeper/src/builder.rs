//! Owns [`Builder`]: names, limits and bounds, checked when the limiter is built.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tollkeeper_core::{Clock, Colocate, Quota, WhenFull, whole_us};
use tollkeeper_memory::SystemClock;
use tollkeeper_policy::{
    ClientIp, Match, Networks, OnFailure, Policy, Rule, RuleError, SettingError, StoreSettings,
    StoreUrl, StoreUrlError,
};
use tollkeeper_stores::{OpenError, engine};

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

impl From<SettingError> for BuildError {
    fn from(error: SettingError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<OpenError> for BuildError {
    fn from(error: OpenError) -> Self {
        Self::new(error.to_string())
    }
}

/// Builds a [`Tollkeeper`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    limits: Vec<(String, Limit)>,
    trusted_proxies: Vec<String>,
    settings: StoreSettings,
    /// How many processes share the limits, if that was said.
    nodes: Option<u64>,
    clock: Arc<dyn Clock>,
    /// What was wrong with the store's URL.
    wrong: Option<BuildError>,
}

impl Builder {
    pub(crate) fn at(url: &str) -> Self {
        Self::on(url.parse())
    }

    /// Keys are spread over the servers at `urls`.
    #[cfg(feature = "redis")]
    pub(crate) fn at_all(urls: &[&str]) -> Self {
        let urls: Result<Vec<StoreUrl>, _> = urls.iter().map(|url| url.parse()).collect();
        Self::on(urls.and_then(StoreUrl::of_shards))
    }

    fn on(url: Result<StoreUrl, StoreUrlError>) -> Self {
        let (url, wrong) = match url {
            Ok(url) => (url, None),
            Err(error) => (StoreUrl::default(), Some(BuildError::new(error.to_string()))),
        };
        let clock = Arc::new(SystemClock::new());
        // Nobody can be shown them.
        let settings = StoreSettings { url, names: false, ..StoreSettings::default() };
        let (limits, trusted_proxies) = (Vec::new(), Vec::new());
        Self { limits, trusted_proxies, settings, nodes: None, clock, wrong }
    }

    /// Adds a limit under a name. The same name again adds a further limit to it: a request must
    /// meet all of them, and is charged to all or none.
    pub fn limit(mut self, name: &str, limit: Limit) -> Self {
        self.limits.push((name.to_owned(), limit));
        self
    }

    /// How long a decision may wait for a server; 20 ms where nothing is said. Then, and while the
    /// server is known to be down, it is decided as [`on_failure`](Self::on_failure) says.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout_us = whole_us(timeout);
        self
    }

    /// What is told while a server gives no answer, where a limit does not
    /// [say otherwise](Limit::on_failure).
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.settings.on_failure = on_failure;
        self
    }

    /// How many processes share the limits: while the server gives no answer, each keeps to its
    /// part of them. A [lease](Limit::lease) is such that so many get some, and a
    /// [share](Limit::share) one of so many parts. One where nothing is said, or as many as
    /// [there are](Self::count_nodes).
    pub fn nodes(mut self, nodes: u64) -> Self {
        self.settings.nodes = nodes;
        self.nodes = Some(nodes);
        self
    }

    /// Whether processes count each other through the server, instead of being told
    /// [how many](Self::nodes) they are. They do for a [share](Limit::share) of which nothing else
    /// is said. No effect in memory.
    pub fn count_nodes(mut self, count_nodes: bool) -> Self {
        self.settings.count_nodes = count_nodes;
        self
    }

    /// How many connections are held to a server; two where nothing is said.
    pub fn connections(mut self, connections: usize) -> Self {
        self.settings.connections = connections;
        self
    }

    /// For how long a denial is told again without the server being asked; a second where nothing is
    /// said. Nobody is denied for it who would have been admitted, unless another process gives something back and
    /// cannot tell. Zero turns it off.
    pub fn denied_cache(mut self, most: Duration) -> Self {
        self.settings.denied_cache_us = whole_us(most);
        self
    }

    /// Whether checks that wait at the same moment go to the server together; they do where nothing is
    /// said.
    pub fn merge(mut self, merge: bool) -> Self {
        self.settings.merge = merge;
        self
    }

    /// What every key on a server begins with; `rl` where nothing is said.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.settings.prefix = prefix.to_owned();
        self
    }

    /// Which limits lie together where keys are spread over several servers; those of one key where
    /// nothing is said. No effect on one server.
    pub fn colocate(mut self, colocate: Colocate) -> Self {
        self.settings.colocate = colocate;
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

    /// The networks of your proxies, such as `10.0.0.0/8`: their word on a client's address counts
    /// for limits [by](Limit::by) `ip`, and nobody else's.
    pub fn trusted_proxies<'a>(mut self, networks: impl IntoIterator<Item = &'a str>) -> Self {
        self.trusted_proxies.extend(networks.into_iter().map(str::to_owned));
        self
    }

    /// The time to decide by, for your own tests. On a server its own time counts, and this one
    /// only while it gives no answer.
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
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.nodes.is_some() && self.settings.count_nodes {
            let why = "`nodes` says how many there are, and `count_nodes` counts them";
            return Err(BuildError::unfit(why));
        }
        let networks = Networks::parse(self.trusted_proxies.iter().map(String::as_str));
        let trusted_proxies = networks.map_err(|error| BuildError::new(error.to_string()))?;
        let policy = Policy::from_rules(rules(&self.limits, self.nodes)?)?
            .stored_by(self.settings)?
            .with_client_ip(ClientIp { trusted_proxies, ..ClientIp::default() })?;
        Ok(Tollkeeper::new(engine(policy, self.clock)?))
    }
}

/// The limits of one name.
struct Group<'a> {
    name: &'a str,
    quotas: Vec<Quota>,
    first: &'a Limit,
}

/// One rule for each name, in the order in which the names first came.
fn rules(limits: &[(String, Limit)], nodes: Option<u64>) -> Result<Vec<Rule>, BuildError> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (name, limit) in limits {
        let quota = limit.quota().map_err(|error| BuildError::of(name, &error))?;
        let Some(group) = groups.iter_mut().find(|group| group.name == name) else {
            groups.push(Group { name, quotas: vec![quota], first: limit });
            continue;
        };
        if group.first.shadow != limit.shadow {
            let error = BuildError::unfit("its limits must all be shadow, or none of them");
            return Err(BuildError::of(name, &error));
        }
        if group.first.on_failure != limit.on_failure {
            let error = BuildError::unfit("its limits must all have the same `on_failure`");
            return Err(BuildError::of(name, &error));
        }
        if (&group.first.key, &group.first.paths) != (&limit.key, &limit.paths) {
            let error = BuildError::unfit("its limits must all have the same `by` and `on`");
            return Err(BuildError::of(name, &error));
        }
        if group.first.way != limit.way {
            let error =
                BuildError::unfit("its limits must all have the same `lease`, `sync` or `share`");
            return Err(BuildError::of(name, &error));
        }
        group.quotas.push(quota);
    }
    groups.into_iter().map(|group| rule(group, nodes)).collect()
}

fn rule(Group { name, quotas, first }: Group<'_>, nodes: Option<u64>) -> Result<Rule, BuildError> {
    let of_name = |error: &dyn Display| BuildError::of(name, &BuildError::new(error.to_string()));
    let mut rule = Rule::new(name, quotas)?.shadow(first.shadow);
    if let Some(on_failure) = first.on_failure {
        rule = rule.with_on_failure(on_failure);
    }
    if !first.key.is_empty() {
        let parts = first.key.iter().map(String::as_str);
        rule = rule.keyed_by(parts).map_err(|error| of_name(&error))?;
    }
    let mut paths = Match::any();
    for path in &first.paths {
        paths = paths.path(path).map_err(|error| of_name(&error))?;
    }
    let rule = rule.matching(paths);
    first.way.of(rule, nodes).map_err(|error| BuildError::of(name, &error))
}
