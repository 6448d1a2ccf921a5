//! Owns [`Connections`]: a few connections to one server, each kept open by a task of its own.
//!
//! A call goes over a connection that is open, or fails at once: nothing waits for a reconnection.
//! A connection over which no answer comes is tried with a PING and replaced when that is silent,
//! too, since one that is half-open never says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::driver::{Command, Driver, Fault, Reply};
use crate::examine::examine;

/// How long a PING may take on a connection that is in doubt.
const PING_PATIENCE: Duration = Duration::from_millis(300);

/// The pause after a connection could not be opened, which doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// A few connections to one server.
#[derive(Debug)]
pub(crate) struct Connections<D: Driver> {
    shared: Arc<Shared<D>>,
    keepers: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<D: Driver> {
    driver: D,
    slots: Vec<Slot<D::Link>>,
    next: AtomicUsize,
}

/// The place of one connection.
#[derive(Debug)]
struct Slot<L> {
    state: watch::Sender<SlotState<L>>,
    /// Somebody doubts the connection, or knows that it is broken.
    doubt: Notify,
    /// What broke it.
    broken: Mutex<Option<Fault>>,
}

#[derive(Clone, Debug)]
enum SlotState<L> {
    Opening,
    Open(L),
    Closed(Fault),
}

impl<D: Driver> Connections<D> {
    /// Begins to open `count` connections, and keeps them open. Needs a runtime.
    pub(crate) fn open(driver: D, count: usize) -> Self {
        let slot = || Slot {
            state: watch::Sender::new(SlotState::Opening),
            doubt: Notify::new(),
            broken: Mutex::new(None),
        };
        let slots = (0..count.max(1)).map(|_| slot()).collect();
        let shared = Arc::new(Shared { driver, slots, next: AtomicUsize::new(0) });
        let keepers = (0..shared.slots.len())
            .map(|nth| tokio::spawn(keep_open(Arc::clone(&shared), nth)))
            .collect();
        Self { shared, keepers }
    }

    /// Waits until one connection is open, or all have failed once.
    pub(crate) async fn opened(&self) -> Result<(), Fault> {
        let mut last = None;
        for slot in &self.shared.slots {
            let mut state = slot.state.subscribe();
            let tried = state.wait_for(|state| !matches!(state, SlotState::Opening)).await;
            // The sender lives as long as `self`.
            match tried.as_deref() {
                Ok(SlotState::Closed(fault)) => last = Some(fault.clone()),
                _ => return Ok(()),
            }
        }
        last.map_or(Ok(()), Err)
    }

    /// Sends a command over a connection that is open.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        let shared = &self.shared;
        let (slot, link) = shared.pick()?;
        let mut asking = Asking { slot, answered: false };
        let replied = shared.driver.call(&link, command).await;
        asking.answered = true;
        if let Err(fault) = &replied
            && is_over(fault)
        {
            *slot.broken.lock() = Some(fault.clone());
            slot.doubt.notify_one();
        }
        replied
    }
}

impl<D: Driver> Drop for Connections<D> {
    fn drop(&mut self) {
        self.keepers.iter().for_each(JoinHandle::abort);
    }
}

impl<D: Driver> Shared<D> {
    /// The next connection that is open.
    fn pick(&self) -> Result<(&Slot<D::Link>, D::Link), Fault> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for nth in 0..self.slots.len() {
            let slot = &self.slots[(first.wrapping_add(nth)) % self.slots.len()];
            match &*slot.state.borrow() {
                SlotState::Open(link) => return Ok((slot, link.clone())),
                SlotState::Closed(fault) => last = Some(fault.clone()),
                SlotState::Opening => {}
            }
        }
        let text = "not connected yet".to_owned();
        Err(last.unwrap_or(Fault::Unconnected { text }))
    }
}

/// A call under way. Given up without an answer, it leaves a doubt.
struct Asking<'a, L> {
    slot: &'a Slot<L>,
    answered: bool,
}

impl<L> Drop for Asking<'_, L> {
    fn drop(&mut self) {
        if !self.answered {
            self.slot.doubt.notify_one();
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
        match open_one(&shared.driver).await {
            Ok(link) => {
                pause = FIRST_PAUSE;
                *slot.broken.lock() = None;
                slot.state.send_replace(SlotState::Open(link.clone()));
                let fault = match until_over(&shared.driver, slot, &link).await {
                    // Whoever comes now sends nothing.
                    Fault::Broken { text } => Fault::Unconnected { text },
                    fault => fault,
                };
                slot.state.send_replace(SlotState::Closed(fault));
            }
            Err(fault) => {
                slot.state.send_replace(SlotState::Closed(fault));
                sleep(jittered(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Opens a connection to a server that we can work with.
async fn open_one<D: Driver>(driver: &D) -> Result<D::Link, Fault> {
    let link = driver.connect().await?;
    for section in ["server", "cluster"] {
        let info = driver.call(&link, &Command::new("INFO").arg(section)).await;
        match info {
            Ok(info) => examine(info.text().unwrap_or_default())?,
            // Who may not see it may still be let in.
            Err(fault) if fault.says("NOPERM") => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(link)
}

/// Waits until the connection is of no more use, and says why.
async fn until_over<D: Driver>(driver: &D, slot: &Slot<D::Link>, link: &D::Link) -> Fault {
    loop {
        slot.doubt.notified().await;
        if let Some(fault) = slot.broken.lock().take() {
            return fault;
        }
        match timeout(PING_PATIENCE, driver.call(link, &Command::new("PING"))).await {
            Ok(Err(fault)) if is_over(&fault) => return fault,
            Ok(_) => {}
            Err(_) => {
                let text = "the connection gave no answer".to_owned();
                return Fault::Unconnected { text };
            }
        }
    }
}

/// Between half and the whole of a pause, so that many nodes do not come back together.
fn jittered(pause: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without a random number it is the whole.
    let random = getrandom::fill(&mut bytes).map_or(u32::MAX, |()| u32::from_ne_bytes(bytes));
    pause.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
}
