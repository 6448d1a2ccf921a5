//! Finds the programs that tests run and that no package of the system puts on everybody's path.
//!
//! `cargo xtask needs` installs them, most of them under `target/peers`.

use std::path::{Path, PathBuf};

/// The servers that everything must hold on: the system's Redis, and Valkey.
pub fn servers() -> Result<[PathBuf; 2], String> {
    Ok(["redis-server".into(), valkey()?])
}

/// The newest server that is supported.
pub fn valkey() -> Result<PathBuf, String> {
    find("valkey-server")
}

/// The oldest server that is supported: Redis 6.2.
pub fn oldest_redis() -> Result<PathBuf, String> {
    find("redis-server-6.2")
}

/// A server too old to be supported: Redis 5.0.
pub fn too_old_redis() -> Result<PathBuf, String> {
    find("redis-server-5.0")
}

/// nginx, where Debian puts it: on the path of root alone.
pub fn nginx() -> Result<PathBuf, String> {
    existing("/usr/sbin/nginx".into())
}

/// Caddy.
pub fn caddy() -> Result<PathBuf, String> {
    find("caddy")
}

/// Traefik.
pub fn traefik() -> Result<PathBuf, String> {
    find("traefik")
}

fn find(name: &str) -> Result<PathBuf, String> {
    existing(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers").join(name))
}

fn existing(path: PathBuf) -> Result<PathBuf, String> {
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("{} is missing: run `cargo xtask needs`", path.display())),
    }
}
