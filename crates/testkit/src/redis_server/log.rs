//! Owns [`Log`]: what a server says, and waiting for it to say something.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that are kept.
const MAX_LINES: usize = 200;

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    ended: bool,
}

/// The last lines of a server's output.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<(Mutex<Lines>, Condvar)>);

impl Log {
    /// Reads `output` to its end, so that the server never blocks on a full pipe.
    pub(super) fn of(output: impl Read + Send + 'static) -> Self {
        let log = Self::default();
        let shared = log.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                shared.change(|lines| {
                    if lines.kept.len() == MAX_LINES {
                        lines.kept.pop_front();
                    }
                    lines.kept.push_back(line);
                });
            }
            shared.change(|lines| lines.ended = true);
        });
        log
    }

    /// Waits until a line contains `words`, in whatever case. The error tells the last lines.
    pub(super) fn wait_for(&self, words: &str, patience: Duration) -> Result<(), String> {
        let (_, changed) = &*self.0;
        let said = |lines: &Lines| {
            lines.kept.iter().any(|line| line.to_lowercase().contains(&words.to_lowercase()))
        };
        let waiting = |lines: &mut Lines| !said(lines) && !lines.ended;
        let (lines, _) = changed
            .wait_timeout_while(self.lines(), patience, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if said(&lines) {
            return Ok(());
        }
        let why = if lines.ended { "ended" } else { "took too long" };
        let last: Vec<&str> = lines.kept.iter().rev().take(5).map(String::as_str).collect();
        Err(format!("{why} before it said `{words}`; its last lines, latest first: {last:?}"))
    }

    fn change(&self, change: impl FnOnce(&mut Lines)) {
        change(&mut self.lines());
        self.0.1.notify_all();
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
