//! Owns [`Limit`]: a limit as it is written in code.

use tollkeeper_core::{LeakMode, Quota, QuotaError, Rate, TextError, parse_duration_us};
use tollkeeper_policy::OnFailure;

use crate::builder::BuildError;
use crate::way::Way;

/// How much is allowed, by which algorithm. What is wrong with it shows when the limiter is built.
///
/// ```
/// use tollkeeper::Limit;
/// Limit::per_minute(100);                          // a token bucket of capacity 100
/// Limit::per_minute(100).burst(20);                // of capacity 20
/// Limit::token_bucket(20, "2.5/s");
/// Limit::gcra(20, "100 per minute");
/// Limit::leaking_bucket(50, "10/s").max_delay("2s");
/// Limit::fixed_window(1000, "1h");
/// Limit::sliding_window_log(100, "1 min");
/// Limit::sliding_window_counter(10, "10 s");
/// Limit::concurrency(20, "30s");
/// Limit::per_second(5000).lease();                 // decided here, by units of a server
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    kind: Kind,
    pub(crate) shadow: bool,
    pub(crate) on_failure: Option<OnFailure>,
    pub(crate) key: Vec<String>,
    pub(crate) paths: Vec<String>,
    pub(crate) way: Way,
}

#[derive(Clone, Debug)]
enum Kind {
    Bucket { capacity: u64, rate: RateText },
    Gcra { burst: u64, rate: RateText },
    Leak { capacity: u64, rate: RateText, mode: LeakMode, max_delay: Option<String> },
    Fixed { max: u64, window: String },
    Log { max: u64, window: String },
    Counter { max: u64, window: String },
    InFlight { max: u64, lease: String },
    Unfit(&'static str),
}

#[derive(Clone, Debug)]
enum RateText {
    Per { count: u64, period_us: u64 },
    Text(String),
}

impl RateText {
    fn rate(&self) -> Result<Rate, BuildError> {
        match self {
            Self::Per { count, period_us } => Ok(Rate::new(*count, *period_us)?),
            Self::Text(text) => Ok(text.parse()?),
        }
    }
}

impl Limit {
    fn new(kind: Kind) -> Self {
        let (key, paths) = (Vec::new(), Vec::new());
        Self { kind, shadow: false, on_failure: None, key, paths, way: Way::Exact }
    }

    fn per(count: u64, seconds: u64) -> Self {
        let rate = RateText::Per { count, period_us: seconds * 1_000_000 };
        Self::new(Kind::Bucket { capacity: count, rate })
    }

    /// A token bucket of `count` per second, with a capacity of `count`.
    #[must_use]
    pub fn per_second(count: u64) -> Self {
        Self::per(count, 1)
    }

    /// A token bucket of `count` per minute, with a capacity of `count`.
    #[must_use]
    pub fn per_minute(count: u64) -> Self {
        Self::per(count, 60)
    }

    /// A token bucket of `count` per hour, with a capacity of `count`.
    #[must_use]
    pub fn per_hour(count: u64) -> Self {
        Self::per(count, 3_600)
    }

    /// A token bucket of `count` per day, with a capacity of `count`.
    #[must_use]
    pub fn per_day(count: u64) -> Self {
        Self::per(count, 86_400)
    }

    /// Lets a token bucket hold `burst` tokens instead.
    #[must_use]
    pub fn burst(mut self, burst: u64) -> Self {
        self.kind = match self.kind {
            Kind::Bucket { rate, .. } => Kind::Bucket { capacity: burst, rate },
            Kind::Gcra { rate, .. } => Kind::Gcra { burst, rate },
            _ => Kind::Unfit("`burst` goes with a token bucket or gcra"),
        };
        self
    }

    /// Up to `capacity` tokens, refilled at a rate such as `2.5/s`.
    #[must_use]
    pub fn token_bucket(capacity: u64, refill_rate: &str) -> Self {
        Self::new(Kind::Bucket { capacity, rate: RateText::Text(refill_rate.to_owned()) })
    }

    /// Bursts of up to `burst`, then a rate such as `100 per minute`.
    #[must_use]
    pub fn gcra(burst: u64, rate: &str) -> Self {
        Self::new(Kind::Gcra { burst, rate: RateText::Text(rate.to_owned()) })
    }

    /// A queue of `queue_capacity` that drains at a rate such as `10/s`. An admitted request is to
    /// wait for its turn: see [`Decision::delay`](crate::Decision::delay).
    #[must_use]
    pub fn leaking_bucket(queue_capacity: u64, leak_rate: &str) -> Self {
        Self::new(Kind::Leak {
            capacity: queue_capacity,
            rate: RateText::Text(leak_rate.to_owned()),
            mode: LeakMode::Shape,
            max_delay: None,
        })
    }

    /// Denies, in a leaking bucket, what would have to wait longer.
    #[must_use]
    pub fn max_delay(mut self, delay: &str) -> Self {
        match &mut self.kind {
            Kind::Leak { max_delay, .. } => *max_delay = Some(delay.to_owned()),
            other => *other = Kind::Unfit("`max_delay` goes with a leaking bucket"),
        }
        self
    }

    /// Lets a leaking bucket count and deny, and nobody wait.
    #[must_use]
    pub fn meter(mut self) -> Self {
        match &mut self.kind {
            Kind::Leak { mode, .. } => *mode = LeakMode::Meter,
            other => *other = Kind::Unfit("`meter` goes with a leaking bucket"),
        }
        self
    }

    /// `max_requests` in each window, windows counted from the Unix epoch.
    #[must_use]
    pub fn fixed_window(max_requests: u64, window_size: &str) -> Self {
        Self::new(Kind::Fixed { max: max_requests, window: window_size.to_owned() })
    }

    /// `max_requests` in every interval of the window's length.
    #[must_use]
    pub fn sliding_window_log(max_requests: u64, window_size: &str) -> Self {
        Self::new(Kind::Log { max: max_requests, window: window_size.to_owned() })
    }

    /// `max_requests` by the weighted count of this window and the one before.
    #[must_use]
    pub fn sliding_window_counter(max_requests: u64, window_size: &str) -> Self {
        Self::new(Kind::Counter { max: max_requests, window: window_size.to_owned() })
    }

    /// `max_in_flight` at the same time; a permit that is neither released nor renewed ends after
    /// `lease`.
    #[must_use]
    pub fn concurrency(max_in_flight: u64, lease: &str) -> Self {
        Self::new(Kind::InFlight { max: max_in_flight, lease: lease.to_owned() })
    }

    /// Counts the requests that [a layer](crate::Tollkeeper::layer) sees by this part of them, as a
    /// policy file names it: `ip`, `user`, `header:x-api-key`, `cookie:…`, `query:…`, `route`,
    /// `method`, `host`, `attribute:…`. Several are counted together; without any, all requests
    /// share one count.
    #[must_use]
    pub fn by(mut self, part: &str) -> Self {
        self.key.push(part.to_owned());
        self
    }

    /// Applies only to the requests that [a layer](crate::Tollkeeper::layer) sees at a path such as
    /// `/login`, `/users/{id}` or `/api/**`, or at one of several.
    #[must_use]
    pub fn on(mut self, path: &str) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    /// Counts and reports, and denies nothing.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// What is told while a server gives no answer, if it is not what the limiter says.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Lets this process decide a busy key without a call, by units that it takes from the server in
    /// advance. All processes together never admit more than the limit, in any interval. A
    /// quarter of what a bucket allows at once is kept back for that.
    ///
    /// It suits limits that let in ten units or more for each of [so many](crate::Builder::nodes)
    /// processes in the time of a lease. No effect in memory.
    ///
    /// ```no_run
    /// use tollkeeper::{Limit, Tollkeeper};
    /// # #[cfg(not(feature = "redis"))]
    /// # fn main() {}
    /// # #[cfg(feature = "redis")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = Tollkeeper::redis("redis://127.0.0.1:6379")
    ///     .limit("api", Limit::per_second(5000).lease())
    ///     .nodes(4)
    ///     .build();
    /// # let _ = limiter;
    /// # }
    /// ```
    ///
    /// What does not suit is told when the limiter is built:
    ///
    /// ```
    /// use tollkeeper::{Limit, Tollkeeper};
    /// let built = Tollkeeper::memory().limit("api", Limit::per_second(100).lease()).nodes(4).try_build();
    /// assert_eq!(
    ///     built.unwrap_err().to_string(),
    ///     "limit `api`: `lease`: 100 at once is too little to lease to 4 processes; expected at least \
    ///      320, or consistency: exact"
    /// );
    /// ```
    #[must_use]
    pub fn lease(mut self) -> Self {
        self.way = Way::Lease { period: None };
        self
    }

    /// Lets this process decide without a call, by what the server had left when it was last told
    /// what was admitted here, ten times a second. All processes together may admit more than the
    /// limit between two such reports; what was too much is paid back. No effect in memory.
    ///
    /// ```
    /// use tollkeeper::Limit;
    /// Limit::per_second(5000).sync();
    /// Limit::per_second(50_000).sync().period("250ms").sub_shards(16);
    /// ```
    #[must_use]
    pub fn sync(mut self) -> Self {
        self.way = Way::Sync { period: None, sub_shards: 1 };
        self
    }

    /// Lets this process admit its part of the limit, without a call: one of
    /// [so many](crate::Builder::nodes), or, where nothing is said, of as many as there are, which
    /// they count through the server. A process begins with nothing: its part has to flow in, once
    /// the others know of it. No effect in memory.
    ///
    /// ```
    /// use tollkeeper::{Limit, Tollkeeper};
    /// let limiter = Tollkeeper::memory().limit("api", Limit::per_second(5000).share()).nodes(4).build();
    /// # let _ = limiter;
    /// ```
    #[must_use]
    pub fn share(mut self) -> Self {
        self.way = Way::Share;
        self
    }

    /// For how long a [lease](Self::lease) takes units, such as `250ms`, or how often a
    /// [sync](Self::sync) tells the server; what suits the limit where nothing is said.
    ///
    /// ```
    /// use tollkeeper::Limit;
    /// Limit::per_second(5000).lease().period("50ms");
    /// ```
    #[must_use]
    pub fn period(mut self, length: &str) -> Self {
        match &mut self.way {
            Way::Lease { period } | Way::Sync { period, .. } => *period = Some(length.to_owned()),
            _ => self.kind = Kind::Unfit("`period` goes with `lease` or `sync`, behind it"),
        }
        self
    }

    /// Splits each key of a [sync](Self::sync) over so many of the server's, so that several servers
    /// or parts of a cluster carry a busy one; 1 where nothing is said.
    #[must_use]
    pub fn sub_shards(mut self, count: u64) -> Self {
        match &mut self.way {
            Way::Sync { sub_shards, .. } => *sub_shards = count,
            _ => self.kind = Kind::Unfit("`sub_shards` goes with `sync`, behind it"),
        }
        self
    }

    pub(crate) fn quota(&self) -> Result<Quota, BuildError> {
        let us = |text: &str| parse_duration_us(text);
        Ok(match &self.kind {
            Kind::Bucket { capacity, rate } => Quota::token_bucket(*capacity, rate.rate()?)?,
            Kind::Gcra { burst, rate } => Quota::gcra(*burst, rate.rate()?)?,
            Kind::Leak { capacity, rate, mode, max_delay } => {
                let max_delay_us = max_delay.as_deref().map(us).transpose()?;
                Quota::leaking_bucket(*capacity, rate.rate()?, *mode, max_delay_us)?
            }
            Kind::Fixed { max, window } => Quota::fixed_window(*max, us(window)?)?,
            Kind::Log { max, window } => Quota::sliding_window_log(*max, us(window)?)?,
            Kind::Counter { max, window } => Quota::sliding_window_counter(*max, us(window)?)?,
            Kind::InFlight { max, lease } => Quota::concurrency(*max, us(lease)?)?,
            Kind::Unfit(why) => return Err(BuildError::unfit(why)),
        })
    }
}

impl From<QuotaError> for BuildError {
    fn from(error: QuotaError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<TextError> for BuildError {
    fn from(error: TextError) -> Self {
        Self::new(error.to_string())
    }
}
