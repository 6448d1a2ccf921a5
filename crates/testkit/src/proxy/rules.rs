//! Owns [`Rules`]: what happens to the bytes of each connection now, and what was seen so far.
//!
//! Everything here lives on the proxy's one thread. Who asks for a rule and acts before the next
//! `await` acts by the rule that holds.

use std::cell::RefCell;
use std::time::Duration;

use tokio::sync::watch;

/// How connections are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order: each side reads the end.
    Finish,
    /// At once: each side reads an error.
    Reset,
}

/// What the proxy does with bytes and new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pass,
    Delay(Duration),
    Trickle { bytes: usize, every: Duration },
    Hold,
    HalfOpen,
    Mute,
    Cut(Ending),
    Refuse,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

/// What happens to the bytes of one connection, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Forward { delay: Duration, pace: Option<(usize, Duration)> },
    Hold,
    Swallow,
    End(Ending),
}

/// What a proxy has seen since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Bytes that came from clients.
    pub from_clients: u64,
    /// Bytes that were handed to the server.
    pub to_server: u64,
    /// Bytes that came from the server.
    pub from_server: u64,
    /// Bytes that were handed to clients.
    pub to_clients: u64,
    /// Bytes that vanished.
    pub swallowed: u64,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Connections with a lower number were cut.
    cut_below: u64,
    ending: Ending,
    /// Connections with a lower number stay dead, whatever the mode.
    dead_below: u64,
}

/// The rules, and who is told when they change.
#[derive(Debug)]
pub(super) struct Rules {
    state: RefCell<State>,
    changed: watch::Sender<()>,
    seen: watch::Sender<Seen>,
}

impl Rules {
    pub(super) fn new(seen: watch::Sender<Seen>) -> Self {
        let state = State { mode: Mode::Pass, cut_below: 0, ending: Ending::Reset, dead_below: 0 };
        Self { state: RefCell::new(state), changed: watch::Sender::new(()), seen }
    }

    /// Sets the mode. Cutting holds for the connections of now even when the mode changes again
    /// before they notice.
    pub(super) fn set(&self, mode: Mode) {
        let mut state = self.state.borrow_mut();
        state.mode = mode;
        if let Some(ending) = ending_of(mode) {
            state.ending = ending;
            state.cut_below = self.next_id();
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// The connections of now are dead for ever, and are not told.
    pub(super) fn abandon(&self) {
        self.state.borrow_mut().dead_below = self.next_id();
        self.changed.send_replace(());
    }

    /// What happens now to connection `id`.
    pub(super) fn of(&self, id: u64, way: Way) -> Rule {
        let state = self.state.borrow();
        if id < state.cut_below {
            return Rule::End(state.ending);
        }
        if id < state.dead_below {
            return Rule::Swallow;
        }
        let forward = Rule::Forward { delay: Duration::ZERO, pace: None };
        match (state.mode, way) {
            (Mode::Pass, _) | (Mode::Mute | Mode::Trickle { .. }, Way::Up) => forward,
            (Mode::Delay(delay), _) => Rule::Forward { delay, pace: None },
            (Mode::Trickle { bytes, every }, Way::Down) => {
                Rule::Forward { delay: Duration::ZERO, pace: Some((bytes, every)) }
            }
            (Mode::Hold, _) => Rule::Hold,
            (Mode::HalfOpen, _) | (Mode::Mute, Way::Down) => Rule::Swallow,
            (Mode::Cut(ending), _) => Rule::End(ending),
            (Mode::Refuse, _) => Rule::End(Ending::Reset),
        }
    }

    /// Tells of every change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Counts what was seen.
    pub(super) fn see(&self, count: impl FnOnce(&mut Seen)) {
        self.seen.send_modify(count);
    }

    /// The number of the next connection.
    pub(super) fn next_id(&self) -> u64 {
        self.seen.borrow().accepted
    }

    pub(super) fn open(&self) -> u64 {
        self.seen.borrow().open
    }
}

fn ending_of(mode: Mode) -> Option<Ending> {
    match mode {
        Mode::Cut(ending) => Some(ending),
        Mode::Refuse => Some(Ending::Reset),
        _ => None,
    }
}
