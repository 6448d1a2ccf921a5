//! The file's shapes after reading: known fields only, each value of its kind, each with its
//! place. Whether the values make sense together is not asked yet.

use std::net::SocketAddr;
use std::rc::Rc;

use tollkeeper_core::{Algorithm, Rate, ShortLimit};

use crate::error::{Problems, Span};
use crate::refused::Refused;
use crate::settings::Upstream;
use crate::store_url::StoreUrl;
use crate::yaml::Scalar;

/// A map of which every field is one of its shape's.
#[derive(Default)]
pub(crate) struct RawMap {
    pub(crate) fields: Vec<RawField>,
    /// Whether a field was left out because nobody knows it; what seems missing may be that one.
    pub(crate) has_unknown: bool,
}

/// A field that is present.
pub(crate) struct RawField {
    pub(crate) name: &'static str,
    pub(crate) key_span: Span,
    pub(crate) span: Span,
    /// The value as written, where it is a single one.
    pub(crate) scalar: Option<Scalar>,
    /// `None` if the value was refused, which has been reported.
    pub(crate) value: Option<Raw>,
}

/// A value of its kind.
pub(crate) enum Raw {
    Count(u64),
    Rate(Rate),
    DurationUs(u64),
    Flag(bool),
    Word(&'static str),
    Text(String),
    Texts(RawTexts),
    Pairs(Vec<RawPair>),
    Algorithm(Algorithm),
    Limits(Vec<RawLimit>),
    Tiers(Vec<RawTier>),
    StoreUrl(StoreUrl),
    Upstream(Upstream),
    Address(SocketAddr),
    Map(RawMap),
    Rules(Vec<RawRule>),
}

/// A limit in one line.
pub(crate) struct RawLimit {
    pub(crate) short: ShortLimit,
    pub(crate) span: Span,
    pub(crate) scalar: Scalar,
}

/// One text, or a list of texts.
pub(crate) struct RawTexts {
    /// What messages say before one of them: "`path` is", "`path` has".
    subject: String,
    list: Vec<(Scalar, Span)>,
}

impl RawTexts {
    pub(crate) fn new(subject: String, list: Vec<(Scalar, Span)>) -> Self {
        Self { subject, list }
    }

    /// What `read` makes of each text; what it refuses is reported.
    pub(crate) fn read<T>(
        &self,
        problems: &mut Problems,
        mut read: impl FnMut(&str) -> Result<T, Refused>,
    ) -> Vec<T> {
        let mut done = Vec::with_capacity(self.list.len());
        for (scalar, span) in &self.list {
            match read(scalar.text()) {
                Ok(value) => done.push(value),
                Err(refused) => problems.add(*span, refused.fault(&self.subject, scalar)),
            }
        }
        done
    }
}

/// A text that has a name of the user's choice.
pub(crate) struct RawPair {
    pub(crate) name: Rc<str>,
    pub(crate) name_span: Span,
    pub(crate) value: Scalar,
    pub(crate) span: Span,
}

/// Limits that have a name of the user's choice.
pub(crate) struct RawTier {
    pub(crate) name: Rc<str>,
    pub(crate) name_span: Span,
    /// Never empty.
    pub(crate) limits: Vec<RawLimit>,
}

/// A rule that has a name of the user's choice.
pub(crate) struct RawRule {
    pub(crate) name: Rc<str>,
    pub(crate) name_span: Span,
    /// `None` if it is not a map, which has been reported.
    pub(crate) map: Option<RawMap>,
}

impl RawField {
    /// Whether the value must not be printed.
    pub(crate) fn is_secret(&self) -> bool {
        self.scalar.as_ref().is_some_and(Scalar::is_secret)
    }

    /// The value as the file has it, in backquotes.
    pub(crate) fn quoted(&self) -> String {
        self.scalar.as_ref().map(Scalar::quoted).unwrap_or_default()
    }
}

impl RawMap {
    /// Whether any number in it must not be printed, nor what follows from it.
    pub(crate) fn has_secret(&self) -> bool {
        let limit = |limit: &RawLimit| limit.scalar.is_secret();
        self.fields.iter().any(|field| {
            field.is_secret()
                || match &field.value {
                    Some(Raw::Map(map)) => map.has_secret(),
                    Some(Raw::Limits(limits)) => limits.iter().any(limit),
                    Some(Raw::Tiers(tiers)) => {
                        tiers.iter().any(|tier| tier.limits.iter().any(limit))
                    }
                    _ => false,
                }
        })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&RawField> {
        self.fields.iter().find(|field| field.name == name)
    }

    fn value(&self, name: &str) -> Option<&Raw> {
        self.field(name)?.value.as_ref()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Raw::Count(count) => Some(*count),
            _ => None,
        }
    }

    pub(crate) fn rate(&self, name: &str) -> Option<Rate> {
        match self.value(name)? {
            Raw::Rate(rate) => Some(*rate),
            _ => None,
        }
    }

    pub(crate) fn duration_us(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Raw::DurationUs(us) => Some(*us),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.value(name)? {
            Raw::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn word(&self, name: &str) -> Option<&'static str> {
        match self.value(name)? {
            Raw::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Option<&RawTexts> {
        match self.value(name)? {
            Raw::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    pub(crate) fn pairs(&self, name: &str) -> &[RawPair] {
        match self.value(name) {
            Some(Raw::Pairs(pairs)) => pairs,
            _ => &[],
        }
    }

    pub(crate) fn tiers(&self, name: &str) -> &[RawTier] {
        match self.value(name) {
            Some(Raw::Tiers(tiers)) => tiers,
            _ => &[],
        }
    }

    pub(crate) fn upstream(&self, name: &str) -> Option<&Upstream> {
        match self.value(name)? {
            Raw::Upstream(upstream) => Some(upstream),
            _ => None,
        }
    }

    pub(crate) fn algorithm(&self, name: &str) -> Option<Algorithm> {
        match self.value(name)? {
            Raw::Algorithm(algorithm) => Some(*algorithm),
            _ => None,
        }
    }

    pub(crate) fn store_url(&self, name: &str) -> Option<&StoreUrl> {
        match self.value(name)? {
            Raw::StoreUrl(url) => Some(url),
            _ => None,
        }
    }

    pub(crate) fn address(&self, name: &str) -> Option<SocketAddr> {
        match self.value(name)? {
            Raw::Address(address) => Some(*address),
            _ => None,
        }
    }

    pub(crate) fn map(&self, name: &str) -> Option<&RawMap> {
        match self.value(name)? {
            Raw::Map(map) => Some(map),
            _ => None,
        }
    }

    pub(crate) fn rules(&self, name: &str) -> &[RawRule] {
        match self.value(name) {
            Some(Raw::Rules(rules)) => rules,
            _ => &[],
        }
    }
}
