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
mod tests {
    use super::*;

    const PATIENCE_US: u64 = 30_000_000;

    fn down_at(now_us: u64) -> Breaker {
        let mut breaker = Breaker::new(7, PATIENCE_US);
        fail(&mut breaker, now_us);
        breaker
    }

    /// Lets it go down.
    fn fail(breaker: &mut Breaker, now_us: u64) {
        let turns: Vec<_> =
            (0..FAILURES_IN_A_ROW).filter_map(|_| breaker.failed(now_us, now_us)).collect();
        assert_eq!(turns, [Turn::Down]);
    }

    /// The first moment at which a probe goes.
    fn next_probe(breaker: &mut Breaker, from_us: u64) -> u64 {
        (from_us..).step_by(100).find(|now_us| breaker.admits(*now_us, 0)).unwrap()
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_starts_the_row_afresh() {
        let mut breaker = Breaker::new(1, PATIENCE_US);
        for _ in 0..3 {
            for _ in 1..FAILURES_IN_A_ROW {
                assert_eq!(breaker.failed(5, 5), None);
            }
            assert_eq!(breaker.answered(5, 5), None);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(down_at(5).state(), BreakerState::Open);
    }

    #[test]
    fn a_store_that_fails_one_call_in_four_is_too_slow_to_ask() {
        let mut breaker = Breaker::new(1, PATIENCE_US);
        let mut calls = 0;
        while breaker.state() == BreakerState::Closed {
            (1..ONE_IN).for_each(|_| _ = breaker.answered(10, 10));
            let _ = breaker.failed(10, 10);
            calls += ONE_IN;
        }
        assert_eq!(calls, ONE_IN * FAILURES_IN_WINDOW);
        // One in five is slow, and still the better truth.
        let mut breaker = Breaker::new(1, PATIENCE_US);
        for now_us in 0..10_000 {
            (0..ONE_IN).for_each(|_| _ = breaker.answered(now_us, now_us));
            assert_eq!(breaker.failed(now_us, now_us), None);
        }
    }

    #[test]
    fn failures_of_long_ago_do_not_count() {
        let mut breaker = Breaker::new(1, PATIENCE_US);
        for nth in 0..1000u64 {
            let now_us = nth * WINDOW_US / 2;
            let _ = breaker.answered(now_us, now_us);
            assert_eq!(breaker.failed(now_us, now_us), None);
        }
    }

    #[test]
    fn down_it_lets_one_probe_go_at_a_time_and_ever_less_often() {
        let mut breaker = down_at(1_000);
        let mut now_us = 1_000;
        let mut pauses = Vec::new();
        for _ in 0..10 {
            let probe_us = next_probe(&mut breaker, now_us);
            assert!(!breaker.admits(probe_us, 0), "a second probe");
            pauses.push(probe_us - now_us);
            now_us = probe_us + 20_000;
            assert_eq!(breaker.failed(now_us, now_us), None);
        }
        let mut most_us = FIRST_PAUSE_US;
        for pause_us in pauses {
            assert!((most_us / 2..=most_us + 100).contains(&pause_us), "{pause_us} of {most_us}");
            most_us = (most_us * 2).min(LONGEST_PAUSE_US);
        }
    }

    #[test]
    fn nodes_that_fail_together_do_not_probe_together() {
        let probes: std::collections::HashSet<u64> = (1..=100u64)
            .map(|seed| {
                let mut breaker = Breaker::new(seed << 32, PATIENCE_US);
                fail(&mut breaker, 0);
                next_probe(&mut breaker, 0)
            })
            .collect();
        assert!(probes.len() > 30, "{} moments of 100 nodes", probes.len());
    }

    #[test]
    fn recovering_it_lets_ever_more_go_and_says_how_long_it_was_down() {
        let mut breaker = down_at(1_000);
        let probe_us = next_probe(&mut breaker, 1_000);
        assert_eq!(breaker.answered(probe_us, probe_us), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.admits(probe_us, 1) && !breaker.admits(probe_us, 2));
        assert_eq!(breaker.answered(probe_us, probe_us), None);
        assert!(breaker.admits(probe_us, 3) && !breaker.admits(probe_us, 4));
        let turns: Vec<_> = (0..4).filter_map(|_| breaker.answered(probe_us, probe_us)).collect();
        assert_eq!(turns, [Turn::Up { after_us: probe_us - 1_000 }]);
        assert!(breaker.admits(probe_us, 10_000));
        assert_eq!(breaker.down_for_us(probe_us), 0);
    }

    #[test]
    fn a_failure_while_it_recovers_is_the_same_outage() {
        let mut breaker = down_at(1_000);
        let probe_us = next_probe(&mut breaker, 1_000);
        assert_eq!(breaker.answered(probe_us, probe_us), None);
        assert_eq!(breaker.failed(probe_us, probe_us), None);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.down_for_us(61_000), 60_000);
    }

    #[test]
    fn a_probe_that_its_caller_gave_up_frees_the_place() {
        let mut breaker = down_at(0);
        let probe_us = next_probe(&mut breaker, 0);
        // Others that went before, and are given up now, are not the probe.
        breaker.abandoned(probe_us - 1);
        assert!(!breaker.admits(probe_us, 0));
        breaker.abandoned(probe_us);
        assert!(breaker.admits(probe_us, 0));
        // And one that nobody ever ended does so after a while.
        assert!(!breaker.admits(probe_us + PATIENCE_US, 0));
        assert!(breaker.admits(probe_us + PATIENCE_US + 1, 0));
    }

    #[test]
    fn calls_that_went_before_it_was_down_do_not_lengthen_its_pause() {
        let mut breaker = down_at(0);
        for _ in 0..1000 {
            assert_eq!(breaker.failed(20, 20), None);
        }
        let probe_us = next_probe(&mut breaker, 0);
        assert!(probe_us <= FIRST_PAUSE_US + 100);
        // Neither are they taken for the probe.
        for began_us in [0, probe_us - 1] {
            assert_eq!(breaker.failed(began_us, probe_us), None);
            assert_eq!(breaker.answered(began_us, probe_us), None);
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.answered(probe_us, probe_us + 5), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.failed(probe_us - 1, probe_us + 6), None);
        assert_eq!(breaker.state(), BreakerState::HalfOpen, "a late failure of before");
    }

    /// They ended when it was well again, and took it down once more.
    #[test]
    fn calls_that_hung_since_before_an_outage_say_nothing_after_it() {
        let mut breaker = down_at(1_000);
        let probe_us = next_probe(&mut breaker, 1_000);
        (0..6).for_each(|_| _ = breaker.answered(probe_us, probe_us + 5));
        assert_eq!(breaker.state(), BreakerState::Closed);
        for _ in 0..100 {
            assert_eq!(breaker.failed(probe_us - 1, probe_us + 10), None);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    /// The last of them went just before the way was open again, and the next one came 400 ms later.
    #[test]
    fn probes_that_are_not_sent_go_on_with_short_pauses() {
        let mut breaker = down_at(0);
        let mut now_us = 0;
        for nth in 0..100 {
            let probe_us = next_probe(&mut breaker, now_us);
            assert!(
                (FIRST_PAUSE_US / 2..=FIRST_PAUSE_US + 100).contains(&(probe_us - now_us))
                    || nth == 0
            );
            now_us = probe_us;
            assert_eq!(breaker.unreached(probe_us, now_us), None);
        }
        // One that is sent and fails has pauses that grow, whatever came before.
        for most_us in [50_000, 100_000, 200_000, 400_000, 400_000] {
            let probe_us = next_probe(&mut breaker, now_us);
            assert_eq!(breaker.failed(probe_us, probe_us), None);
            let State::Down { probe_at_us, .. } = breaker.state else { panic!("{breaker:?}") };
            assert!((most_us / 2..=most_us).contains(&(probe_at_us - probe_us)), "{most_us}");
            now_us = probe_us;
        }
    }

    #[test]
    fn a_relapse_goes_on_with_long_pauses_and_a_later_outage_begins_with_short_ones() {
        let relapse = |well_us: u64| {
            let mut breaker = down_at(0);
            let mut now_us = 0;
            for _ in 0..10 {
                now_us = next_probe(&mut breaker, now_us);
                let _ = breaker.failed(now_us, now_us);
            }
            now_us = next_probe(&mut breaker, now_us);
            (0..6).for_each(|_| _ = breaker.answered(now_us, now_us));
            assert_eq!(breaker.state(), BreakerState::Closed);
            now_us += well_us;
            fail(&mut breaker, now_us);
            next_probe(&mut breaker, now_us) - now_us
        };
        assert!(relapse(RELAPSE_US) >= LONGEST_PAUSE_US / 2);
        assert!(relapse(RELAPSE_US + 1) <= FIRST_PAUSE_US + 100);
    }
}
