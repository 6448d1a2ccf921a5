//! Real time that a test must let pass, and how long it is willing to wait.

use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often something is looked at that nobody tells about.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Lets `time` pass. For services in other processes, which have no other time; everything else
/// brings a [`ManualClock`](crate::ManualClock).
pub fn pass(time: Duration) {
    // Nobody sends, and the sender is still there: it ends by its timeout alone.
    let (sender, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
    drop(sender);
}

/// Asks until there is an answer, and no longer than `patience`.
#[expect(clippy::disallowed_methods, reason = "it is another process that is waited for")]
pub fn until<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        match ask() {
            None if begun.elapsed() < patience => pass(LOOK_EVERY),
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is real time that passes")]
    fn no_less_passes_than_was_asked_for() {
        let begun = Instant::now();
        pass(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn it_is_asked_until_it_answers_and_once_without_patience() {
        let mut asked = 0;
        let third = until(Duration::from_secs(60), || {
            asked += 1;
            (asked == 3).then_some("third")
        });
        assert_eq!(third, Some("third"));
        let mut asked = 0;
        assert_eq!(
            until(Duration::ZERO, || {
                asked += 1;
                None::<()>
            }),
            None
        );
        assert_eq!(asked, 1);
    }
}
