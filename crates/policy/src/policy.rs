//! Owns [`Policy`]: the rules and settings that everything else runs on. A policy that exists is
//! valid; there is nothing left to check at run time.

use std::net::SocketAddr;

use ahash::RandomState;
use hashbrown::HashMap;
use tollkeeper_core::{Consistency, Quota};

use crate::compile;
use crate::error::{PolicyErrors, Problems};
use crate::limits::MAX_RULES;
use crate::matcher::Index;
use crate::nearest::nearest;
use crate::reader;
use crate::rule::{Limit, Rule, RuleError};
use crate::settings::{
    ClientIp, GatewaySettings, HeaderStyle, Listen, SettingError, StoreSettings, Tls, Upstream,
    check_token,
};
use crate::store_url::{Secret, StoreUrl};
use crate::yaml;

/// Rules and settings, checked.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    names: HashMap<String, usize, RandomState>,
    index: Index,
    settings: Settings,
}

/// Everything beside the rules.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) store: StoreSettings,
    /// Whether it was said how many processes share the limits.
    pub(crate) says_nodes: bool,
    pub(crate) listen: Listen,
    pub(crate) client_ip: ClientIp,
    pub(crate) headers: Vec<HeaderStyle>,
    pub(crate) admin_token: Option<Secret>,
    pub(crate) upstream: Option<Upstream>,
    pub(crate) gateway: GatewaySettings,
    pub(crate) tls: Option<Tls>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            store: StoreSettings::default(),
            says_nodes: false,
            listen: Listen::default(),
            client_ip: ClientIp::default(),
            headers: HeaderStyle::DEFAULT.to_vec(),
            admin_token: None,
            upstream: None,
            gateway: GatewaySettings::default(),
            tls: None,
        }
    }
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
            if policy.names.insert(name, policy.rules.len()).is_some() {
                let name = rule.name().to_owned();
                return Err(RuleError::DuplicateRule { name });
            }
            policy.rules.push(rule);
        }
        match policy.rules.len() {
            count if count > MAX_RULES => Err(RuleError::TooManyRules { count }),
            _ => {
                policy.index = Index::new(&policy.rules);
                Ok(policy)
            }
        }
    }

    pub(crate) fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    pub(crate) fn says_nodes(&self) -> bool {
        self.settings.says_nodes
    }

    /// Whether processes count each other through the store: because the settings say so, or
    /// because a rule is shared by as many as there are.
    #[must_use]
    pub fn counts_nodes(&self) -> bool {
        self.settings.store.count_nodes || self.is_shared_by_count()
    }

    /// Whether a rule is shared by as many processes as there are.
    #[must_use]
    pub fn is_shared_by_count(&self) -> bool {
        let counted = Consistency::Share { nodes: None };
        // All limits of a rule, those of its tiers too, are decided alike.
        let by_rule =
            |rule: &Rule| rule.limits().iter().any(|limit| limit.consistency() == counted);
        self.rules.iter().any(by_rule)
    }

    /// Who decides one of its limits. The table of this process is asked each time, whatever the
    /// rule says.
    #[must_use]
    pub fn consistency_of(&self, limit: &Limit) -> Consistency {
        match self.settings.store.url {
            StoreUrl::Memory => Consistency::Exact,
            _ => limit.consistency(),
        }
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// The same policy with the HTTP API at another address.
    #[must_use]
    pub fn listening_on(mut self, http: SocketAddr) -> Self {
        self.settings.listen.http = Some(http);
        self
    }

    /// The same policy with its state kept as `store` says. Settings out of their range are an
    /// error.
    pub fn stored_by(mut self, store: StoreSettings) -> Result<Self, SettingError> {
        store.check()?;
        // Settings made in code say everything.
        self.settings.says_nodes = true;
        self.settings.store = store;
        Ok(self)
    }

    /// The same policy with its state elsewhere.
    #[must_use]
    pub fn stored_at(mut self, url: StoreUrl) -> Self {
        self.settings.store.url = url;
        self
    }

    /// The same policy with clients told apart as `client_ip` says. A prefix out of its range is an
    /// error.
    pub fn with_client_ip(mut self, client_ip: ClientIp) -> Result<Self, SettingError> {
        client_ip.check()?;
        self.settings.client_ip = client_ip;
        Ok(self)
    }

    /// The same policy with other headers in answers. Two that write the same headers, or one that
    /// is there twice, are an error.
    pub fn with_headers(
        mut self,
        headers: impl IntoIterator<Item = HeaderStyle>,
    ) -> Result<Self, SettingError> {
        self.settings.headers = headers.into_iter().collect();
        HeaderStyle::check(&self.settings.headers)?;
        Ok(self)
    }

    /// The same policy with a token for admin calls. One that is too short, or that a header cannot
    /// hold, is an error.
    pub fn with_admin_token(mut self, token: Secret) -> Result<Self, SettingError> {
        check_token(&token)?;
        self.settings.admin_token = Some(token);
        Ok(self)
    }

    /// The same policy with a gateway at an address, before an app.
    #[must_use]
    pub fn with_gateway(mut self, gateway: SocketAddr, upstream: Upstream) -> Self {
        self.settings.listen.gateway = Some(gateway);
        self.settings.upstream = Some(upstream);
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

    /// The limit of that name: the rule's own, or if it has none of that name, that of the first
    /// tier that has one.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<&Limit> {
        let rule = self.rule(name.split('/').next()?)?;
        let tiers = rule.tiers().into_iter().flat_map(|tiers| tiers.list());
        let mut limits = rule.limits().iter().chain(tiers.flat_map(|tier| tier.limits()));
        limits.find(|known| known.name() == name)
    }

    /// The quota of the limit of that name.
    #[must_use]
    pub fn quota(&self, limit: &str) -> Option<&Quota> {
        self.limit(limit).map(Limit::quota)
    }

    /// The place of the rule of that name among [`rules`](Self::rules).
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The name of a rule that was likely meant by a name that no rule has.
    #[must_use]
    pub fn suggest(&self, name: &str) -> Option<&str> {
        nearest(name, self.rules.iter().map(Rule::name))
    }

    /// Where state is kept.
    #[must_use]
    pub fn store(&self) -> &StoreSettings {
        &self.settings.store
    }

    /// Where the service listens.
    #[must_use]
    pub fn listen(&self) -> &Listen {
        &self.settings.listen
    }

    /// How the address of a client is found.
    #[must_use]
    pub fn client_ip(&self) -> &ClientIp {
        &self.settings.client_ip
    }

    /// The headers that answers carry, in the order of the file; none if it is empty.
    #[must_use]
    pub fn headers(&self) -> &[HeaderStyle] {
        &self.settings.headers
    }

    /// What admin calls must show; `None` if they are for this machine alone.
    #[must_use]
    pub fn admin_token(&self) -> Option<&Secret> {
        self.settings.admin_token.as_ref()
    }

    /// The app behind the gateway.
    #[must_use]
    pub fn upstream(&self) -> Option<&Upstream> {
        self.settings.upstream.as_ref()
    }

    /// How long the gateway waits.
    #[must_use]
    pub fn gateway(&self) -> &GatewaySettings {
        &self.settings.gateway
    }

    /// What the doors show to clients; without it they speak plain HTTP.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.settings.tls.as_ref()
    }
}
