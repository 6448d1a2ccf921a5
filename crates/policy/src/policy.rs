//! Owns [`Policy`]: the rules and settings that everything else runs on. A policy that exists is
//! valid; there is nothing left to check at run time.

use std::collections::HashMap;
use std::net::SocketAddr;

use tollkeeper_core::Quota;

use crate::compile;
use crate::error::{PolicyErrors, Problems};
use crate::limits::MAX_RULES;
use crate::nearest::nearest;
use crate::reader;
use crate::rule::{Limit, Rule, RuleError};
use crate::settings::{Listen, SettingError, StoreSettings};
use crate::store_url::StoreUrl;
use crate::yaml;

/// Rules and settings, checked.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    index: HashMap<String, usize>,
    store: StoreSettings,
    listen: Listen,
}

impl Policy {
    /// Reads a policy file. `env` looks up the variables that its values name.
    ///
    /// ```
    /// use tollkeeper_policy::Policy;
    ///
    /// let env = |name: &str| (name == "LIMIT").then(|| "20/s".to_owned());
    /// let policy = Policy::parse("rules: { api: { limit: \"${LIMIT}\" } }", &env)?;
    /// assert_eq!(policy.rules()[0].name(), "api");
    /// # Ok::<(), tollkeeper_policy::PolicyErrors>(())
    /// ```
    pub fn parse(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, PolicyErrors> {
        let mut problems = Problems::default();
        let policy = yaml::parse(text, env, &mut problems)
            .and_then(|root| reader::read(&root, &mut problems))
            .map(|raw| compile::policy(&raw, &mut problems));
        problems.finish()?;
        Ok(policy.unwrap_or_default())
    }

    /// Reads a policy file that may not even be text.
    pub fn parse_bytes(
        bytes: &[u8],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, PolicyErrors> {
        Self::parse(yaml::check_bytes(bytes)?, env)
    }

    /// A policy made in code, with the default settings. It may have no rules.
    pub fn from_rules(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let mut policy = Self::default();
        for rule in rules {
            let name = rule.name().to_owned();
            if policy.index.insert(name, policy.rules.len()).is_some() {
                let name = rule.name().to_owned();
                return Err(RuleError::DuplicateRule { name });
            }
            policy.rules.push(rule);
        }
        match policy.rules.len() {
            count if count > MAX_RULES => Err(RuleError::TooManyRules { count }),
            _ => Ok(policy),
        }
    }

    pub(crate) fn with_settings(mut self, store: StoreSettings, listen: Listen) -> Self {
        self.store = store;
        self.listen = listen;
        self
    }

    /// The same policy with the HTTP API at another address.
    #[must_use]
    pub fn listening_on(mut self, http: SocketAddr) -> Self {
        self.listen.http = Some(http);
        self
    }

    /// The same policy with its state kept as `store` says. Settings out of their range are an
    /// error.
    pub fn stored_by(mut self, store: StoreSettings) -> Result<Self, SettingError> {
        store.check()?;
        self.store = store;
        Ok(self)
    }

    /// The same policy with its state elsewhere.
    #[must_use]
    pub fn stored_at(mut self, url: StoreUrl) -> Self {
        self.store.url = url;
        self
    }

    /// The rules in the order of the file.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule of that name.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<&Rule> {
        self.rules.get(self.position(name)?)
    }

    /// The quota of the limit of that name.
    #[must_use]
    pub fn quota(&self, limit: &str) -> Option<&Quota> {
        let rule = self.rule(limit.split('/').next()?)?;
        rule.limits().iter().find(|known| known.name() == limit).map(Limit::quota)
    }

    /// The place of the rule of that name among [`rules`](Self::rules).
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The name of a rule that was likely meant by a name that no rule has.
    #[must_use]
    pub fn suggest(&self, name: &str) -> Option<&str> {
        nearest(name, self.rules.iter().map(Rule::name))
    }

    /// Where state is kept.
    #[must_use]
    pub fn store(&self) -> &StoreSettings {
        &self.store
    }

    /// Where the service listens.
    #[must_use]
    pub fn listen(&self) -> &Listen {
        &self.listen
    }
}
