//! Keeps the map of a cluster true: asks some nodes, and believes the one that is well and has
//! heard of the latest election.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::{sleep, timeout};
use tollkeeper_core::HostPort;

use super::super::gather::gather;
use super::view::View;
use super::{Node, Shared, State};
use crate::connections::jittered;
use crate::driver::{Command, Driver, Fault, Link, Reply};
use crate::examine::{Wanted, no_cluster};

/// How often the map is looked at that nobody doubts.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The pause after a look, which doubles while there are doubts and nothing changes.
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Nodes that are asked at a time, of those that we are connected to and of others.
const MOST_ASKED: usize = 5;
const MOST_OTHERS: usize = 16;

/// Looks again and again, until whoever owns it ends the task.
pub(super) async fn keep_map(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (is_well, changed) = match shared.look().await {
            Ok(view) => (view.is_ok && view.is_whole(), shared.install(&view)),
            Err(fault) => {
                shared.not_told(fault);
                (false, false)
            }
        };
        if changed {
            pause = FIRST_PAUSE;
        }
        sleep(pause / 2 + jittered(pause / 2)).await;
        let is_quiet = is_well && timeout(LOOK_EVERY, shared.doubt.notified()).await.is_err();
        pause = if is_quiet { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}

impl Shared {
    /// Takes over what a node has said; whether anything is new.
    fn install(&self, view: &View) -> bool {
        let (gone, changed) = self.map.write().install(view, |place| self.node(place));
        drop(gone);
        self.state.send_if_modified(|state| {
            let is_new = *state != State::Known;
            *state = State::Known;
            is_new
        });
        changed
    }

    fn not_told(&self, fault: Fault) {
        self.state.send_if_modified(|state| {
            // Where the nodes were is worth more than nothing.
            let is_new = *state != State::Known;
            if is_new {
                *state = State::Unknown(fault);
            }
            is_new
        });
    }

    /// The best of what some nodes say.
    async fn look(&self) -> Result<View, Fault> {
        let patience = self.access.patience() * 2;
        let (nodes, replicas) = {
            let map = self.map.read();
            (map.nodes(), map.replicas().to_vec())
        };
        let asked = nodes.iter().take(MOST_ASKED).map(|node| async {
            let (slots, info) = questions();
            let (slots, info) = join(node.call(&slots), node.call(&info)).await;
            read(slots, info.as_ref().ok(), &node.place)
        });
        let (mut views, _) = gather(asked, patience).await;
        if views.iter().any(|view| view.is_ok && !view.ranges.is_empty()) {
            return best(views).ok_or_else(no_cluster);
        }
        let is_known = |place: &&HostPort| !nodes.iter().any(|node| is_open(node, place));
        let others = self.seeds.iter().chain(&replicas).filter(is_known).take(MOST_OTHERS);
        let (more, faults) = gather(others.map(|place| self.ask(place)), patience).await;
        views.extend(more);
        let text = "no node of it holds any slot".to_owned();
        let none = || faults.into_iter().next().unwrap_or(Fault::Unconnected { text });
        best(views).ok_or_else(none)
    }

    /// Asks a node that we have no connection to.
    async fn ask(&self, place: &HostPort) -> Result<View, Fault> {
        let asked = async {
            let line = self.access.client(place, Wanted::Node)?.connect().await?;
            let (slots, info) = questions();
            let (slots, info) = join(line.call(&slots), line.call(&info)).await;
            read(slots, info.as_ref().ok(), place)
        };
        asked.await.map_err(|fault: Fault| fault.at(place).unsent())
    }
}

fn is_open(node: &Node, place: &HostPort) -> bool {
    node.place == *place && node.connections.as_ref().is_ok_and(|c| c.is_open())
}

fn questions() -> (Command, Command) {
    (Command::new("CLUSTER").arg("SLOTS"), Command::new("CLUSTER").arg("INFO"))
}

fn read(
    slots: Result<Reply, Fault>,
    info: Option<&Reply>,
    place: &HostPort,
) -> Result<View, Fault> {
    let slots = slots.map_err(|fault| match fault.says("cluster support disabled") {
        true => no_cluster(),
        false => fault,
    })?;
    let text = "what it says of its cluster cannot be read".to_owned();
    View::read(&slots, info.and_then(Reply::text), place).ok_or(Fault::Unconnected { text })
}

/// The view of a node that is well, of those the one that has heard of the latest election. One in
/// which nobody holds anything is that of a node that has lost the others.
fn best(views: Vec<View>) -> Option<View> {
    let told = views.into_iter().filter(|view| !view.ranges.is_empty());
    told.max_by_key(|view| (view.is_ok, view.epoch, view.is_whole()))
}
