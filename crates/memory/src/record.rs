//! Owns [`Record`]: what is kept beside a state for some time. Not every state has one.

use tollkeeper_core::Loans;

use crate::fingerprint::Fingerprint;
use crate::names::Names;
use crate::slots::Expires;

/// What is kept for a state of these names.
#[derive(Debug)]
pub(crate) struct Record {
    id: u128,
    pub(crate) names: Names,
    pub(crate) kept: Kept,
}

#[derive(Debug)]
pub(crate) enum Kept {
    Reserved(Reservation),
    /// Units of the state that are out.
    Lent(Loans),
}

/// A charge that can still be settled. It outlives its settling, so that a repeat is known as one.
#[derive(Debug)]
pub(crate) struct Reservation {
    pub(crate) units: u64,
    pub(crate) charged_at_us: u64,
    pub(crate) expires_us: u64,
    pub(crate) settled: bool,
}

impl Record {
    pub(crate) fn reserved(id: u128, names: Names, reservation: Reservation) -> Self {
        Self { id, names, kept: Kept::Reserved(reservation) }
    }

    pub(crate) fn lent(fingerprint: Fingerprint, names: Names, loans: Loans) -> Self {
        Self { id: id_of(fingerprint), names, kept: Kept::Lent(loans) }
    }

    /// The reservation of a ticket.
    pub(crate) fn reservation_mut(&mut self, id: u128) -> Option<&mut Reservation> {
        match &mut self.kept {
            Kept::Reserved(reservation) if self.id == id => Some(reservation),
            _ => None,
        }
    }

    pub(crate) fn loans(&self) -> Option<&Loans> {
        match &self.kept {
            Kept::Lent(loans) => Some(loans),
            Kept::Reserved(_) => None,
        }
    }

    pub(crate) fn loans_mut(&mut self) -> Option<&mut Loans> {
        match &mut self.kept {
            Kept::Lent(loans) => Some(loans),
            Kept::Reserved(_) => None,
        }
    }

    /// What the reservation of this ticket is found by: not its key, which may have very many. Tickets are
    /// made here, at random.
    #[expect(clippy::cast_possible_truncation, reason = "the bits are folded")]
    pub(crate) fn hash_of(id: u128) -> u64 {
        ((id >> 64) as u64 ^ id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// What the loans of a state are found by.
    pub(crate) fn hash_of_loans(fingerprint: Fingerprint) -> u64 {
        Self::hash_of(id_of(fingerprint))
    }

    pub(crate) fn is_of(&self, id: u128) -> bool {
        self.id == id && matches!(self.kept, Kept::Reserved(_))
    }

    pub(crate) fn is_lent_of(&self, fingerprint: Fingerprint) -> bool {
        self.id == id_of(fingerprint) && matches!(self.kept, Kept::Lent(_))
    }
}

fn id_of(fingerprint: Fingerprint) -> u128 {
    let [low, high] = fingerprint.words();
    u128::from(high) << 64 | u128::from(low)
}

impl Expires for Record {
    fn hash(&self) -> u64 {
        Self::hash_of(self.id)
    }

    fn expires_us(&self) -> u64 {
        match &self.kept {
            Kept::Reserved(reservation) => reservation.expires_us,
            Kept::Lent(loans) => loans.expires_us(),
        }
    }
}
