//! Owns [`Rule`]: a name, its limits, and to which requests they apply how. A rule that exists is
//! valid.

use smallvec::SmallVec;
use tollkeeper_core::consistency::Unsuited;
use tollkeeper_core::{Algorithm, Consistency, Quota};

use crate::limits::{MAX_RULE_NAME_BYTES, MAX_TIER_BYTES, MAX_TIERS};
use crate::settings::OnFailure;

pub(crate) mod conditions;
pub(crate) mod cost;
mod error;
pub(crate) mod exempt;
pub(crate) mod host;
pub(crate) mod key;
pub(crate) mod limit;
pub(crate) mod methods;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod status;
pub(crate) mod tiers;

pub use conditions::{HeaderMatch, Match};
pub use cost::{Cost, Source};
pub use error::RuleError;
pub use exempt::Exempt;
pub use host::HostPattern;
pub use key::{KeyPart, WhenMissing};
pub use limit::Limit;
pub use path::PathPattern;
pub use status::Status;
pub use tiers::{Tier, Tiers};

use limit::{Labelled, label};
use methods::MethodBits;

/// The name under which a request's own limit is kept, which no rule may take.
const RESERVED_NAME: &str = "inline";

static NOBODY: Exempt = Exempt::nobody();

/// A named set of limits that a request must all meet.
///
/// ```
/// use tollkeeper_core::Quota;
/// use tollkeeper_policy::{Cost, Match, Rule, WhenMissing};
///
/// let per_minute = |count| Quota::fixed_window(count, 60_000_000);
/// let rule = Rule::new("per-key", [per_minute(100)?])?
///     .matching(Match::any().path("/api/**")?.method("GET")?)
///     .keyed_by(["header:x-api-key", "route"])?
///     .when_missing(WhenMissing::Deny)
///     .costing(Cost::told("header:x-cost", 1..=100, 1)?)
///     .with_tiers("attribute:plan", [("pro", vec![per_minute(1000)?])])?
///     .refunding(["5xx"])?;
/// assert!(rule.refunds(503));
/// assert_eq!(rule.limits_of(Some(0))[0].quota().limit(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    hot: Hot,
    match_: Match,
    cost: Cost,
    tiers: Option<Box<Tiers>>,
    exempt: Option<Box<Exempt>>,
    name: String,
    /// Never empty.
    limits: Vec<Limit>,
    algorithm: Algorithm,
    shadow: bool,
    on_failure: Option<OnFailure>,
    refund_on: Vec<Status>,
}

/// What is looked at for each request, and whether there is more to look at. It is kept together
/// and small: with many rules most of them are in no cache, and each line of memory that a rule
/// takes is waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hot {
    pub(crate) key: SmallVec<[KeyPart; 2]>,
    pub(crate) methods: MethodBits,
    pub(crate) when_missing: WhenMissing,
    pub(crate) has_hosts: bool,
    pub(crate) has_headers: bool,
    pub(crate) has_exempt: bool,
    pub(crate) has_tiers: bool,
    /// What every request takes, unless it can say so itself.
    pub(crate) fixed_cost: Option<u64>,
}

/// How a rule is made.
impl Rule {
    /// A rule made in code: one counter for all requests, until more is said of it.
    ///
    /// A single limit has the name of its rule. Of several, each is `rule/LABEL`, where the label
    /// is the window (`api/1m`), the lease, or for a bucket its rate in lowest terms: the time of
    /// one unit where that is whole (10 per second is `api/100ms`), else `R-per-P` (30 000 per
    /// second is `api/3-per-100us`). The label does not depend on the capacity, nor on the other
    /// limits, unless they have the same: the second one of a label is `api/1m.2`.
    pub fn new(
        name: impl Into<String>,
        limits: impl IntoIterator<Item = Quota>,
    ) -> Result<Self, RuleError> {
        Self::labelled(name, labelled(limits))
    }

    /// A rule of limits whose labels, which tell them apart, are already known.
    pub(crate) fn labelled(
        name: impl Into<String>,
        limits: Vec<Labelled>,
    ) -> Result<Self, RuleError> {
        let name = name.into();
        check_name(&name)?;
        let algorithm = limits.first().map_or(Algorithm::TokenBucket, |(_, q)| q.algorithm());
        let mut limits = limit::limits(&name, limits)?;
        limit::name(&name, [&mut limits].into_iter());
        Ok(Self {
            name,
            limits,
            algorithm,
            shadow: false,
            on_failure: None,
            refund_on: Vec::new(),
            hot: Hot { fixed_cost: Some(Cost::default().default_cost()), ..Hot::default() },
            match_: Match::any(),
            cost: Cost::default(),
            tiers: None,
            exempt: None,
        })
    }

    /// Whether the rule only counts what it would deny.
    #[must_use]
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// What the rule decides while the store gives no answer, whatever the store's settings say.
    #[must_use]
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Lets each of `nodes` processes spend units that it took in advance: for `period_us`, or for
    /// what suits each limit. Refused where a limit, one of a tier too, does not allow it, or
    /// where a request may cost more than can be leased. Comes after the tiers and the cost.
    pub fn leasing(self, nodes: u64, period_us: Option<u64>) -> Result<Self, RuleError> {
        self.consistent("leased", |quota| Consistency::lease(quota, nodes, period_us))
    }

    /// Lets each process decide by what the store had left when it was last told what was admitted
    /// there: each `period_us`, or ten times a second. A key is split over `sub_shards` of the
    /// store's. Refused as [`leasing`](Self::leasing) is.
    pub fn syncing(self, period_us: Option<u64>, sub_shards: u64) -> Result<Self, RuleError> {
        self.consistent("admitted", |quota| Consistency::sync(quota, period_us, sub_shards))
    }

    /// Lets each of `nodes` processes admit its part of the limit, or of as many as count each other
    /// through the store. Refused as [`leasing`](Self::leasing) is.
    pub fn sharing(self, nodes: Option<u64>) -> Result<Self, RuleError> {
        self.consistent("shared", |quota| Consistency::share(quota, nodes))
    }

    fn consistent(
        mut self,
        done: &str,
        how: impl Fn(&Quota) -> Result<Consistency, Unsuited>,
    ) -> Result<Self, RuleError> {
        let most_cost =
            self.cost.source().map_or(self.cost.default_cost(), |_| *self.cost.bounds().end());
        let of_tiers = self.tiers.iter_mut().flat_map(|tiers| &mut tiers.tiers);
        let sets = [&mut self.limits].into_iter().chain(of_tiers.map(|tier| &mut tier.limits));
        for limit in sets.flatten() {
            let refused = |problem: String| RuleError::Unsuited { problem };
            let quota = limit.quota();
            let consistency = how(quota).map_err(|error| refused(error.to_string()))?;
            let most = consistency.most_cost(quota);
            if most_cost > most {
                let limit = quota.limit();
                return Err(refused(format!(
                    "a request may cost {most_cost}, and of {limit} only {most} can be {done} at \
                     once; expected a cost of at most {most}, or consistency: exact"
                )));
            }
            limit.consistency = consistency;
        }
        Ok(self)
    }

    /// To which requests the rule applies.
    #[must_use]
    pub fn matching(mut self, match_: Match) -> Self {
        self.hot.methods = match_.method_bits();
        self.hot.has_hosts = !match_.hosts().is_empty();
        self.hot.has_headers = !match_.headers().is_empty();
        self.match_ = match_;
        self
    }

    /// What tells apart who is counted, as [`KeyPart`]s are written in the file; nothing for one
    /// counter that all requests share.
    pub fn keyed_by<'t>(self, parts: impl IntoIterator<Item = &'t str>) -> Result<Self, RuleError> {
        let mut key = Vec::new();
        for part in parts {
            key::add(&mut key, part).map_err(|refused| refused.of("key", part))?;
        }
        Ok(self.keyed_by_parts(key))
    }

    pub(crate) fn keyed_by_parts(mut self, key: Vec<KeyPart>) -> Self {
        self.hot.key = SmallVec::from_vec(key);
        self.hot.key.shrink_to_fit();
        self
    }

    /// What happens to a request that lacks a part of the key.
    #[must_use]
    pub fn when_missing(mut self, when_missing: WhenMissing) -> Self {
        self.hot.when_missing = when_missing;
        self
    }

    /// How many units a request takes.
    #[must_use]
    pub fn costing(mut self, cost: Cost) -> Self {
        self.hot.fixed_cost = cost.source().is_none().then_some(cost.default_cost());
        self.cost = cost;
        self
    }

    /// Other limits for requests that have one of these values at a [`Source`] such as
    /// `attribute:plan`.
    ///
    /// They are named like the rule's own. If each set, the rule's own and every tier's, is a
    /// single limit, all of them have the name of the rule; otherwise each is `rule/LABEL`.
    pub fn with_tiers<N: Into<String>>(
        self,
        by: &str,
        tiers: impl IntoIterator<Item = (N, Vec<Quota>)>,
    ) -> Result<Self, RuleError> {
        let by = by.parse()?;
        let tiers = tiers.into_iter().map(|(name, quotas)| (name.into(), labelled(quotas)));
        self.tiered(by, tiers.collect())
    }

    pub(crate) fn tiered(
        mut self,
        by: Source,
        tiers: Vec<(String, Vec<Labelled>)>,
    ) -> Result<Self, RuleError> {
        let rule = &self.name;
        let refuse = |problem| Err(RuleError::BadTiers { rule: rule.clone(), problem });
        if !(1..=MAX_TIERS).contains(&tiers.len()) {
            return refuse(format!("{} tiers; expected 1 to {MAX_TIERS}", tiers.len()));
        }
        let mut named: Vec<Tier> = Vec::with_capacity(tiers.len());
        for (tier, quotas) in tiers {
            if !(1..=MAX_TIER_BYTES).contains(&tier.len()) {
                let bytes = tier.len();
                return refuse(format!(
                    "a tier whose name has {bytes} bytes; expected 1 to {MAX_TIER_BYTES}"
                ));
            }
            if named.iter().any(|other| *other.name == *tier) {
                return refuse(format!("two tiers with the name `{tier}`"));
            }
            let limits = limit::limits(rule, quotas).map_err(|reason| RuleError::BadTier {
                tier: tier.clone(),
                reason: Box::new(reason),
            })?;
            named.push(Tier { name: tier.into(), limits });
        }
        let of_tiers = named.iter_mut().map(|tier| &mut tier.limits);
        limit::name(rule, [&mut self.limits].into_iter().chain(of_tiers));
        self.hot.has_tiers = true;
        self.tiers = Some(Box::new(Tiers { by, tiers: named }));
        Ok(self)
    }

    /// Which answers give back what a request has taken, as a [`Status`] is written in the file.
    pub fn refunding<'t>(
        mut self,
        statuses: impl IntoIterator<Item = &'t str>,
    ) -> Result<Self, RuleError> {
        self.refund_on.clear();
        for text in statuses {
            status::add(&mut self.refund_on, text)
                .map_err(|refused| refused.of("refund_on", text))?;
        }
        Ok(self)
    }

    pub(crate) fn refunding_statuses(self, refund_on: Vec<Status>) -> Self {
        Self { refund_on, ..self }
    }

    /// To whom the rule does not apply.
    #[must_use]
    pub fn exempting(mut self, exempt: Exempt) -> Self {
        self.hot.has_exempt = exempt != NOBODY;
        self.exempt = self.hot.has_exempt.then(|| Box::new(exempt));
        self
    }
}

/// What a rule is.
impl Rule {
    /// The rule's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits in the order of the file; at least one. A tier has others.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The limits of a tier, by its place among the [tiers](Self::tiers); the rule's own for
    /// `None`.
    #[must_use]
    pub fn limits_of(&self, tier: Option<usize>) -> &[Limit] {
        let tier = tier.and_then(|tier| self.tiers()?.tiers.get(tier));
        tier.map_or(&self.limits, |tier| &tier.limits)
    }

    /// All of its limits, those of its tiers too.
    pub fn every_limit(&self) -> impl Iterator<Item = &Limit> {
        let tiers = self.tiers().into_iter().flat_map(|tiers| &tiers.tiers);
        self.limits.iter().chain(tiers.flat_map(|tier| &tier.limits))
    }

    /// Whether the rule never denies.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What the rule decides while the store gives no answer; `None` for what the store's settings
    /// say.
    #[must_use]
    pub fn on_failure(&self) -> Option<OnFailure> {
        self.on_failure
    }

    /// The algorithm of the first limit.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// To which requests the rule applies.
    #[must_use]
    pub fn match_(&self) -> &Match {
        &self.match_
    }

    /// The parts of the key, in order; none for one counter that all requests share.
    #[must_use]
    pub fn key(&self) -> &[KeyPart] {
        &self.hot.key
    }

    /// What happens to a request that lacks a part of the key.
    #[must_use]
    pub fn on_missing(&self) -> WhenMissing {
        self.hot.when_missing
    }

    /// How many units a request takes.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Who has other limits.
    #[must_use]
    pub fn tiers(&self) -> Option<&Tiers> {
        self.tiers.as_deref()
    }

    /// The answers that give back what a request has taken.
    #[must_use]
    pub fn refund_on(&self) -> &[Status] {
        &self.refund_on
    }

    /// Whether an answer with this status gives back what the request has taken.
    #[must_use]
    pub fn refunds(&self, status: u16) -> bool {
        self.refund_on.iter().any(|known| known.is(status))
    }

    /// To whom the rule does not apply.
    #[must_use]
    pub fn exempt(&self) -> &Exempt {
        self.exempt.as_deref().unwrap_or(&NOBODY)
    }

    pub(crate) fn hot(&self) -> &Hot {
        &self.hot
    }

    /// Whether a header sets the cost or the tier. Such a header counts only from a trusted proxy,
    /// so without any it never does.
    #[must_use]
    pub fn trusts_headers(&self) -> bool {
        let by = self.tiers().map(Tiers::by);
        by.into_iter().chain(self.cost().source()).any(Source::is_header)
    }
}

fn labelled(quotas: impl IntoIterator<Item = Quota>) -> Vec<Labelled> {
    quotas.into_iter().map(|quota| (label(&quota), quota)).collect()
}

/// Refuses a name that is empty, long, reserved, or that has unusual characters.
pub(crate) fn check_name(name: &str) -> Result<(), RuleError> {
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if name == RESERVED_NAME {
        return Err(RuleError::ReservedName);
    }
    if name.is_empty() || name.len() > MAX_RULE_NAME_BYTES || !name.bytes().all(usual) {
        let shown: String = name.chars().take(MAX_RULE_NAME_BYTES).collect();
        return Err(RuleError::BadName { name: shown.escape_debug().to_string() });
    }
    Ok(())
}
