//! Owns [`Reloader`]: reads the policy again, and lets it take effect whole or not at all.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tollkeeper_policy::Policy;

use crate::metrics::Metrics;
use crate::tls::Certificate;
use crate::wire::AppEngine;

mod watch;

pub(crate) use watch::{at_hangup, watch};

/// The largest file that is looked at.
const MAX_BYTES: usize = tollkeeper_policy::limits::MAX_FILE_BYTES;

/// A policy file, and how its bytes become a policy.
pub struct PolicyFile {
    path: PathBuf,
    parse: Parse,
    /// The bytes that were read last.
    seen: Mutex<Vec<u8>>,
}

/// Reads a policy, or says what is wrong with it.
type Parse = Box<dyn Fn(&[u8]) -> Result<Policy, String> + Send + Sync>;

impl PolicyFile {
    /// The file at `path`, of which `bytes` were read already.
    pub fn new(
        path: impl Into<PathBuf>,
        bytes: Vec<u8>,
        parse: impl Fn(&[u8]) -> Result<Policy, String> + Send + Sync + 'static,
    ) -> Self {
        Self { path: path.into(), parse: Box::new(parse), seen: Mutex::new(bytes) }
    }
}

impl fmt::Debug for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Why the policy is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The file, or something beside it, has changed.
    Change,
    /// Somebody asked for it.
    Request,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// It took effect.
    Applied { rules: usize },
    /// There is nothing new in it.
    Unchanged,
}

/// Reads the policy again.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) engine: Arc<AppEngine>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) file: PolicyFile,
}

impl Reloader {
    /// Reads the file. A good one takes effect whole; a bad one changes nothing, and is told once.
    pub(crate) fn reload(&self, occasion: Occasion) -> Result<Reloaded, String> {
        let name = self.file.path.display();
        let mut seen = self.file.seen.lock();
        let bytes = match std::fs::read(&self.file.path) {
            Ok(bytes) if bytes.len() > MAX_BYTES => {
                Err(format!("{name} is larger than {MAX_BYTES} bytes"))
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(format!("cannot read {name}: {error}")),
        };
        // A file that is away for a moment, as while it is replaced, is not worth a word.
        let bytes = match (bytes, occasion) {
            (Ok(bytes), _) => bytes,
            (Err(_), Occasion::Change) => return Ok(Reloaded::Unchanged),
            (Err(error), Occasion::Request) => return Err(self.failed(error)),
        };
        if *seen == bytes && occasion == Occasion::Change {
            return Ok(Reloaded::Unchanged);
        }
        let applied = (self.file.parse)(&bytes).and_then(|policy| self.apply(policy));
        *seen = bytes;
        applied.map_err(|error| self.failed(error))
    }

    fn apply(&self, policy: Policy) -> Result<Reloaded, String> {
        let old = self.engine.policy();
        if old.listen() != policy.listen() {
            return Err("`listen` cannot change while the service runs: restart it".to_owned());
        }
        if self.certificate.is_some() != policy.tls().is_some() {
            return Err("`tls` cannot come or go while the service runs: restart it".to_owned());
        }
        // Read now and shown last: what is wrong changes nothing.
        let renewed = policy.tls().map(Certificate::open).transpose();
        let renewed = renewed.map_err(|error| error.to_string())?;
        let rules = policy.rules().len();
        let (before, advice) = (old.advice(), policy.advice());
        self.engine.reload(policy).map_err(|error| error.to_string())?;
        if let (Some(certificate), Some(renewed)) = (&self.certificate, renewed) {
            certificate.show(renewed);
        }
        self.metrics.loaded(&self.engine.policy());
        let file = self.file.path.display();
        tracing::info!(%file, rules, "the policy was read again and took effect");
        for new in advice.iter().filter(|new| !before.iter().any(|known| known.says_as(new))) {
            tracing::warn!("{}", new.in_one_line());
        }
        Ok(Reloaded::Applied { rules })
    }

    fn failed(&self, error: String) -> String {
        self.metrics.load_failed();
        tracing::warn!(
            file = %self.file.path.display(),
            error,
            "the policy was read again and is wrong; the old one stays"
        );
        error
    }
}
