//! Watches the folder of the policy file. The folder and not the file: editors and orchestrators
//! replace files, or swap a link to a folder of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify_debouncer_full::notify::{self, RecursiveMode};
use notify_debouncer_full::{DebounceEventResult, new_debouncer};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

use super::{Occasion, Reloader};

/// Changes that come within so long are one.
const QUIET: Duration = Duration::from_millis(200);

/// Reads the policy again whenever its folder has changed.
pub(crate) async fn watch(reloader: Arc<Reloader>) {
    if let Err(error) = watch_folder(reloader).await {
        tracing::warn!(%error, "the policy's folder cannot be watched: reload by SIGHUP");
    }
}

/// Reads the policy again at each SIGHUP.
pub(crate) async fn at_hangup(reloader: Arc<Reloader>, mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        reload(&reloader, Occasion::Request).await;
    }
}

async fn reload(reloader: &Arc<Reloader>, occasion: Occasion) {
    let reloader = Arc::clone(reloader);
    // What is wrong with it has been told.
    let _ = tokio::task::spawn_blocking(move || reloader.reload(occasion)).await;
}

async fn watch_folder(reloader: Arc<Reloader>) -> Result<(), notify::Error> {
    let folder = match reloader.file.path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    // One that waits is as good as many.
    let (sender, mut changes) = mpsc::channel(1);
    let mut watcher = new_debouncer(QUIET, None, move |events: DebounceEventResult| {
        if events.is_ok_and(|events| events.iter().any(|event| !event.kind.is_access())) {
            let _ = sender.try_send(());
        }
    })?;
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    // What changed before the watch began is found, too.
    loop {
        reload(&reloader, Occasion::Change).await;
        if changes.recv().await.is_none() {
            return Ok(());
        }
    }
}
