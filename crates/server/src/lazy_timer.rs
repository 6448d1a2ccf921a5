//! Owns [`LazyTimer`]: the timer of one connection, which keeps one alarm.
//!
//! Hyper sets an alarm for each head that it waits for, and takes it back when the head has come,
//! which is nearly always at once. All connections share the place where alarms lie, so both are
//! dear. Here an alarm that rings early enough is left as it is: when it rings, it is set anew for
//! whoever waits by then, if anybody does.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;
use tokio::task::unconstrained;
use tokio::time::{self, sleep_until};

/// The timer of one connection. Only its own task may wait by it.
#[derive(Debug, Default)]
pub(crate) struct LazyTimer {
    alarm: Arc<Mutex<Alarm>>,
}

/// What rings, once there was anything to wait for.
type Alarm = Option<Pin<Box<time::Sleep>>>;

/// A wait until a moment.
struct Wait {
    until: time::Instant,
    alarm: Arc<Mutex<Alarm>>,
}

impl Timer for LazyTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Wait { until: deadline.into(), alarm: Arc::clone(&self.alarm) })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into()
    }
}

impl Sleep for Wait {}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.alarm.lock();
        let set = match &mut *alarm {
            // It wakes this task, which then looks here again.
            Some(set) if !set.is_elapsed() && set.deadline() <= self.until => return Poll::Pending,
            Some(set) => {
                set.as_mut().reset(self.until);
                set
            }
            none => none.insert(Box::pin(sleep_until(self.until))),
        };
        // Never put off: an alarm that is set wakes this task.
        pin!(unconstrained(set.as_mut())).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn is_pending(mut wait: Pin<&mut dyn Sleep>) -> bool {
        poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_ends_at_its_own_time() {
        let (timer, began) = (LazyTimer::default(), time::Instant::now());
        let after = |seconds| timer.sleep_until((began + seconds * SECOND).into());
        let waited = || began.elapsed().as_secs();
        // Those that nobody waits for any more leave an alarm behind, which rings for nobody.
        let mut short = after(3);
        assert!(is_pending(short.as_mut()).await);
        drop(short);
        after(5).await;
        assert_eq!(waited(), 5);
        let mut long = after(20);
        assert!(is_pending(long.as_mut()).await);
        drop(long);
        after(8).await;
        assert_eq!(waited(), 8);
        // What has passed has passed.
        after(7).await;
        assert_eq!(waited(), 8);
        timer.sleep(2 * SECOND).await;
        assert_eq!(waited(), 10);
    }
}
