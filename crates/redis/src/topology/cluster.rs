//! Owns [`Cluster`]: which node holds a slot, and the way of a call there.
//!
//! A node that does not hold the slot says who does, and has done nothing: the call goes on to
//! that one. Nothing else is sent again. Who holds what is asked for in the background, by one
//! task and not too often, whenever a call was sent elsewhere or failed, and now and then.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollkeeper_core::{HostPort, Part};

use crate::connections::Connections;
use crate::driver::{Access, Client, Command, Ear, Fault, Reply};
use crate::examine::Wanted;
use crate::merge::Aside;

mod map;
mod redirect;
mod refresh;
mod view;

use map::Map;
use redirect::Redirect;

/// How often a call is sent on before it is given up.
const MOST_HOPS: usize = 8;

/// How long a node is left alone that asks us to try again: some of the call's keys are on their
/// way to another node. And how often.
const TRY_AGAIN: Duration = Duration::from_millis(3);
const MOST_TRIES: usize = 4;

/// The nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    refresher: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    seeds: Vec<HostPort>,
    access: Access,
    connections: usize,
    map: RwLock<Map<Node>>,
    /// Somebody doubts the map.
    doubt: Notify,
    /// What is known of the cluster.
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    NotYet,
    /// A node has told who holds what.
    Known,
    /// No node has ever told it.
    Unknown(Fault),
}

/// A node that calls go to.
#[derive(Debug)]
pub(crate) struct Node {
    place: HostPort,
    connections: Result<Connections<Client>, Fault>,
}

impl Node {
    pub(super) async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        let replied = match &self.connections {
            Ok(connections) => connections.call(command).await,
            Err(fault) => Err(fault.clone()),
        };
        replied.map_err(|fault| fault.at(&self.place))
    }

    /// A call to a node that takes over the slot and does not own it yet.
    async fn ask(&self, command: &Command) -> Result<Reply, Fault> {
        let replied = match &self.connections {
            Ok(connections) => connections.call_after(&Command::new("ASKING"), command).await,
            Err(fault) => Err(fault.clone()),
        };
        replied.map_err(|fault| fault.at(&self.place))
    }

    async fn opened(&self) -> Result<(), Fault> {
        let opened = match &self.connections {
            Ok(connections) => connections.opened().await,
            Err(fault) => Err(fault.clone()),
        };
        opened.map_err(|fault| fault.at(&self.place))
    }
}

impl Cluster {
    /// Begins to ask `seeds` for the others, and to open `connections` to each. Needs a runtime.
    pub(super) fn open(seeds: Vec<HostPort>, access: Access, connections: usize) -> Self {
        let shared = Arc::new(Shared {
            seeds,
            access,
            connections,
            map: RwLock::new(Map::default()),
            doubt: Notify::new(),
            state: watch::Sender::new(State::NotYet),
        });
        let refresher = tokio::spawn(refresh::keep_map(Arc::clone(&shared)));
        Self { shared, refresher }
    }

    /// Waits until it is known who holds what and all of them were tried, and one can be asked.
    pub(super) async fn opened(&self) -> Result<(), Fault> {
        let mut state = self.shared.state.subscribe();
        // The sender lives as long as `self`.
        if let Ok(State::Unknown(fault)) =
            state.wait_for(|state| *state != State::NotYet).await.as_deref()
        {
            return Err(fault.clone());
        }
        let masters = self.masters()?;
        let tried = join_all(masters.iter().map(|node| node.opened())).await;
        match tried.iter().any(Result::is_ok) {
            true => Ok(()),
            false => tried.into_iter().next().unwrap_or_else(|| Err(self.shared.unserved(0))),
        }
    }

    /// The nodes that hold keys.
    pub(super) fn masters(&self) -> Result<Vec<Arc<Node>>, Fault> {
        let masters = self.shared.map.read().masters();
        if masters.is_empty() { Err(self.shared.unserved(0)) } else { Ok(masters) }
    }

    /// Listens to the first node that lets us.
    pub(super) async fn listen(&self, channel: &str) -> Result<Ear, Fault> {
        let mut listening = Err(self.shared.unserved(0));
        for node in self.masters()? {
            listening = self.shared.access.client(&node.place, Wanted::Node)?.listen(channel).await;
            if listening.is_ok() {
                break;
            }
        }
        listening
    }

    pub(super) fn part(&self, slot: u16) -> Part {
        Part { shard: self.shared.map.read().shard_of(slot), slot }
    }

    pub(super) fn shards(&self) -> usize {
        self.shared.map.read().shards()
    }

    pub(super) fn is_used(&self, shard: usize) -> bool {
        self.shared.map.read().is_used(shard)
    }

    pub(super) fn shard_name(&self, shard: usize) -> Option<String> {
        self.shared.map.read().shard_name(shard)
    }

    /// Sends a command to whoever holds the slot. It `waits` a little for keys of which some are
    /// there and some on their way, if it must.
    pub(super) async fn call(
        &self,
        slot: u16,
        command: &Command,
        waits: bool,
        aside: Aside<'_>,
    ) -> Result<Reply, Fault> {
        let shared = &*self.shared;
        let owner = shared.map.read().owner(slot);
        let Some(mut node) = owner else {
            shared.doubt.notify_one();
            return Err(shared.unserved(slot));
        };
        let (mut asks, mut tries) = (false, 0);
        let mut doubting = Doubting { shared, answered: false };
        for _ in 0..MOST_HOPS {
            let replied = match asks {
                true => node.ask(command).await,
                false => node.call(command).await,
            };
            let fault = match replied {
                Ok(reply) => {
                    doubting.answered = true;
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            let redirect = Redirect::read(&fault, &node.place);
            if redirect.is_some() {
                aside.step();
            }
            match redirect {
                Some(Redirect::Moved { slot, place }) => {
                    (node, asks) = (shared.moved(slot, &place)?, false);
                    // One that nobody knew is still being connected to.
                    node.opened().await?;
                }
                Some(Redirect::Ask { place }) => {
                    (node, asks) = (shared.visited(&place)?, true);
                    node.opened().await?;
                }
                Some(Redirect::TryAgain) if waits && tries < MOST_TRIES => {
                    tries += 1;
                    sleep(TRY_AGAIN).await;
                }
                _ => {
                    doubting.answered = !is_doubtful(&fault);
                    return Err(fault);
                }
            }
        }
        Err(Fault::Unconnected { text: format!("slot {slot} was moved {MOST_HOPS} times") })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

/// Whether it says that the map may be wrong.
fn is_doubtful(fault: &Fault) -> bool {
    match fault {
        Fault::Refused(refusal) => refusal.code() == "CLUSTERDOWN",
        _ => true,
    }
}

/// A call under way. Given up or failed, it leaves a doubt about the map.
struct Doubting<'a> {
    shared: &'a Shared,
    answered: bool,
}

impl Drop for Doubting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.shared.doubt.notify_one();
        }
    }
}

fn too_many() -> Fault {
    Fault::Unconnected { text: "the nodes name more nodes than a cluster has".to_owned() }
}

impl Shared {
    /// Begins to connect to a node.
    fn node(&self, place: &HostPort) -> Node {
        let client = self.access.client(place, Wanted::Node);
        let connections = client.map(|client| Connections::open(client, self.connections));
        Node { place: place.clone(), connections }
    }

    /// The slot is held by another node from now on.
    fn moved(&self, slot: u16, place: &HostPort) -> Result<Arc<Node>, Fault> {
        self.doubt.notify_one();
        let node = self.map.write().moved(slot, place, |place| self.node(place));
        node.ok_or_else(too_many)
    }

    /// A node that takes over a slot.
    fn visited(&self, place: &HostPort) -> Result<Arc<Node>, Fault> {
        let node = self.map.write().visited(place, |place| self.node(place));
        node.ok_or_else(too_many)
    }

    /// Why there is nobody to send a call to.
    fn unserved(&self, slot: u16) -> Fault {
        match &*self.state.borrow() {
            State::NotYet => Fault::Unconnected { text: "not connected yet".to_owned() },
            State::Unknown(fault) => fault.clone(),
            State::Known => {
                Fault::Unconnected { text: format!("no node holds slot {slot} of the cluster") }
            }
        }
    }
}
