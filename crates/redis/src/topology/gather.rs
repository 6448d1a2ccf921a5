//! Asks several at once, and does not wait for the slow ones when others have answered.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use crate::driver::Fault;

/// How long the others are waited for after the first answer.
const GRACE: Duration = Duration::from_millis(50);

/// What each of `asked` answered, or why it did not: all of those who did so within `patience`, and
/// soon after the first answer.
pub(super) async fn gather<T>(
    asked: impl IntoIterator<Item = impl Future<Output = Result<T, Fault>>>,
    patience: Duration,
) -> (Vec<T>, Vec<Fault>) {
    let mut asked: FuturesUnordered<_> = asked.into_iter().collect();
    let mut until = Instant::now() + patience;
    let (mut answers, mut faults) = (Vec::new(), Vec::new());
    while let Ok(Some(answered)) = timeout_at(until, asked.next()).await {
        match answered {
            Ok(answer) => {
                until = until.min(Instant::now() + GRACE);
                answers.push(answer);
            }
            Err(fault) => faults.push(fault),
        }
    }
    if answers.is_empty() && faults.is_empty() {
        faults.push(Fault::Unconnected { text: format!("no answer within {patience:?}") });
    }
    (answers, faults)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use tokio::time::sleep;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(350);

    type Asked = Pin<Box<dyn Future<Output = Result<u64, Fault>>>>;

    fn after(ms: u64, answer: Result<u64, Fault>) -> Asked {
        Box::pin(async move {
            sleep(Duration::from_millis(ms)).await;
            answer
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_slow_are_not_waited_for_when_others_have_answered() {
        let begun = Instant::now();
        let down = Fault::Unconnected { text: "down".to_owned() };
        let asked = [after(30, Ok(1)), after(60, Ok(2)), after(200, Ok(3)), after(0, Err(down))];
        let (answers, faults) = gather(asked, PATIENCE).await;
        assert_eq!((answers, faults.len()), (vec![1, 2], 1));
        assert_eq!(begun.elapsed(), Duration::from_millis(80));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_where_nobody_answers() {
        let begun = Instant::now();
        let (answers, faults) = gather([after(500, Ok(1)), after(600, Ok(2))], PATIENCE).await;
        assert_eq!((answers.len(), begun.elapsed()), (0, PATIENCE));
        assert_eq!(faults, [Fault::Unconnected { text: "no answer within 350ms".to_owned() }]);
        let (answers, faults) = gather(Vec::<Asked>::new(), PATIENCE).await;
        assert_eq!((answers.len(), faults.len()), (0, 1));
    }
}
