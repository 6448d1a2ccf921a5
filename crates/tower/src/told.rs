//! Owns [`Told`]: three numbers as headers, which is all that most styles tell of a verdict.

use http::{HeaderMap, HeaderName, HeaderValue};
use tollkeeper_core::Decision;
use tollkeeper_policy::HeaderStyle;

use crate::headers::seconds;
use crate::number::with_numbers;

const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// What is told in one style, or nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    names: Names,
    limit: u64,
    remaining: u64,
    reset_s: u64,
}

/// What the numbers are called.
#[derive(Clone, Copy, Debug)]
enum Names {
    Nothing,
    Legacy,
    Requests,
    Tokens,
}

/// Styles for which the numbers of a decision are enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Telling(Option<HeaderStyle>);

impl Telling {
    /// Whether they are enough for `styles`. Where there are several, nobody asks.
    #[inline]
    pub(crate) fn by(styles: &[HeaderStyle]) -> Option<Self> {
        match styles {
            [] => Some(Self(None)),
            [HeaderStyle::Ietf] => None,
            [style] => Some(Self(Some(*style))),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn tell(self, decision: &Decision, cost: u64) -> Told {
        match self.0 {
            Some(style) => Told::new(style, decision, || cost),
            None => Told { names: Names::Nothing, limit: 0, remaining: 0, reset_s: 0 },
        }
    }
}

impl Told {
    /// What `style` tells of a decision, as far as it is numbers.
    #[inline]
    pub(crate) fn new(style: HeaderStyle, decision: &Decision, cost: impl FnOnce() -> u64) -> Self {
        let (names, from_us) = match style {
            HeaderStyle::Legacy => (Names::Legacy, decision.now_us),
            HeaderStyle::LegacyDelta => (Names::Legacy, 0),
            // Requests are the tightest limit that takes one unit a request; where the request's
            // cost is something else, the same numbers are tokens.
            HeaderStyle::OpenAi if cost() <= 1 => (Names::Requests, 0),
            HeaderStyle::OpenAi => (Names::Tokens, 0),
            _ => (Names::Nothing, 0),
        };
        let reset_s = seconds(from_us + decision.reset_after_us);
        Self { names, limit: decision.limit, remaining: decision.remaining, reset_s }
    }

    #[inline]
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        match self.names {
            Names::Nothing => {}
            Names::Legacy => self.write_as(LEGACY, "", headers),
            Names::Requests => self.write_as(REQUESTS, "s", headers),
            Names::Tokens => self.write_as(TOKENS, "s", headers),
        }
    }

    #[inline]
    fn write_as(&self, names: [HeaderName; 3], unit: &str, headers: &mut HeaderMap) {
        let [limit, remaining, reset] = names;
        with_numbers(|numbers| {
            headers.insert(limit, numbers.value(self.limit));
            headers.insert(remaining, numbers.value(self.remaining));
            let with_unit = || HeaderValue::try_from(format!("{}{unit}", self.reset_s)).ok();
            let value = if unit.is_empty() { None } else { with_unit() };
            headers.insert(reset, value.unwrap_or_else(|| numbers.value(self.reset_s)));
        });
    }
}
