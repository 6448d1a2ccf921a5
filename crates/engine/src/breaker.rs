//! Owns [`Breaker`]: whether the store is asked at all. Pure: time and outcomes in, yes or no out.
//!
//! Up, every call goes. Down, one call at a time goes, as a probe, ever less often. Once a probe
//! was answered the store recovers: each answer doubles how many may be under way, so that those
//! who waited do not come back all at once.

/// Failures in a row after which the store counts as down.
const FAILURES_IN_A_ROW: u32 = 5;

/// Failures within [`WINDOW_US`] after which it counts as down if one call in so many failed.
const FAILURES_IN_WINDOW: u32 = 20;
const ONE_IN: u32 = 4;
const WINDOW_US: u64 = 1_000_000;

/// The pause before the first probe, which doubles up to the longest.
const FIRST_PAUSE_US: u64 = 25_000;
const LONGEST_PAUSE_US: u64 = 400_000;

/// A store that fails again so soon was never well: its pauses go on where they were.
const RELAPSE_US: u64 = 5_000_000;

/// Calls under way at which a recovering store counts as up.
const RECOVERED: u32 = 64;

/// What the breaker says of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerState {
    /// Every call goes.
    Closed,
    /// The store answers again; ever more calls go.
    HalfOpen,
    /// Only probes go.
    Open,
}

/// A change that people should hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The store went down.
    Down,
    /// It is up again, after so long.
    Up { after_us: u64 },
}

#[derive(Debug)]
enum State {
    /// `from_us` is when the probe went that ended the last outage.
    Up {
        since_us: u64,
        from_us: u64,
        in_a_row: u32,
        window: Window,
    },
    Down {
        since_us: u64,
        probe_at_us: u64,
        probing_since_us: Option<u64>,
    },
    /// `from_us` is when the probe went that was answered.
    Recovering {
        since_us: u64,
        from_us: u64,
        room: u32,
    },
}

/// Calls and failures since a moment.
#[derive(Debug, Default)]
struct Window {
    since_us: u64,
    calls: u32,
    failures: u32,
}

/// Decides whether the store is asked.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    pause_us: u64,
    random: u64,
    /// After that a probe that nobody ended counts as lost.
    patience_us: u64,
}

impl Breaker {
    /// A breaker of a store that counts as up. `seed` tells the pauses of many nodes apart;
    /// `patience_us` is longer than any call takes.
    pub(crate) fn new(seed: u64, patience_us: u64) -> Self {
        let (since_us, from_us, in_a_row) = (0, 0, 0);
        let state = State::Up { since_us, from_us, in_a_row, window: Window::default() };
        Self { state, pause_us: FIRST_PAUSE_US, random: seed | 1, patience_us }
    }

    /// Whether a call may go, while `under_way` others are.
    pub(crate) fn admits(&mut self, now_us: u64, under_way: usize) -> bool {
        match &mut self.state {
            State::Up { .. } => true,
            State::Recovering { room, .. } => under_way < *room as usize,
            State::Down { probe_at_us, probing_since_us, .. } => {
                let patience_us = self.patience_us;
                let lost = |since_us: u64| now_us.saturating_sub(since_us) > patience_us;
                let free = probing_since_us.is_none_or(lost);
                let due = free && now_us >= *probe_at_us;
                if due {
                    *probing_since_us = Some(now_us);
                }
                due
            }
        }
    }

    /// A call that went at `began_us` was answered.
    pub(crate) fn answered(&mut self, began_us: u64, now_us: u64) -> Option<Turn> {
        if self.is_of_before(began_us) {
            return None;
        }
        match &mut self.state {
            State::Up { in_a_row, window, .. } => {
                *in_a_row = 0;
                window.count(now_us, 0);
                None
            }
            State::Down { since_us, .. } => {
                self.state = State::Recovering { since_us: *since_us, from_us: began_us, room: 2 };
                None
            }
            State::Recovering { since_us, from_us, room } => {
                *room = room.saturating_mul(2);
                if *room < RECOVERED {
                    return None;
                }
                let after_us = now_us.saturating_sub(*since_us);
                let (since_us, from_us, in_a_row) = (now_us, *from_us, 0);
                self.state = State::Up { since_us, from_us, in_a_row, window: Window::default() };
                Some(Turn::Up { after_us })
            }
        }
    }

    /// A call that went at `began_us` failed or took too long.
    pub(crate) fn failed(&mut self, began_us: u64, now_us: u64) -> Option<Turn> {
        self.failed_after(began_us, now_us, true)
    }

    /// A call that was to go at `began_us` was not sent, since there is no way to the store. The next one
    /// may be soon: the store hears nothing of it, and who opens the way has pauses of his own.
    pub(crate) fn unreached(&mut self, began_us: u64, now_us: u64) -> Option<Turn> {
        self.failed_after(began_us, now_us, false)
    }

    fn failed_after(&mut self, began_us: u64, now_us: u64, was_sent: bool) -> Option<Turn> {
        if self.is_of_before(began_us) {
            return None;
        }
        match &mut self.state {
            State::Up { since_us, in_a_row, window, .. } => {
                *in_a_row += 1;
                window.count(now_us, 1);
                if *in_a_row < FAILURES_IN_A_ROW && !window.has_too_many() {
                    return None;
                }
                if now_us.saturating_sub(*since_us) > RELAPSE_US {
                    self.pause_us = FIRST_PAUSE_US;
                }
                self.go_down(now_us, now_us, was_sent);
                Some(Turn::Down)
            }
            State::Down { since_us, .. } | State::Recovering { since_us, .. } => {
                let since_us = *since_us;
                self.go_down(since_us, now_us, was_sent);
                None
            }
        }
    }

    /// Whether a call that began then went before what is known of the store now: of those that
    /// were under way when it went down, the last ones end later, and say nothing new.
    fn is_of_before(&self, began_us: u64) -> bool {
        match self.state {
            State::Down { probing_since_us: None, .. } => true,
            State::Down { probing_since_us: Some(from_us), .. }
            | State::Recovering { from_us, .. }
            | State::Up { from_us, .. } => began_us < from_us,
        }
    }

    /// A call that went at `began_us` was given up by its caller, too soon for anything to be known. If
    /// it was the probe, another may go.
    pub(crate) fn abandoned(&mut self, began_us: u64) {
        if let State::Down { probing_since_us, .. } = &mut self.state
            && *probing_since_us == Some(began_us)
        {
            *probing_since_us = None;
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Up { .. } => BreakerState::Closed,
            State::Down { .. } => BreakerState::Open,
            State::Recovering { .. } => BreakerState::HalfOpen,
        }
    }

    /// How long the store has not been up.
    pub(crate) fn down_for_us(&self, now_us: u64) -> u64 {
        match self.state {
            State::Up { .. } => 0,
            State::Down { since_us, .. } | State::Recovering { since_us, .. } => {
                now_us.saturating_sub(since_us)
            }
        }
    }

    fn go_down(&mut self, since_us: u64, now_us: u64, was_sent: bool) {
        let pause_us = if was_sent { self.pause_us } else { FIRST_PAUSE_US };
        // Between half and the whole of the pause, so that many nodes do not probe together.
        let half_us = pause_us / 2;
        let wait_us = half_us + self.next_random() % (half_us + 1);
        if was_sent {
            self.pause_us = (self.pause_us * 2).min(LONGEST_PAUSE_US);
        }
        self.state =
            State::Down { since_us, probe_at_us: now_us + wait_us, probing_since_us: None };
    }

    /// Marsaglia's xorshift.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Window {
    fn count(&mut self, now_us: u64, failures: u32) {
        if now_us.saturating_sub(self.since_us) > WINDOW_US {
            *self = Self { since_us: now_us, calls: 0, failures: 0 };
        }
        self.calls = self.calls.saturating_add(1);
        self.failures += failures;
    }

    fn has_too_many(&self) -> bool {
        self.failures >= FAILURES_IN_WINDOW && self.failures.saturating_mul(ONE_IN) >= self.calls
    }
}

#[cfg(test)]
mod tests;
