//! Owns [`Folder`]: a place on disk that goes when the test does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of its own, with a path short enough for a socket. Removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes an empty folder.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tollkeeper-{}-{nth}", std::process::id()));
        // A process of the same number may have left one when it was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, which readers see whole or not at all.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, String> {
        let (path, fresh) = (self.0.join(name), self.0.join(format!("{name}.new")));
        fs::write(&fresh, content)
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
