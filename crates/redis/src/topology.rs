//! Owns [`Topology`]: one server, the one that sentinels call the master, or the nodes of a
//! cluster; and [`Way`], how a call gets to whoever holds its keys.

use std::sync::Arc;

use tollkeeper_core::{HostPort, Part, RedisAddress, RedisUrl};

use crate::connections::Connections;
use crate::driver::{Access, Client, Command, Ear, Fault, Reply};
use crate::examine::Wanted;
use crate::merge::Aside;
use crate::slot::slot_of;
use crate::store::Settings;

mod cluster;
mod gather;
mod sentinel;

use cluster::{Cluster, Node};
use sentinel::{Following, Sentinel};

/// The servers of a store.
#[derive(Debug)]
pub(crate) enum Topology {
    Single(Connections<Client>),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

/// How a call gets to a server.
#[derive(Debug)]
pub(crate) enum Way<'a> {
    /// The only one.
    Server(&'a Connections<Client>),
    /// The one that sentinels call the master.
    Master(&'a Connections<Following>),
    /// Whoever holds the slot. Keys that are on their way elsewhere are waited for or not.
    Slot { cluster: &'a Cluster, slot: u16, waits: bool, aside: Aside<'a> },
    /// This one, whatever it holds.
    Node(Arc<Node>),
}

impl<'a> Way<'a> {
    /// The same way, for a call that others wait for.
    pub(crate) fn stepping(mut self, by: Aside<'a>) -> Self {
        if let Self::Slot { aside, .. } = &mut self {
            *aside = by;
        }
        self
    }

    /// The same way, for a call whose keys need not be in one place.
    pub(crate) fn without_waiting(mut self) -> Self {
        if let Self::Slot { waits, .. } = &mut self {
            *waits = false;
        }
        self
    }

    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        match self {
            Self::Server(connections) => connections.call(command).await,
            Self::Master(connections) => connections.call(command).await,
            Self::Slot { cluster, slot, waits, aside } => {
                cluster.call(*slot, command, *waits, *aside).await
            }
            Self::Node(node) => node.call(command).await,
        }
    }
}

impl Topology {
    /// Begins to open what `url` names. Needs a runtime.
    pub(crate) fn open(url: &RedisUrl, settings: &Settings) -> Result<Self, Fault> {
        let access = Access::new(url, settings.ca.as_deref(), settings.connect_patience)?;
        let count = settings.connections;
        Ok(match &url.address {
            RedisAddress::Tcp { host, port, .. } => {
                let place = HostPort { host: host.clone(), port: *port };
                let client = access.client(&place, Wanted::Single)?;
                Self::Single(Connections::open(client, count))
            }
            RedisAddress::Unix { path } => {
                Self::Single(Connections::open(access.socket(path), count))
            }
            RedisAddress::Sentinel { sentinels, master, user, password, .. } => {
                let asked = access.of(user.as_ref(), password.as_ref());
                Self::Sentinel(Sentinel::open(sentinels, master, &asked, access, count)?)
            }
            RedisAddress::Cluster { nodes, .. } => {
                Self::Cluster(Cluster::open(nodes.clone(), access, count))
            }
        })
    }

    /// Waits until a server can be asked, or none can.
    pub(crate) async fn opened(&self) -> Result<(), Fault> {
        match self {
            Self::Single(connections) => connections.opened().await,
            Self::Sentinel(sentinel) => sentinel.connections().opened().await,
            Self::Cluster(cluster) => cluster.opened().await,
        }
    }

    /// Listens to what is said on a channel, which all servers repeat.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Ear, Fault> {
        match self {
            Self::Single(connections) => connections.driver().listen(channel).await,
            Self::Sentinel(sentinel) => sentinel.connections().driver().listen(channel).await,
            Self::Cluster(cluster) => cluster.listen(channel).await,
        }
    }

    /// The way to whoever holds the key of this name.
    pub(crate) fn holder(&self, name: &str) -> Way<'_> {
        match self {
            Self::Single(connections) => Way::Server(connections),
            Self::Sentinel(sentinel) => Way::Master(sentinel.connections()),
            Self::Cluster(cluster) => {
                Way::Slot { cluster, slot: slot_of(name), waits: true, aside: Aside::NOBODY }
            }
        }
    }

    /// The ways to all servers that hold keys.
    pub(crate) fn all(&self) -> Result<Vec<Way<'_>>, Fault> {
        match self {
            Self::Cluster(cluster) => Ok(cluster.masters()?.into_iter().map(Way::Node).collect()),
            _ => Ok(vec![self.holder("")]),
        }
    }

    /// Where the key of this name lies.
    pub(crate) fn part(&self, name: &str) -> Part {
        match self {
            Self::Cluster(cluster) => cluster.part(slot_of(name)),
            _ => Part::default(),
        }
    }

    /// How many servers are told apart.
    pub(crate) fn shards(&self) -> usize {
        match self {
            Self::Cluster(cluster) => cluster.shards(),
            _ => 1,
        }
    }

    /// Whether any key lies on a server. Until that is known, it may.
    pub(crate) fn is_used(&self, shard: usize) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.is_used(shard),
            _ => true,
        }
    }

    /// Where one of a cluster's servers is.
    pub(crate) fn shard_name(&self, shard: usize) -> Option<String> {
        match self {
            Self::Cluster(cluster) => cluster.shard_name(shard),
            _ => None,
        }
    }
}
