//! Reads lists, and maps whose names the user chooses: texts, headers, limits, tiers.

use super::{Reader, scalar};
use crate::error::{Fault, Span, quoted};
use crate::fields::{Kind, TextsForm};
use crate::limits::{MAX_LIMITS, MAX_TIERS};
use crate::raw::{Raw, RawLimit, RawPair, RawTexts, RawTier};
use crate::store_url::{StoreUrl, join};
use crate::yaml::{Entry, Node, Scalar, Value};

impl Reader<'_> {
    /// Several limits; `name` is what messages call them.
    pub(super) fn limits(&mut self, name: &str, at: Span, items: &[Node]) -> Option<Vec<RawLimit>> {
        if items.is_empty() || items.len() > MAX_LIMITS {
            let fault = Fault::new(format!("{name} has {} entries", items.len()))
                .expected(format!("1 to {MAX_LIMITS} limits"));
            self.problems.add(at, fault);
            return None;
        }
        let subject = format!("{name} has");
        let mut limits = Vec::new();
        for node in items {
            let Some(scalar) =
                self.single(&subject, "that is not in one line", Kind::Limit.expected(), node)
            else {
                continue;
            };
            limits.extend(self.limit(&subject, scalar, node.span));
        }
        // With one refused the others would be named and compared wrongly.
        (limits.len() == items.len()).then_some(limits)
    }

    fn limit(&mut self, subject: &str, scalar: &Scalar, span: Span) -> Option<RawLimit> {
        match scalar::limit(subject, scalar) {
            Ok(short) => Some(RawLimit { short, span, scalar: scalar.clone() }),
            Err(fault) => {
                self.problems.add(span, fault);
                None
            }
        }
    }

    /// A map from the names of tiers to their limits.
    pub(super) fn tiers(&mut self, entry: &Entry, entries: &[Entry]) -> Option<Raw> {
        if entries.is_empty() || entries.len() > MAX_TIERS {
            let fault = Fault::new(format!("`limits` has {} tiers", entries.len()))
                .expected(Kind::TierLimits.expected());
            self.problems.add(entry.key_span, fault);
            return None;
        }
        let mut tiers = Vec::new();
        for tier in entries {
            let name = format!("tier {}", quoted(&tier.key));
            let node = &tier.value;
            let limits = match &node.value {
                Value::List(items) => self.limits(&name, tier.key_span, items),
                _ => {
                    let expected = "a limit such as 10/min, or a list of limits".to_owned();
                    let scalar =
                        self.single(&format!("{name} has"), "that is a map", expected, node);
                    scalar
                        .and_then(|scalar| self.limit(&format!("{name} is"), scalar, node.span))
                        .map(|limit| vec![limit])
                }
            };
            tiers.extend(limits.map(|limits| RawTier {
                name: tier.key.clone(),
                name_span: tier.key_span,
                limits,
            }));
        }
        Some(Raw::Tiers(tiers))
    }

    /// Several servers, as one store.
    pub(super) fn store_urls(&mut self, entry: &Entry, items: &[Node]) -> Option<Raw> {
        let mut urls = Vec::with_capacity(items.len());
        for node in items {
            let expected = Kind::StoreUrl.expected();
            let found = self.single("`url` has", "that is not a text", expected, node);
            let read = found.map(|scalar| scalar::store_url(scalar).map(|url| (scalar, url)));
            match read {
                Some(Ok(read)) => urls.push(read),
                Some(Err(fault)) => self.problems.add(node.span, fault),
                None => {}
            }
        }
        if urls.len() < items.len() {
            return None;
        }
        let (scalars, urls): (Vec<&Scalar>, Vec<StoreUrl>) = urls.into_iter().unzip();
        let misfit = match join(urls) {
            Ok(url) => return Some(Raw::StoreUrl(url)),
            Err(misfit) => misfit,
        };
        let (span, fault) = match misfit.nth {
            Some(nth) => (items[nth].span, scalar::url_fault(scalars[nth], &misfit.error)),
            None => {
                let fault = Fault::new(format!("`url` {}", misfit.error.problem()));
                (entry.key_span, fault.expected(misfit.error.expected()))
            }
        };
        self.problems.add(span, fault);
        None
    }

    /// Several texts.
    pub(super) fn texts(
        &mut self,
        name: &str,
        form: &TextsForm,
        entry: &Entry,
        items: &[Node],
    ) -> Option<Raw> {
        if !(form.min..=form.max).contains(&items.len()) {
            let fault = Fault::new(format!("`{name}` has {} entries", items.len()))
                .expected(format!("{} to {}, each {}", form.min, form.max, form.expected));
            self.problems.add(entry.key_span, fault);
            return None;
        }
        let subject = format!("`{name}` has");
        let mut list = Vec::with_capacity(items.len());
        for node in items {
            let found = self.single(&subject, "that is not a text", form.expected.into(), node);
            list.extend(found.map(|scalar| (scalar.clone(), node.span)));
        }
        Some(Raw::Texts(RawTexts::new(subject, list)))
    }

    /// Texts by names that the user chooses.
    pub(super) fn pairs(
        &mut self,
        name: &str,
        form: &'static TextsForm,
        entry: &Entry,
        entries: &[Entry],
    ) -> Option<Raw> {
        if !(form.min..=form.max).contains(&entries.len()) {
            let fault = Fault::new(format!("`{name}` has {} entries", entries.len()))
                .expected(Kind::Pairs(form).expected());
            self.problems.add(entry.key_span, fault);
            return None;
        }
        let mut pairs = Vec::with_capacity(entries.len());
        for Entry { key, key_span, value } in entries {
            let subject = format!("{} has", quoted(key));
            let found = self.single(&subject, "that is not a text", form.expected.into(), value);
            pairs.extend(found.map(|scalar| RawPair {
                name: key.clone(),
                name_span: *key_span,
                value: scalar.clone(),
                span: value.span,
            }));
        }
        Some(Raw::Pairs(pairs))
    }

    /// A single value; `reason` is what is wrong with an entry that is none.
    fn single<'n>(
        &mut self,
        subject: &str,
        reason: &str,
        expected: String,
        node: &'n Node,
    ) -> Option<&'n Scalar> {
        let reason = match &node.value {
            Value::Scalar(scalar) if !scalar.is_null() => return Some(scalar),
            Value::Unreadable => return None,
            Value::Scalar(_) => "without a value",
            Value::Map(_) | Value::List(_) => reason,
        };
        let fault = Fault::new(format!("{subject} an entry {reason}")).expected(expected);
        self.problems.add(node.span, fault);
        None
    }
}
