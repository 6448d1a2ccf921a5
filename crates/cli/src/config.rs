//! Finds and reads the policy file.

use std::path::{Path, PathBuf};

use tollkeeper_policy::{Policy, PolicyErrors};

use crate::output::Failure;

/// The file that is read where none is named.
const DEFAULT_FILE: &str = "tollkeeper.yaml";

/// A policy file that could be read, and perhaps understood.
pub(crate) struct Loaded {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) policy: Result<Policy, PolicyErrors>,
}

impl Loaded {
    /// The policy, or what is wrong with it, told.
    pub(crate) fn policy(self) -> Result<Policy, Failure> {
        let Self { name, text, policy } = self;
        policy.map_err(|errors| Failure::told(errors.render(&name, &text)))
    }
}

/// Reads the file that was named, or the default one.
pub(crate) fn load(named: Option<&Path>) -> Result<Loaded, Failure> {
    let path = named.map_or_else(|| PathBuf::from(DEFAULT_FILE), Path::to_owned);
    let name = path.display().to_string();
    let bytes = std::fs::read(&path).map_err(|error| match named {
        Some(_) => Failure::told(format!("cannot read {name}: {error}")),
        None => Failure::told(format!("cannot read ./{name}: {error} (name another with -c)")),
    })?;
    let policy = Policy::parse_bytes(&bytes, &|name| std::env::var(name).ok());
    Ok(Loaded { name, text: String::from_utf8_lossy(&bytes).into_owned(), policy })
}

/// Reads the file that was named, or the default one if it is there.
pub(crate) fn load_if_there(named: Option<&Path>) -> Result<Option<Loaded>, Failure> {
    if named.is_none() && !Path::new(DEFAULT_FILE).exists() {
        return Ok(None);
    }
    load(named).map(Some)
}
