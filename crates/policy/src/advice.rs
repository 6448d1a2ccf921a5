//! Owns [`Advice`]: what a valid policy does to traffic that its author hardly meant.
//!
//! A policy that gets advice is valid and is served. Each piece has a code that stays the same
//! through all versions, and a page that tells the rest. One file for each check; a check claims
//! only what is certain, or says that it is not.

use crate::error::visible;
use crate::limits::MAX_ADVICE;
use crate::policy::Policy;
use crate::rule::Rule;

mod absent;
mod code;
mod cover;
mod dear;
mod faces;
mod hidden;
mod outage;
mod path;
mod places;
mod quota;
mod shared;
mod show;
mod unmatched;
mod untrusted;
mod waiting;

pub use code::AdviceCode;
pub use show::render_advice;

use path::{Path, paths_of};

/// What a policy will do that was hardly meant.
///
/// ```
/// use tollkeeper_policy::{AdviceCode, Policy};
///
/// let file = "rules:\n  api: { limits: [10/s, 1000/min] }\n";
/// let policy = Policy::parse(file, &|_| None)?;
/// let [advice] = &policy.advice_in(file)[..] else { panic!("one piece of advice") };
/// assert_eq!(advice.code, AdviceCode::Hidden);
/// assert_eq!(advice.code.to_string(), "TK005");
/// assert_eq!((advice.rule.as_deref(), advice.line, advice.column), (Some("api"), Some(2), Some(25)));
/// # Ok::<(), tollkeeper_policy::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// Which check it comes from.
    pub code: AdviceCode,
    /// The rule that it is about; `None` for the settings beside the rules.
    pub rule: Option<String>,
    /// The line of the file, from 1, where the file is known.
    pub line: Option<usize>,
    /// The column, from 1, in characters, where the file is known.
    pub column: Option<usize>,
    /// How many characters are meant; 0 where it is a point, or the file is not known.
    pub length: usize,
    /// What will happen to traffic, in one sentence without a full stop.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// Where in a file it may stand; the first place that is there counts.
    paths: Vec<Path>,
}

impl Advice {
    /// The code, what will happen and where more is told, for a log.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        format!("{}: {} ({})", self.code, self.message, self.code.page())
    }

    /// Whether the same is said of the same rule, wherever it stands.
    #[must_use]
    pub fn says_as(&self, other: &Self) -> bool {
        let what = |one: &Self| (one.code, one.rule.clone(), one.message.clone());
        what(self) == what(other)
    }

    fn new(code: AdviceCode, message: String, help: impl Into<String>) -> Self {
        let (message, help) = (visible(&message), visible(&help.into()));
        let (line, column, length) = (None, None, 0);
        Self { code, rule: None, line, column, length, message, help, paths: Vec::new() }
    }

    /// The same about a rule, at `fields` of it.
    fn of(mut self, rule: &Rule, fields: &[&str]) -> Self {
        self.rule = Some(rule.name().to_owned());
        self.paths = paths_of(rule, fields);
        self
    }

    /// The same about a limit of a rule, by its place among the limits of a tier, or of the rule.
    fn of_limit(mut self, rule: &Rule, tier: Option<usize>, limit: usize) -> Self {
        self.rule = Some(rule.name().to_owned());
        self.paths = path::paths_of_limit(rule, tier, limit);
        self
    }

    /// The same about a setting.
    fn of_setting(mut self, fields: &[&str]) -> Self {
        self.paths = vec![fields.iter().map(|&field| field.to_owned()).collect()];
        self
    }
}

impl Policy {
    /// What the policy will do that was hardly meant; nothing for a good one.
    ///
    /// One thing is seen only while requests come ([`AdviceCode::UntrustedProxy`]), and is told by
    /// whoever sees it. At most [`MAX_ADVICE`] pieces, in the order of the rules.
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        faces::check(self, &mut advice);
        outage::check(self, &mut advice);
        for rule in self.rules() {
            unmatched::check(rule, &mut advice);
            absent::check(self, rule, &mut advice);
            shared::check(self, rule, &mut advice);
            untrusted::check(self, rule, &mut advice);
            waiting::check(rule, &mut advice);
            dear::check(rule, &mut advice);
            if advice.len() >= MAX_ADVICE {
                break;
            }
        }
        hidden::check(self, &mut advice);
        advice.truncate(MAX_ADVICE);
        let order = |one: &Advice| one.rule.as_deref().map(|rule| self.position(rule));
        advice.sort_by_key(|one| (order(one), one.code));
        advice
    }

    /// The same, with the places in the text that the policy was read from.
    #[must_use]
    pub fn advice_in(&self, text: &str) -> Vec<Advice> {
        let mut advice = self.advice();
        if !advice.is_empty() {
            places::find(&mut advice, text);
        }
        advice
    }
}
