//! Moves slots from node to node, in the steps that every tool takes.

use super::Cluster;
use crate::resp::Reply;

/// Keys that are moved at a time.
const AT_A_TIME: &str = "100";

/// How long moving some keys may take, in milliseconds.
const MOVE_MS: &str = "5000";

impl Cluster {
    /// Moves a slot and all of its keys, while both nodes go on.
    pub fn migrate(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        self.begin_move(slot, from, to)?;
        self.move_keys(slot, from, to)?;
        self.end_move(slot, from, to)
    }

    /// Lets `to` take over a slot of `from`. Keys that are there stay there for now; those that are
    /// made from now on are made at the other.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        self.set_slot(to, slot, &["IMPORTING", &self.nodes[from].id])?;
        self.set_slot(from, slot, &["MIGRATING", &self.nodes[to].id])
    }

    /// Moves the keys of the slot.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        let (slot, port) = (slot.to_string(), self.nodes[to].server.port().to_string());
        let mut keeper = self.keeper(from)?;
        loop {
            let keys = keeper.call(&["CLUSTER", "GETKEYSINSLOT", &slot, AT_A_TIME])?;
            let keys: Vec<String> = keys.list().iter().map(Reply::to_string).collect();
            if keys.is_empty() {
                return Ok(());
            }
            let head = ["MIGRATE", "127.0.0.1", &port, "", "0", MOVE_MS, "KEYS"];
            let keys = keys.iter().map(String::as_str);
            keeper.call(&head.into_iter().chain(keys).collect::<Vec<_>>())?;
        }
    }

    /// Moves one key.
    pub fn move_key(&self, key: &str, from: usize, to: usize) -> Result<(), String> {
        let port = self.nodes[to].server.port().to_string();
        self.keeper(from)?.call(&["MIGRATE", "127.0.0.1", &port, key, "0", MOVE_MS]).map(drop)
    }

    /// Makes `to` the one that holds the slot, and tells everybody.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        let holds = ["NODE", self.nodes[to].id.as_str()];
        self.set_slot(to, slot, &holds)?;
        self.set_slot(from, slot, &holds)
    }

    /// Moves a slot as a whole, as Valkey 9 can. Returns when both nodes say so.
    pub fn migrate_whole(&self, slot: u16, from: usize, to: usize) -> Result<(), String> {
        let (number, id) = (slot.to_string(), self.nodes[to].id.as_str());
        let range = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", id];
        self.keeper(from)?.call(&range)?;
        for asked in [from, to] {
            self.wait_for_another(asked, slot, from)?;
        }
        Ok(())
    }

    /// Lets nobody know of a node any more.
    pub fn forget(&self, node: usize) -> Result<(), String> {
        let id = self.nodes[node].id.as_str();
        for nth in (0..self.nodes.len()).filter(|nth| *nth != node) {
            self.keeper(nth)?.call(&["CLUSTER", "FORGET", id])?;
        }
        Ok(())
    }

    fn set_slot(&self, node: usize, slot: u16, what: &[&str]) -> Result<(), String> {
        let slot = slot.to_string();
        let command = [&["CLUSTER", "SETSLOT", &slot], what].concat();
        self.keeper(node)?.call(&command).map(drop)
    }
}
