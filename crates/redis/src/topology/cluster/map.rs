//! Owns [`Map`]: which node holds which slot, and the number that each of them keeps.
//!
//! A node's number is that of its shard. A replica that takes over from its master takes its
//! number too, so a number stands for the same keys before and after.

use std::collections::HashMap;
use std::mem::take;
use std::sync::Arc;

use tollkeeper_core::{HostPort, MAX_SHARDS};

use super::view::View;
use crate::slot::SLOTS;

/// Nodes that calls are sent to between two views, by what other nodes say.
const MOST_VISITED: usize = 1000;

/// Which node holds which slot.
#[derive(Debug)]
pub(super) struct Map<N> {
    /// The number of the node that holds a slot, by slot.
    owners: Vec<Option<usize>>,
    /// Where the node of a number is. One that holds nothing any more keeps it until another takes
    /// it.
    seats: Vec<HostPort>,
    nodes: HashMap<HostPort, Arc<N>>,
    /// Slots that are held by nodes without a number: they have one when the next view comes.
    strays: HashMap<u16, HostPort>,
    /// Nodes that calls were sent to since the last view.
    visited: Vec<HostPort>,
    /// Further nodes that can be asked.
    replicas: Vec<HostPort>,
}

impl<N> Default for Map<N> {
    fn default() -> Self {
        Self {
            owners: vec![None; usize::from(SLOTS)],
            seats: Vec::new(),
            nodes: HashMap::new(),
            strays: HashMap::new(),
            visited: Vec::new(),
            replicas: Vec::new(),
        }
    }
}

impl<N> Map<N> {
    /// Who holds a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<N>> {
        if let Some(place) = self.strays.get(&slot) {
            return self.nodes.get(place).cloned();
        }
        let seat = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(self.seats.get(seat)?).cloned()
    }

    /// All who hold slots, in the order of their numbers.
    pub(super) fn masters(&self) -> Vec<Arc<N>> {
        let holds = self.holding();
        let seats = self.seats.iter().zip(&holds).filter(|(_, holds)| **holds);
        seats.filter_map(|(place, _)| self.nodes.get(place).cloned()).collect()
    }

    /// All nodes that are connected to.
    pub(super) fn nodes(&self) -> Vec<Arc<N>> {
        self.nodes.values().cloned().collect()
    }

    pub(super) fn replicas(&self) -> &[HostPort] {
        &self.replicas
    }

    /// The number of the shard that holds a slot.
    pub(super) fn shard_of(&self, slot: u16) -> usize {
        let seat = self.owners.get(usize::from(slot)).copied().flatten();
        seat.unwrap_or(0) % MAX_SHARDS
    }

    pub(super) fn shards(&self) -> usize {
        self.seats.len().clamp(1, MAX_SHARDS)
    }

    /// Whether any node of a shard holds slots. Until anybody is known, it may.
    pub(super) fn is_used(&self, shard: usize) -> bool {
        let holds = self.holding();
        holds.is_empty() || holds.iter().skip(shard).step_by(MAX_SHARDS).any(|holds| *holds)
    }

    /// Where the nodes of a shard are.
    pub(super) fn shard_name(&self, shard: usize) -> Option<String> {
        let places = self.seats.iter().skip(shard).step_by(MAX_SHARDS);
        let places: Vec<String> = places.map(ToString::to_string).collect();
        (!places.is_empty()).then(|| places.join(","))
    }

    /// Notes that a slot is held by another node; `None` where there are too many.
    pub(super) fn moved(
        &mut self,
        slot: u16,
        place: &HostPort,
        make: impl FnOnce(&HostPort) -> N,
    ) -> Option<Arc<N>> {
        let node = self.visited(place, make)?;
        match self.seats.iter().position(|seat| seat == place) {
            Some(seat) => {
                self.strays.remove(&slot);
                if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
                    *owner = Some(seat);
                }
            }
            None => {
                self.strays.insert(slot, place.clone());
            }
        }
        Some(node)
    }

    /// The node at a place that may hold nothing; `None` where there are too many.
    pub(super) fn visited(
        &mut self,
        place: &HostPort,
        make: impl FnOnce(&HostPort) -> N,
    ) -> Option<Arc<N>> {
        if !self.visited.contains(place) {
            if self.visited.len() >= MOST_VISITED {
                return None;
            }
            self.visited.push(place.clone());
        }
        let node = self.nodes.entry(place.clone()).or_insert_with(|| Arc::new(make(place)));
        Some(Arc::clone(node))
    }

    /// Takes over a view: makes the nodes that are new, and hands out those that are of no more
    /// use, to be dropped without holding anybody up. Also whether anything has changed.
    pub(super) fn install(
        &mut self,
        view: &View,
        make: impl Fn(&HostPort) -> N,
    ) -> (Vec<Arc<N>>, bool) {
        let mut masters: Vec<&HostPort> = view.ranges.iter().map(|(_, _, place)| place).collect();
        masters.sort_unstable();
        masters.dedup();
        let before = self.seats.clone();
        let seated = self.seat(view, &masters);
        let mut owners = vec![None; usize::from(SLOTS)];
        for (first, last, place) in &view.ranges {
            owners[usize::from(*first)..=usize::from(*last)].fill(seated.get(place).copied());
        }
        let changed = owners != self.owners || before != self.seats;
        self.owners = owners;
        self.strays.clear();
        self.replicas = view.replicas.iter().cloned().collect();
        for place in &masters {
            self.nodes.entry((*place).clone()).or_insert_with(|| Arc::new(make(place)));
        }
        let visited = take(&mut self.visited);
        let stays = |place: &HostPort| masters.contains(&place) || visited.contains(place);
        let mut gone: Vec<HostPort> =
            self.nodes.keys().filter(|place| !stays(place)).cloned().collect();
        gone.sort_unstable();
        let gone = gone.iter().filter_map(|place| self.nodes.remove(place)).collect();
        (gone, changed)
    }

    /// Gives every master a number: the one it has, or that of whom it follows, or one that is
    /// free, or a new one.
    fn seat(&mut self, view: &View, masters: &[&HostPort]) -> HashMap<HostPort, usize> {
        let mut seated: HashMap<HostPort, usize> = HashMap::new();
        for (seat, place) in self.seats.iter().enumerate() {
            if masters.contains(&place) {
                seated.entry(place.clone()).or_insert(seat);
            }
        }
        let mut free: Vec<bool> = (0..self.seats.len())
            .map(|seat| !seated.values().any(|taken| *taken == seat))
            .collect();
        for (first, _, place) in &view.ranges {
            if seated.contains_key(place) {
                continue;
            }
            let before = self.owners[usize::from(*first)].filter(|seat| free[*seat]);
            if let Some(seat) = before {
                free[seat] = false;
                self.seats[seat] = place.clone();
                seated.insert(place.clone(), seat);
            }
        }
        for place in masters {
            if seated.contains_key(*place) {
                continue;
            }
            let seat = free.iter().position(|free| *free).unwrap_or_else(|| {
                self.seats.push((*place).clone());
                free.push(true);
                self.seats.len() - 1
            });
            free[seat] = false;
            self.seats[seat] = (*place).clone();
            seated.insert((*place).clone(), seat);
        }
        seated
    }

    /// Which numbers hold slots.
    fn holding(&self) -> Vec<bool> {
        let mut holds = vec![false; self.seats.len()];
        for seat in self.owners.iter().flatten() {
            holds[*seat] = true;
        }
        holds
    }
}

#[cfg(test)]
mod tests;
