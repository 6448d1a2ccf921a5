//! Owns [`Wholes`]: the states that are not packed. Logs and leases are of any length; other states
//! are here if a number is too large for its place, or if there is no row for them.

use tollkeeper_core::{Algorithm, State};

/// A state as it is.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) state: State,
    pub(crate) expires_us: u64,
    /// When it was last worked on.
    pub(crate) seen_us: u64,
    /// What its row would say, if it has none.
    pub(crate) limit: Option<(Box<str>, Algorithm)>,
}

/// States by their place, and which places are free.
#[derive(Debug, Default)]
pub(crate) struct Wholes {
    states: Vec<Option<Whole>>,
    free: Vec<u32>,
}

impl Wholes {
    pub(crate) fn get(&self, place: u32) -> Option<&Whole> {
        self.states.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Whole> {
        self.states.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn insert(&mut self, whole: Whole) -> u32 {
        if let Some(place) = self.free.pop() {
            self.states[place as usize] = Some(whole);
            return place;
        }
        // There are no more than entries, whose number fits.
        let place = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        self.states.push(Some(whole));
        place
    }

    pub(crate) fn remove(&mut self, place: u32) {
        if let Some(state) = self.states.get_mut(place as usize)
            && state.take().is_some()
        {
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_comes_free_is_taken_again() {
        let mut wholes = Wholes::default();
        let whole = |expires_us| Whole {
            state: State::Log(Box::default()),
            expires_us,
            seen_us: 0,
            limit: None,
        };
        let places: Vec<u32> = (0..3).map(|nth| wholes.insert(whole(nth))).collect();
        wholes.remove(places[1]);
        wholes.remove(places[1]);
        assert!(wholes.get(places[1]).is_none());
        assert_eq!(wholes.insert(whole(9)), places[1]);
        assert_eq!(wholes.insert(whole(10)), 3);
        let seen = (0..4).map(|place| wholes.get(place).map(|whole| whole.expires_us));
        assert_eq!(seen.collect::<Vec<_>>(), [Some(0), Some(9), Some(2), Some(10)]);
    }
}
