//! Owns [`Connections`]: a few connections to one server, each kept open by a task of its own.
//!
//! A call goes over a connection that is open, or fails at once: nothing waits for a reconnection.
//! A connection over which no answer comes is tried with a PING and replaced when that is silent,
//! too, since one that is half-open never says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::select_ok;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::driver::{Command, Driver, Fault, Link, Reply};
use crate::examine::{Wanted, examine, replica};

#[cfg(test)]
mod tests;

/// The longest time from one try to open a connection to the next, which doubles each time. A try that
/// takes longer is followed by the next at once: it has been a pause itself.
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// A connection that has lasted so long was worth having, and the next pause is a first one.
const LASTED: Duration = Duration::from_secs(1);

/// What a good server may say of a key that is not its own, or that we may not see, or while it takes
/// no writes for want of replicas: then it still denies, and shows.
const ELSEWHERE: [&str; 6] = ["NOPERM", "READONLY", "MOVED", "ASK", "CLUSTERDOWN", "NOREPLICAS"];

/// How often a connection is tried that nobody doubts.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// A few connections to one server.
#[derive(Debug)]
pub(crate) struct Connections<D: Driver> {
    shared: Arc<Shared<D>>,
    keepers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<D: Driver> {
    driver: D,
    slots: Vec<watch::Sender<Slot<D::Link>>>,
    next: AtomicUsize,
}

/// The place of one connection.
#[derive(Debug)]
enum Slot<L> {
    Opening,
    Open(Arc<Open<L>>),
    Closed(Fault),
}

/// An open connection, and what its callers think of it. They think of this one: whatever befalls
/// a call over an old connection says nothing about the next one in its place.
#[derive(Debug)]
struct Open<L> {
    link: L,
    /// Somebody doubts the connection, or knows that it is of no more use.
    doubt: Notify,
    /// Why it is of no more use.
    over: Mutex<Option<Fault>>,
}

impl<D: Driver> Connections<D> {
    /// Begins to open `count` connections, and keeps them open. Needs a runtime.
    pub(crate) fn open(driver: D, count: usize) -> Self {
        let slots = (0..count.max(1)).map(|_| watch::Sender::new(Slot::Opening)).collect();
        let shared = Arc::new(Shared { driver, slots, next: AtomicUsize::new(0) });
        let keepers = (0..shared.slots.len())
            .map(|nth| tokio::spawn(keep_open(Arc::clone(&shared), nth)))
            .collect();
        Self { shared, keepers }
    }

    /// Waits until one connection is open, or all have failed once.
    pub(crate) async fn opened(&self) -> Result<(), Fault> {
        let tried = self.shared.slots.iter().map(|slot| {
            Box::pin(async {
                let mut slot = slot.subscribe();
                // The sender lives as long as `self`.
                match slot.wait_for(|slot| !matches!(slot, Slot::Opening)).await.as_deref() {
                    Ok(Slot::Closed(fault)) => Err(fault.clone()),
                    _ => Ok(()),
                }
            })
        });
        select_ok(tried).await.map(|((), _)| ())
    }

    /// What opens them.
    pub(crate) fn driver(&self) -> &D {
        &self.shared.driver
    }

    /// Whether a call would be sent at this moment.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.pick().is_ok()
    }

    /// Sends a command over a connection that is open.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        self.send(async |link| link.call(command).await).await
    }

    /// Sends two commands over one connection, with nothing between them; the second's reply.
    pub(crate) async fn call_after(
        &self,
        first: &Command,
        command: &Command,
    ) -> Result<Reply, Fault> {
        self.send(async |link| link.call_after(first, command).await).await
    }

    async fn send(
        &self,
        send: impl AsyncFnOnce(&D::Link) -> Result<Reply, Fault>,
    ) -> Result<Reply, Fault> {
        let open = self.shared.pick()?;
        let mut asking = Asking { open: &open, answered: false };
        let replied = send(&open.link).await;
        asking.answered = true;
        if let Err(fault) = &replied
            && is_over(fault)
        {
            *open.over.lock() = Some(fault.clone());
            open.doubt.notify_one();
        }
        replied
    }

    /// Opens the connections anew that are `unfit`, and says why. Calls under way come to an end.
    pub(crate) fn retire(&self, why: &str, unfit: impl Fn(&D::Link) -> bool) {
        for slot in &self.shared.slots {
            if let Slot::Open(open) = &*slot.borrow()
                && unfit(&open.link)
            {
                *open.over.lock() = Some(Fault::refused(why));
                open.doubt.notify_one();
            }
        }
    }
}

impl<D: Driver> Drop for Connections<D> {
    fn drop(&mut self) {
        self.keepers.iter().for_each(JoinHandle::abort);
    }
}

impl<D: Driver> Shared<D> {
    /// The next connection that is open.
    fn pick(&self) -> Result<Arc<Open<D::Link>>, Fault> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for nth in 0..self.slots.len() {
            let slot = &self.slots[(first.wrapping_add(nth)) % self.slots.len()];
            match &*slot.borrow() {
                Slot::Open(open) => match open.link.end() {
                    // Its keeper has not heard of it yet.
                    Some(end) => last = Some(end),
                    None => return Ok(Arc::clone(open)),
                },
                Slot::Closed(fault) => last = Some(fault.clone()),
                Slot::Opening => {}
            }
        }
        let text = "not connected yet".to_owned();
        Err(last.unwrap_or(Fault::Unconnected { text }))
    }
}

/// A call under way. Given up without an answer, it leaves a doubt.
struct Asking<'a, L> {
    open: &'a Open<L>,
    answered: bool,
}

impl<L> Drop for Asking<'_, L> {
    fn drop(&mut self) {
        if !self.answered {
            self.open.doubt.notify_one();
        }
    }
}

/// Whether a connection that said this is of no more use: it is broken, or the server has turned
/// into one that does not take our calls, and the address may lead to another by now.
fn is_over(fault: &Fault) -> bool {
    let turned = ["READONLY", "NOAUTH", "WRONGPASS"];
    matches!(fault, Fault::Broken { .. } | Fault::Unconnected { .. })
        || turned.iter().any(|code| fault.says(code))
}

/// Opens the connection of one place again and again, until whoever owns it ends the task.
async fn keep_open<D: Driver>(shared: Arc<Shared<D>>, nth: usize) {
    let slot = &shared.slots[nth];
    let mut pause = FIRST_PAUSE;
    loop {
        let mut tried = Instant::now();
        match open_one(&shared.driver).await {
            Ok(link) => {
                let open = Arc::new(Open { link, doubt: Notify::new(), over: Mutex::new(None) });
                let since = Instant::now();
                slot.send_replace(Slot::Open(Arc::clone(&open)));
                let fault = until_over(&shared.driver, &open).await;
                let still_answers = matches!(fault, Fault::Refused(_));
                slot.send_replace(Slot::Closed(fault.unsent()));
                if !still_answers {
                    // Whoever waits for an answer waits in vain.
                    open.link.close();
                }
                tried = Instant::now();
                if since.elapsed() >= LASTED {
                    pause = FIRST_PAUSE;
                }
            }
            Err(fault) => {
                slot.send_replace(Slot::Closed(fault.unsent()));
            }
        }
        sleep_until(tried + jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Opens a connection to a server that we can work with.
async fn open_one<D: Driver>(driver: &D) -> Result<D::Link, Fault> {
    let link = driver.connect().await?;
    match timeout(driver.patience(), look_at(&link, driver.wanted())).await {
        Ok(looked) => looked.map(|()| link),
        Err(_) => Err(silent(driver)),
    }
}

/// Refuses a server that is not for us, or not yet.
async fn look_at<L: Link>(link: &L, wanted: Wanted) -> Result<(), Fault> {
    let sections = ["server", "cluster", "replication"];
    let told = if wanted == Wanted::Master { 3 } else { 2 };
    for section in &sections[..told] {
        match link.call(&Command::new("INFO").arg(section)).await {
            Ok(reply) => examine(reply.text().unwrap_or_default(), wanted)?,
            // Who may not see it may still be let in.
            Err(fault) if fault.says("NOPERM") => {}
            Err(fault) => return Err(fault),
        }
    }
    // Scripts write and then limit the life of what they wrote. Who may do only the first would
    // leave keys for ever, so that is asked before, of a key that nobody has.
    let limit = Command::new("PEXPIREAT").arg("rl:{tollkeeper}:nobody").arg("1");
    for command in [limit, Command::new("PING")] {
        match link.call(&command).await {
            Err(fault) if fault.forbids("PEXPIREAT") => return Err(fault),
            Err(fault) if fault.says("READONLY") && wanted == Wanted::Master => {
                return Err(replica());
            }
            Err(fault) if !ELSEWHERE.iter().any(|code| fault.says(code)) => return Err(fault),
            _ => {}
        }
    }
    Ok(())
}

/// Waits until the connection is of no more use, and says why.
async fn until_over<D: Driver>(driver: &D, open: &Open<D::Link>) -> Fault {
    let watch = async {
        loop {
            let _ = timeout(TRY_EVERY, open.doubt.notified()).await;
            if let Some(fault) = open.over.lock().take() {
                return fault;
            }
            match timeout(driver.patience(), open.link.call(&Command::new("PING"))).await {
                Ok(Err(fault)) if is_over(&fault) => return fault,
                Ok(_) => {}
                Err(_) => return silent(driver),
            }
        }
    };
    tokio::select! {
        fault = watch => fault,
        fault = open.link.ended() => fault,
    }
}

fn silent<D: Driver>(driver: &D) -> Fault {
    Fault::Unconnected { text: format!("no answer within {:?}", driver.patience()) }
}

/// Any part of a pause, so that all who lost a server do not come back together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without a random number it is the whole.
    let random = getrandom::fill(&mut bytes).map_or(u32::MAX, |()| u32::from_ne_bytes(bytes));
    pause.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
