//! Owns [`StoreUrl`]: which store keeps the state, as the policy file and the command line name it.
//!
//! A user or a password is in no message, in no `Debug` output and in no place that is shown.

use std::fmt;
use std::str::FromStr;

pub use tollkeeper_core::{HostPort, RedisAddress, RedisUrl, Secret};

mod parse;
mod several;
mod shards;

pub(crate) use parse::EXPECTED;
pub(crate) use shards::join;

/// Which store keeps the state.
///
/// ```
/// use tollkeeper_policy::StoreUrl;
///
/// let Ok(StoreUrl::Redis(server)) = "redis://app:pa%40ss@[::1]/2".parse() else { panic!() };
/// assert_eq!(server.place(), "[::1]:6379/2");
/// assert_eq!(server.password.unwrap().expose(), "pa@ss");
///
/// let error = "reddis://:hunter2@localhost".parse::<StoreUrl>().unwrap_err();
/// assert_eq!(error.help(), Some("did you mean `redis://`?"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// `memory://`: this process.
    #[default]
    Memory,
    /// `redis://`, `rediss://` or `redis+unix://`: a server. `redis+sentinel://` or
    /// `redis+cluster://`: several that are one store.
    Redis(RedisUrl),
    /// A list of them: keys are spread over several servers. There are at least two, and no two of
    /// one place.
    Shards(Vec<RedisUrl>),
}

impl StoreUrl {
    /// Several servers as one store, over which keys are spread. In which order they come does not
    /// matter.
    ///
    /// ```
    /// use tollkeeper_policy::StoreUrl;
    ///
    /// let urls = ["redis://a", "redis://b:6380/2"].map(|url| url.parse().unwrap());
    /// assert_eq!(StoreUrl::of_shards(urls).unwrap().place(), "a:6379, b:6380/2");
    /// let twice = ["redis://a", "rediss://a:6379"].map(|url| url.parse().unwrap());
    /// assert!(StoreUrl::of_shards(twice).is_err());
    /// ```
    pub fn of_shards(urls: impl IntoIterator<Item = Self>) -> Result<Self, StoreUrlError> {
        join(urls.into_iter().collect()).map_err(|misfit| misfit.error)
    }

    /// Where state is, for people. A user or a password is not told.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Memory => "memory".to_owned(),
            Self::Redis(url) => url.place(),
            Self::Shards(urls) => {
                let places: Vec<String> = urls.iter().map(RedisUrl::place).collect();
                places.join(", ")
            }
        }
    }

    /// The servers; none in memory.
    #[must_use]
    pub fn servers(&self) -> &[RedisUrl] {
        match self {
            Self::Memory => &[],
            Self::Redis(url) => std::slice::from_ref(url),
            Self::Shards(urls) => urls,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::parse(text)
    }
}

/// Why a text is not the URL of a store.
///
/// Its `Display` is a sentence about "the store's URL", with what was expected and the advice. No
/// part of a user or a password is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrlError {
    problem: String,
    /// The problem without any piece of the URL.
    unquoted: &'static str,
    expected: String,
    help: Option<String>,
}

impl StoreUrlError {
    /// What is wrong, to follow the name of what is wrong: "has no host".
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What would have been accepted.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The problem without any piece of the URL, for one that is wholly secret.
    pub(crate) fn unquoted(&self) -> &'static str {
        self.unquoted
    }
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store's URL {}; expected {}", self.problem, self.expected)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StoreUrlError {}
