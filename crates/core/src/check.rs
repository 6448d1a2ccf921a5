//! Owns [`Check`] and [`Request`]: what is asked of a store. A request that exists is valid.

use smallvec::SmallVec;

use crate::consistency::Consistency;
use crate::limits::{
    MAX_CHECKS, MAX_KEY_BYTES, MAX_NAME_BYTES, MAX_PART_BYTES, MAX_RESERVATION_US,
};
use crate::quota::Quota;

/// One limit that a request meets, for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// The limit's name; with the algorithm and the key it names the stored state.
    pub limit: &'a str,
    /// How much is allowed.
    pub quota: &'a Quota,
    /// Who is counted.
    pub key: &'a str,
    /// How many units the request takes; 0 only looks.
    pub cost: u64,
    /// Whether the limit only counts and never denies.
    pub shadow: bool,
    /// Who decides it, where the store is shared.
    pub consistency: Consistency,
}

impl<'a> Check<'a> {
    /// A limit that denies, and that the store decides.
    #[must_use]
    pub fn new(limit: &'a str, quota: &'a Quota, key: &'a str, cost: u64) -> Self {
        Self { limit, quota, key, cost, shadow: false, consistency: Consistency::Exact }
    }

    /// Whether both name the same stored state.
    #[must_use]
    pub fn same_state(&self, other: &Check<'_>) -> bool {
        self.key == other.key
            && self.limit == other.limit
            && self.quota.algorithm() == other.quota.algorithm()
    }
}

/// Names what a request holds: its permits, and its reservation if it makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Unguessable and never used twice.
    pub id: u128,
    /// How long the charge can be settled, if it is a reservation.
    pub reserve_for_us: Option<u64>,
}

/// The limits that one request meets, decided together: all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    checks: SmallVec<[Check<'a>; 4]>,
    ticket: Option<Ticket>,
}

impl<'a> Request<'a> {
    /// A request that meets `checks`. The same limit and key met twice becomes one with the
    /// summed cost, in the place of the first.
    #[inline]
    pub fn new(
        checks: impl IntoIterator<Item = Check<'a>>,
        ticket: Option<Ticket>,
    ) -> Result<Self, RequestError> {
        if let Some(us) = ticket.and_then(|ticket| ticket.reserve_for_us)
            && !(1..=MAX_RESERVATION_US).contains(&us)
        {
            return Err(RequestError::ReservationLife { us });
        }
        let mut request = Self { checks: SmallVec::new(), ticket };
        checks.into_iter().try_for_each(|check| request.add(check))?;
        Ok(request)
    }

    /// Lets the request meet another limit, or more of one that it meets. Always inline: else all of
    /// a request is copied once more.
    #[inline(always)]
    pub fn add(&mut self, check: Check<'a>) -> Result<(), RequestError> {
        validate(&check, self.ticket)?;
        let full = self.checks.len() == MAX_CHECKS;
        match self.checks.iter_mut().find(|other| other.same_state(&check)) {
            Some(met) => met.cost = met.cost.saturating_add(check.cost),
            None if full => return Err(RequestError::TooManyChecks),
            None => self.checks.push(check),
        }
        Ok(())
    }

    /// Some limits of a request, of which each comes once, as a request of their own. Their keys may be
    /// parts of keys that are split, which are called by the whole and a number.
    pub fn of_parts(
        checks: impl IntoIterator<Item = Check<'a>>,
        ticket: Option<Ticket>,
    ) -> Result<Self, RequestError> {
        let checks: SmallVec<[Check<'a>; 4]> = checks.into_iter().collect();
        let most = MAX_KEY_BYTES + MAX_PART_BYTES;
        if let Some(long) = checks.iter().find(|check| check.key.len() > most) {
            return Err(RequestError::LongKey { bytes: long.key.len() });
        }
        Ok(Self { checks, ticket })
    }

    /// The limits, each once.
    #[must_use]
    pub fn checks(&self) -> &[Check<'a>] {
        &self.checks
    }

    /// The name of what it holds.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        self.ticket
    }
}

fn validate(check: &Check<'_>, ticket: Option<Ticket>) -> Result<(), RequestError> {
    validate_key(check.key)?;
    if check.limit.is_empty() || check.limit.len() > MAX_NAME_BYTES {
        return Err(RequestError::Name { bytes: check.limit.len() });
    }
    if let Quota::Concurrency(_) = check.quota {
        let ticket = ticket.ok_or(RequestError::NoTicket)?;
        if ticket.reserve_for_us.is_some() {
            return Err(RequestError::ReservedPermit);
        }
    }
    Ok(())
}

/// Refuses a key that is empty or longer than [`MAX_KEY_BYTES`].
pub fn validate_key(key: &str) -> Result<(), RequestError> {
    match key.len() {
        0 => Err(RequestError::EmptyKey),
        bytes if bytes > MAX_KEY_BYTES => Err(RequestError::LongKey { bytes }),
        _ => Ok(()),
    }
}

/// Why a request cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A key is empty.
    #[error("`key` is empty; expected 1 to {MAX_KEY_BYTES} bytes")]
    EmptyKey,
    /// A key is too long.
    #[error("`key` has {bytes} bytes; expected 1 to {MAX_KEY_BYTES}")]
    LongKey {
        /// Its length.
        bytes: usize,
    },
    /// A limit's name is empty or too long.
    #[error("the limit's name has {bytes} bytes; expected 1 to {MAX_NAME_BYTES}")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// More limits than one request may meet.
    #[error("the request meets more than {MAX_CHECKS} limits")]
    TooManyChecks,
    /// A concurrency limit without a name for the permit.
    #[error("a concurrency limit needs a ticket to name its permit")]
    NoTicket,
    /// A reservation of permits.
    #[error("a concurrency limit cannot be reserved: check it, then release its permit")]
    ReservedPermit,
    /// A reservation's life is zero or too long.
    #[error("`ttl` is {us} µs; expected 1 to {MAX_RESERVATION_US}")]
    ReservationLife {
        /// The life asked for.
        us: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<'a>(quota: &'a Quota, key: &'a str, cost: u64) -> Check<'a> {
        Check { limit: "api", quota, key, cost, shadow: false, consistency: Consistency::Exact }
    }

    #[test]
    fn the_same_limit_and_key_met_twice_is_one_with_the_summed_cost() {
        let quota = Quota::fixed_window(10, 1_000_000).unwrap();
        let checks = [check(&quota, "a", 2), check(&quota, "b", 1), check(&quota, "a", 3)];
        let request = Request::new(checks, None).unwrap();
        let costs: Vec<_> = request.checks().iter().map(|c| (c.key, c.cost)).collect();
        assert_eq!(costs, [("a", 5), ("b", 1)]);
        let request =
            Request::new([check(&quota, "a", u64::MAX), check(&quota, "a", 1)], None).unwrap();
        assert_eq!(request.checks()[0].cost, u64::MAX);
    }

    #[test]
    fn the_same_name_under_another_algorithm_is_another_state() {
        let fixed = Quota::fixed_window(10, 1_000_000).unwrap();
        let log = Quota::sliding_window_log(10, 1_000_000).unwrap();
        let request = Request::new([check(&fixed, "a", 1), check(&log, "a", 1)], None).unwrap();
        assert_eq!(request.checks().len(), 2);
    }

    #[test]
    fn every_bound_is_checked_at_its_edge() {
        let quota = Quota::fixed_window(10, 1_000_000).unwrap();
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        assert!(Request::new([check(&quota, &long[1..], 1)], None).is_ok());
        assert_eq!(
            Request::new([check(&quota, &long, 1)], None),
            Err(RequestError::LongKey { bytes: MAX_KEY_BYTES + 1 })
        );
        assert_eq!(Request::new([check(&quota, "", 1)], None), Err(RequestError::EmptyKey));

        let keys: Vec<String> = (0..=MAX_CHECKS).map(|i| i.to_string()).collect();
        let checks = || keys.iter().map(|key| check(&quota, key, 1));
        assert!(Request::new(checks().take(MAX_CHECKS), None).is_ok());
        assert_eq!(Request::new(checks(), None), Err(RequestError::TooManyChecks));

        for (us, ok) in [(0, false), (1, true), (MAX_RESERVATION_US, true)] {
            let ticket = Ticket { id: 1, reserve_for_us: Some(us) };
            assert_eq!(Request::new([check(&quota, "a", 1)], Some(ticket)).is_ok(), ok);
        }
    }

    #[test]
    fn permits_need_a_ticket_and_cannot_be_reserved() {
        let quota = Quota::concurrency(1, 1).unwrap();
        assert_eq!(Request::new([check(&quota, "a", 1)], None), Err(RequestError::NoTicket));
        let ticket = Ticket { id: 1, reserve_for_us: Some(1) };
        assert_eq!(
            Request::new([check(&quota, "a", 1)], Some(ticket)),
            Err(RequestError::ReservedPermit)
        );
    }
}
