//! Owns [`Cluster`]: nodes of Redis Cluster that know each other, which end when the guard does.
//!
//! It is made, and its slots are moved, by commands alone, as any tool would.

mod slots;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::moment::until;
use crate::redis_server::{Launch, RedisServer};
use crate::resp::{Connection, Reply};
use crate::together::all;

/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many slots there are.
pub const SLOTS: u16 = 16384;

/// A node, and what the others call it.
#[derive(Debug)]
pub struct Node {
    /// The server.
    pub server: RedisServer,
    id: String,
}

/// How a node is launched.
type How = Box<dyn Fn(Launch) -> Launch + Send + Sync>;

/// The nodes of a cluster.
pub struct Cluster {
    /// The nodes: first those that hold slots at first, in the order of the slots, then their
    /// replicas in the same order.
    pub nodes: Vec<Node>,
    how: How,
    program: PathBuf,
    timeout: String,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Three nodes that share the slots, and a replica of each. A node that is silent for
    /// `timeout` is taken to be down.
    pub fn start(program: impl AsRef<Path>, timeout: Duration) -> Result<Self, String> {
        Self::of(program, 3, 1, timeout, |launch| launch)
    }

    /// `masters` nodes that share the slots, with `replicas` of each, launched as `how` says.
    pub fn of(
        program: impl AsRef<Path>,
        masters: usize,
        replicas: usize,
        timeout: Duration,
        how: impl Fn(Launch) -> Launch + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let (program, timeout) = (program.as_ref().to_owned(), timeout.as_millis().to_string());
        let mut cluster = Self { nodes: Vec::new(), how: Box::new(how), program, timeout };
        let count = masters * (1 + replicas);
        cluster.nodes = all((0..count).map(|_| || cluster.launch()))?;
        for (nth, node) in cluster.nodes.iter().enumerate() {
            let epoch = (nth + 1).to_string();
            node.server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        cluster.meet()?;
        for (nth, node) in cluster.nodes[..masters].iter().enumerate() {
            let edge = |nth: usize| nth * usize::from(SLOTS) / masters;
            let (first, last) = (edge(nth).to_string(), (edge(nth + 1) - 1).to_string());
            node.server.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        for (nth, node) in cluster.nodes[masters..].iter().enumerate() {
            let master = &cluster.nodes[nth % masters].id;
            // Until it has heard of its master.
            let follow = || node.server.command(&["CLUSTER", "REPLICATE", master]).ok();
            until(PATIENCE, follow).ok_or("a replica does not hear of its master")?;
        }
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    fn launch(&self) -> Result<Node, String> {
        let launch = (self.how)(Launch::new(&self.program).cluster()?);
        let server = launch
            .args(&["--cluster-node-timeout", &self.timeout])
            .args(&["--cluster-replica-validity-factor", "0"])
            // A node without slots is not to become somebody's replica.
            .args(&["--cluster-allow-replica-migration", "no"])
            .args(&["--repl-diskless-sync-delay", "0"])
            .start()?;
        let id = server.command(&["CLUSTER", "MYID"])?.to_string();
        Ok(Node { server, id })
    }

    /// Adds a node that holds nothing; its number.
    pub fn join(&mut self) -> Result<usize, String> {
        let node = self.launch()?;
        let epoch = (self.nodes.len() + 100).to_string();
        node.server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        self.nodes.push(node);
        self.meet()?;
        let ids: Vec<&str> = self.nodes.iter().map(|node| node.id.as_str()).collect();
        let knows_all = |told: &str| ids.iter().all(|id| told.contains(id));
        self.wait_for("NODES", |told| knows_all(told) && !told.contains("handshake"))?;
        self.wait_until_ready()?;
        Ok(self.nodes.len() - 1)
    }

    /// Introduces every node to every other.
    fn meet(&self) -> Result<(), String> {
        for node in &self.nodes {
            for other in self.nodes.iter().filter(|other| other.id != node.id) {
                let (port, bus) = (other.server.port(), other.server.bus_port());
                let (port, bus) = (port.to_string(), bus.to_string());
                node.server.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        Ok(())
    }

    /// The URL that names the nodes of these numbers.
    #[must_use]
    pub fn url_of(&self, nodes: &[usize]) -> String {
        let hosts: Vec<String> = nodes
            .iter()
            .map(|nth| format!("127.0.0.1:{}", self.nodes[*nth].server.port()))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The URL that names all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&(0..self.nodes.len()).collect::<Vec<_>>())
    }

    /// Which node holds a slot, as the node `asked` has it.
    pub fn holder_as_told_by(&self, asked: usize, slot: u16) -> Result<usize, String> {
        let ranges = self.nodes[asked].server.command(&["CLUSTER", "SLOTS"])?;
        let holds = |range: &&Reply| {
            let edge = |nth: usize| range.list().get(nth).and_then(Reply::integer).unwrap_or(-1);
            (edge(0)..=edge(1)).contains(&i64::from(slot))
        };
        let range = ranges.list().iter().find(holds).ok_or("nobody holds the slot")?;
        let master = range.list().get(2).map(Reply::list).unwrap_or_default();
        let port = master.get(1).and_then(Reply::integer).unwrap_or(-1);
        let is_it = |node: &Node| i64::from(node.server.port()) == port;
        self.nodes.iter().position(is_it).ok_or_else(|| format!("a stranger on port {port}"))
    }

    /// Waits until the node `asked` says that a slot is held by one that is not `old`.
    pub fn wait_for_another(&self, asked: usize, slot: u16, old: usize) -> Result<usize, String> {
        let find = || self.holder_as_told_by(asked, slot).ok().filter(|new| *new != old);
        until(PATIENCE, find).ok_or_else(|| format!("nobody but {old} within {PATIENCE:?}"))
    }

    /// Waits until all nodes that run think that all is well, and replicas have what their masters
    /// have.
    pub fn wait_until_ready(&self) -> Result<(), String> {
        self.wait_for("INFO", |info| info.contains("cluster_state:ok"))?;
        let is_linked = |node: &Node| {
            let info = node.server.command(&["INFO", "replication"]).map(|info| info.to_string());
            info.is_ok_and(|info| {
                info.contains("role:master") || info.contains("master_link_status:up")
            })
        };
        let all_are = || self.nodes.iter().all(is_linked).then_some(());
        until(PATIENCE, all_are).ok_or_else(|| format!("no replicas within {PATIENCE:?}"))
    }

    /// Waits until what every node says holds.
    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<(), String> {
        let all_say = || {
            let says = |node: &Node| {
                let told = node.server.command(&["CLUSTER", what]).map(|told| told.to_string());
                told.is_ok_and(|told| holds(&told))
            };
            self.nodes.iter().all(says).then_some(())
        };
        until(PATIENCE, all_say).ok_or_else(|| format!("CLUSTER {what}: not within {PATIENCE:?}"))
    }

    fn keeper(&self, node: usize) -> Result<Connection, String> {
        self.nodes[node].server.keeper()
    }
}
