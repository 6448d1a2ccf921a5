//! Owns [`Cost`]: how many units a request takes, and [`Source`]: where such a value is found.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::names;
use crate::limits::MAX_COST;
use crate::nearest::nearest;
use crate::refused::{FieldError, Refused};

/// What a source looks like.
pub(crate) const EXPECTED_SOURCE: &str = "`attribute:NAME` or `header:NAME`";

/// Where in a request a value is found that says what it costs or which limits it has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// `header:NAME`, in lower case. It counts only in a request that
    /// [is trusted](crate::RequestView::is_trusted).
    Header(Box<str>),
    /// `attribute:NAME`: what the app says of the request.
    Attribute(Box<str>),
}

impl Source {
    /// Whether it is a header, which counts only from a trusted proxy.
    #[must_use]
    pub fn is_header(&self) -> bool {
        matches!(self, Self::Header(_))
    }

    pub(crate) fn read(text: &str) -> Result<Self, Refused> {
        let refuse = |reason: &str| Refused::new(reason, EXPECTED_SOURCE);
        match text.split_once(':') {
            Some(("header", name)) => Ok(Self::Header(names::header(name)?)),
            Some(("attribute", name)) => Ok(Self::Attribute(names::attribute(name)?)),
            Some((word, name)) => {
                let refused = refuse(", which is not known");
                match nearest(word, ["header", "attribute"].into_iter()) {
                    Some(near) => Err(refused.help(format!("did you mean `{near}:{name}`?"))),
                    None => Err(refused),
                }
            }
            None => Err(refuse(", which does not say where it is found")
                .help(format!("write `attribute:{text}` or `header:{text}`"))),
        }
    }

    /// What messages call it.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::Header(name) => format!("header {name}"),
            Self::Attribute(name) => format!("attribute {name}"),
        }
    }
}

impl FromStr for Source {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::read(text).map_err(|refused| refused.of("by", text))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Attribute(name) => write!(f, "attribute:{name}"),
        }
    }
}

/// How many units a request takes.
///
/// ```
/// use tollkeeper_policy::Cost;
///
/// let cost = Cost::told("header:x-cost", 1..=100, 1)?;
/// assert_eq!(cost.of(Some("7")), 7);
/// assert_eq!(cost.of(Some("7000")), 100);
/// assert_eq!(cost.of(Some("many")), 1);
/// assert_eq!(cost.of(None), 1);
/// # Ok::<(), tollkeeper_policy::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    default: u64,
    told: Option<Box<Told>>,
}

/// What a request can say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    source: Source,
    min: u64,
    max: u64,
}

impl Default for Cost {
    /// One unit.
    fn default() -> Self {
        Self { default: 1, told: None }
    }
}

impl Cost {
    /// The same for every request; from 1 to [`MAX_COST`].
    pub fn fixed(cost: u64) -> Result<Self, FieldError> {
        Self::read_fixed(cost).map_err(|refused| refused.of("cost", &cost.to_string()))
    }

    /// What the request says at a [`Source`] such as `header:x-cost`: a whole number, which is
    /// brought `within` its bounds; `default` where there is none.
    pub fn told(
        source: &str,
        within: RangeInclusive<u64>,
        default: u64,
    ) -> Result<Self, FieldError> {
        let (min, max) = within.into_inner();
        let read = Source::read(source).and_then(|source| Self::read(source, min, max, default));
        read.map_err(|refused| refused.of("cost", source))
    }

    pub(crate) fn read_fixed(cost: u64) -> Result<Self, Refused> {
        match (1..=MAX_COST).contains(&cost) {
            true => Ok(Self { default: cost, told: None }),
            false => {
                let expected = format!("a whole number from 1 to {MAX_COST}");
                Err(Refused::new(", which is out of range", expected))
            }
        }
    }

    pub(crate) fn read(source: Source, min: u64, max: u64, default: u64) -> Result<Self, Refused> {
        let refuse = |reason: String, expected: String| Err(Refused::new(reason, expected));
        if max > MAX_COST {
            return refuse(format!(", whose `max` is {max}"), format!("at most {MAX_COST}"));
        }
        if max < min.max(1) {
            let least = min.max(1);
            return refuse(format!(", whose `max` is {max}"), format!("at least {least}"));
        }
        if !(min..=max).contains(&default) {
            return refuse(format!(", whose `default` is {default}"), format!("{min} to {max}"));
        }
        Ok(Self { default, told: Some(Box::new(Told { source, min, max })) })
    }

    /// Where the request says it; `None` if it is the same for every request.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        self.told.as_ref().map(|told| &told.source)
    }

    /// The least and the most that it can be.
    #[must_use]
    pub fn bounds(&self) -> RangeInclusive<u64> {
        self.told.as_ref().map_or(self.default..=self.default, |told| told.min..=told.max)
    }

    /// What it is where the request does not say.
    #[must_use]
    pub fn default_cost(&self) -> u64 {
        self.default
    }

    /// The cost of a request that has this value at the source. A text that is not digits alone
    /// is as good as none, and a number out of bounds is brought within them.
    #[must_use]
    pub fn of(&self, value: Option<&str>) -> u64 {
        let Some((told, text)) = self.told.as_ref().zip(value.map(str::trim)) else {
            return self.default;
        };
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return self.default;
        }
        // Digits that are no number of this size are too large.
        text.parse().unwrap_or(u64::MAX).clamp(told.min, told.max)
    }
}
