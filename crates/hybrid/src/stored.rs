//! What the store is asked for where it does not decide by the whole limit and key: of a lease without
//! what is kept back, of a key that is split the part.

use std::borrow::Cow;

use tollkeeper_core::{Amended, Amendment, Change, Check, Consistency, Quota, split_key};

/// What a part of a key is called in the store. Every key of a limit that is split ends so: no
/// other key can be taken for a part.
pub(crate) fn part_key(how: Consistency, key: &str, part: u8) -> Cow<'_, str> {
    match how {
        Consistency::Sync { parts: 2.., .. } => Cow::Owned(split_key(key, part.into())),
        _ => Cow::Borrowed(key),
    }
}

/// A check that the store decides.
pub(crate) struct ToDecide<'a> {
    check: Check<'a>,
    quota: Quota,
    key: Cow<'a, str>,
}

impl<'a> ToDecide<'a> {
    pub(crate) fn new(check: &Check<'a>, part: u8) -> Self {
        let quota = check.consistency.stored(check.quota);
        Self { check: *check, quota, key: part_key(check.consistency, check.key, part) }
    }

    /// The key that the request is for, whichever part is asked.
    pub(crate) fn whole_key(&self) -> &'a str {
        self.check.key
    }

    pub(crate) fn check(&self, only_look: bool) -> Check<'_> {
        let cost = if only_look { 0 } else { self.check.cost };
        Check { quota: &self.quota, key: &self.key, cost, ..self.check }
    }
}

/// Where a change is made.
pub(crate) enum Changed<'a> {
    /// It is made, here.
    Here(Amended),
    /// In the store.
    There(Box<ToAmend<'a>>),
}

impl Changed<'_> {
    /// What is the store's.
    pub(crate) fn rest(&self) -> Option<Amendment<'_>> {
        match self {
            Self::Here(_) => None,
            Self::There(rest) => Some(rest.amendment()),
        }
    }
}

/// A change that is the store's.
pub(crate) struct ToAmend<'a> {
    amendment: Amendment<'a>,
    quota: Quota,
    key: Cow<'a, str>,
}

impl<'a> ToAmend<'a> {
    pub(crate) fn new(amendment: &Amendment<'a>, change: Change, part: u8) -> Self {
        let Amendment { quota, key, consistency, .. } = *amendment;
        let (quota, key) = (consistency.stored(quota), part_key(consistency, key, part));
        Self { amendment: Amendment { change, ..*amendment }, quota, key }
    }

    pub(crate) fn amendment(&self) -> Amendment<'_> {
        Amendment { quota: &self.quota, key: &self.key, ..self.amendment }
    }
}
