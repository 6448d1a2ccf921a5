//! Finds and reads the policy file.

use std::path::{Path, PathBuf};

use tollkeeper_policy::{Policy, PolicyErrors, StoreUrl};
use tollkeeper_server::PolicyFile;

use crate::output::Failure;

/// The file that is read where none is named.
const DEFAULT_FILE: &str = "tollkeeper.yaml";

/// A policy file that could be read, and perhaps understood.
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) policy: Result<Policy, PolicyErrors>,
}

impl Loaded {
    /// The policy, or what is wrong with it, told.
    pub(crate) fn policy(self) -> Result<Policy, Failure> {
        let Self { name, text, policy, .. } = self;
        policy.map_err(|errors| Failure::told(errors.render(&name, &text)))
    }
}

/// The store that the command line names, if it names one.
pub(crate) fn store_url(urls: &[String]) -> Result<Option<StoreUrl>, Failure> {
    let read = urls.iter().map(|url| url.parse::<StoreUrl>());
    let read: Vec<StoreUrl> = read.collect::<Result<_, _>>().map_err(Failure::told)?;
    match read.len() {
        0 | 1 => Ok(read.into_iter().next()),
        _ => StoreUrl::of_shards(read).map(Some).map_err(Failure::told),
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
    Ok(read(path, &bytes))
}

/// What the bytes of a file say.
fn read(path: PathBuf, bytes: &[u8]) -> Loaded {
    let policy = Policy::parse_bytes(bytes, &|name| std::env::var(name).ok());
    let text = String::from_utf8_lossy(bytes).into_owned();
    Loaded { name: path.display().to_string(), path, text, policy }
}

/// The file, to be read again while a service runs, with what the command line says instead of it.
pub(crate) fn reloadable(
    loaded: &Loaded,
    adapt: impl Fn(Policy) -> Policy + Send + Sync + 'static,
) -> PolicyFile {
    let path = loaded.path.clone();
    let parse = move |bytes: &[u8]| match read(path.clone(), bytes) {
        Loaded { policy: Ok(policy), .. } => Ok(adapt(policy)),
        Loaded { name, text, policy: Err(errors), .. } => Err(errors.render(&name, &text)),
    };
    PolicyFile::new(loaded.path.clone(), loaded.text.clone().into_bytes(), parse)
}

/// Reads the file that was named, or the default one if it is there.
pub(crate) fn load_if_there(named: Option<&Path>) -> Result<Option<Loaded>, Failure> {
    if named.is_none() && !Path::new(DEFAULT_FILE).exists() {
        return Ok(None);
    }
    load(named).map(Some)
}
