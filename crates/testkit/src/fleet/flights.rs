//! Owns [`Flights`]: the calls that are under way.

use super::node::{Call, Reply};

/// Where a flight is kept.
pub(super) type Place = u32;

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) call: Call,
    pub(super) node: usize,
    /// Which of the processes that the node has been.
    pub(super) life: u32,
    /// When the node gives up, in true time.
    pub(super) deadline_us: u64,
    /// Whether it is still on its way to the store, or waits there.
    pub(super) is_going: bool,
    /// Whether it is arranged that the node gives up.
    pub(super) is_due: bool,
    /// Whether the node has given up.
    pub(super) is_told: bool,
    /// What the store said, and when.
    pub(super) reply: Reply,
    pub(super) ran_us: u64,
}

/// Calls by their place.
#[derive(Debug, Default)]
pub(super) struct Flights {
    places: Vec<Flight>,
    free: Vec<Place>,
}

impl Flights {
    pub(super) fn add(&mut self, flight: Flight) -> Place {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = flight;
            return place;
        }
        self.places.push(flight);
        Place::try_from(self.places.len() - 1).unwrap_or(Place::MAX)
    }

    pub(super) fn at(&mut self, place: Place) -> &mut Flight {
        &mut self.places[place as usize]
    }

    /// Nobody refers to it any longer.
    pub(super) fn end(&mut self, place: Place) {
        self.free.push(place);
    }
}
