//! What processes that share a store tell each other: which keys were given something back. Whoever
//! remembers a denial of such a key forgets it.
//!
//! The script that gives back says so on a channel of the server, to which every process listens over
//! a connection of its own. Nothing depends on it: who may not listen, or does not for a while, learns
//! of it when its memory of the denial ends.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollkeeper_core::Hears;

use crate::connections::jittered;
use crate::driver::{Command, Ear, Fault};
use crate::names::parse;
use crate::topology::Topology;

/// The longest pause before a server is listened to again, and that of who may not listen.
const PAUSE: Duration = Duration::from_secs(1);
const LONG_PAUSE: Duration = Duration::from_secs(60);

/// Said where it is not one key.
const ANYTHING: &str = "*";

/// The channel of all who share the keys that begin with `prefix`.
pub(crate) fn channel(prefix: &str) -> String {
    format!("{prefix}:given_back")
}

/// Says that anything may have been given back.
pub(crate) async fn tell_of_anything(topology: &Topology, prefix: &str) {
    let tell = Command::new("PUBLISH").arg(channel(prefix)).arg(ANYTHING);
    // Who is not told learns of it later.
    let _ = topology.holder("").call(&tell).await;
}

/// The tasks that listen, as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Listeners {
    /// Begins to listen; `listen` opens an ear, as long as there is anything to listen to. Needs a
    /// runtime.
    pub(crate) fn add<L>(&self, listen: L, prefix: String, hears: Arc<dyn Hears>)
    where
        L: Listen + Send + Sync + 'static,
    {
        self.tasks.lock().push(tokio::spawn(keep_listening(listen, prefix, hears)));
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.tasks.lock().iter().for_each(JoinHandle::abort);
    }
}

/// Opens an ear for a channel; `None` when the store is gone.
pub(crate) trait Listen {
    fn listen(&self, channel: &str) -> impl Future<Output = Option<Result<Ear, Fault>>> + Send;
}

async fn keep_listening(listen: impl Listen, prefix: String, hears: Arc<dyn Hears>) {
    let channel = channel(&prefix);
    while let Some(listening) = listen.listen(&channel).await {
        let pause = match listening {
            Ok(mut ear) => {
                // Something may have been said before anybody listened.
                hears.anything();
                while let Some(said) = ear.hear().await {
                    hear(&said, &prefix, &*hears);
                }
                PAUSE
            }
            Err(fault) if fault.says("NOPERM") => LONG_PAUSE,
            Err(_) => PAUSE,
        };
        sleep(pause / 2 + jittered(pause / 2)).await;
    }
}

fn hear(said: &str, prefix: &str, hears: &dyn Hears) {
    if said == ANYTHING {
        hears.anything();
    } else if let Some(state) = parse(prefix, said) {
        hears.given_back(&state.limit, state.algorithm, &state.key);
    }
}

#[cfg(test)]
mod tests {
    use tollkeeper_core::Algorithm;

    use super::*;

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Hears for Heard {
        fn given_back(&self, limit: &str, algorithm: Algorithm, key: &str) {
            self.0.lock().push(format!("{limit} {algorithm} {key}"));
        }

        fn anything(&self) {
            self.0.lock().push("anything".to_owned());
        }
    }

    #[test]
    fn what_is_said_is_a_key_or_anything() {
        let heard = Heard::default();
        for said in ["rl:{alice}:api:tb", "*", "", "other:{bob}:api:tb", "rl:{", "\0"] {
            hear(said, "rl", &heard);
        }
        assert_eq!(*heard.0.lock(), ["api token_bucket alice", "anything"]);
    }
}
