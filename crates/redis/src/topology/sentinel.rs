//! Owns [`Sentinel`]: connections to the server that sentinels call the master, which follow it
//! when that becomes another one.
//!
//! Whoever opens a connection asks the sentinels first. Beside that all of them are listened to,
//! and asked now and then, so that connections to an old master are left as soon as there is a new
//! one, even if the old one still answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tollkeeper_core::HostPort;

use crate::connections::{Connections, jittered};
use crate::driver::{Access, Client, Command, Driver, Ear, Fault, Line, Link, Reply};
use crate::examine::Wanted;

mod resolver;

use resolver::Resolver;

/// What sentinels say when another server has become the master.
const SWITCHED: &str = "+switch-master";

/// How often the sentinels are asked though nothing was heard.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// The longest pause before a sentinel is listened to again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// What becomes of a connection to an old master.
const LEFT: &str = "the sentinels have chosen another master";

/// Connections to whichever server is the master.
#[derive(Debug)]
pub(crate) struct Sentinel {
    connections: Arc<Connections<Following>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sentinel {
    /// Begins to open `count` connections to the master of that name. `asked` is how sentinels are
    /// reached, `access` how the master is.
    pub(super) fn open(
        sentinels: &[HostPort],
        master: &str,
        asked: &Access,
        access: Access,
        count: usize,
    ) -> Result<Self, Fault> {
        let resolver = Arc::new(Resolver::new(sentinels, master, asked)?);
        let following = Following { resolver: Arc::clone(&resolver), access };
        let connections = Arc::new(Connections::open(following, count));
        let mut tasks = Vec::new();
        for place in sentinels {
            let client = asked.client(place, Wanted::Single)?;
            tasks.push(tokio::spawn(listen(client, Arc::clone(&resolver))));
        }
        tasks.push(tokio::spawn(follow(resolver, Arc::clone(&connections))));
        Ok(Self { connections, tasks })
    }

    pub(super) fn connections(&self) -> &Connections<Following> {
        &self.connections
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Leaves the connections to any server that is no more the master.
async fn follow(resolver: Arc<Resolver>, connections: Arc<Connections<Following>>) {
    let mut master = resolver.subscribe();
    loop {
        if timeout(ASK_EVERY, master.changed()).await.is_err() {
            let _ = resolver.master().await;
        }
        if let Some(master) = &*master.borrow_and_update() {
            connections.retire(LEFT, |seated| seated.place != *master);
        }
    }
}

/// Listens to a sentinel for ever.
async fn listen(sentinel: Client, resolver: Arc<Resolver>) {
    loop {
        if let Ok(mut ear) = sentinel.listen(SWITCHED).await {
            // It may have been said before anybody listened.
            let _ = resolver.master_now().await;
            while let Some(said) = ear.hear().await {
                if said.split(' ').next() == Some(resolver.name()) {
                    let _ = resolver.master_now().await;
                }
            }
        }
        sleep(LISTEN_PAUSE / 2 + jittered(LISTEN_PAUSE / 2)).await;
    }
}

/// Opens connections to whichever server is the master at that moment.
#[derive(Debug)]
pub(crate) struct Following {
    resolver: Arc<Resolver>,
    access: Access,
}

impl Following {
    /// Listens to the master of this moment.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Ear, Fault> {
        let place = self.resolver.master().await?;
        self.access.client(&place, Wanted::Master)?.listen(channel).await
    }
}

impl Driver for Following {
    type Link = Seated;

    fn patience(&self) -> Duration {
        self.access.patience()
    }

    fn wanted(&self) -> Wanted {
        Wanted::Master
    }

    async fn connect(&self) -> Result<Seated, Fault> {
        let place = self.resolver.master().await?;
        let client = self.access.client(&place, Wanted::Master)?;
        let mut master = self.resolver.subscribe();
        tokio::select! {
            opened = client.connect() => match opened {
                Ok(line) => Ok(Seated { line, place }),
                Err(fault) => Err(fault.at(&place)),
            },
            () = becomes_another(&mut master, &place) => {
                Err(Fault::Unconnected { text: format!("{place}: {LEFT}") })
            }
        }
    }
}

async fn becomes_another(master: &mut watch::Receiver<Option<HostPort>>, place: &HostPort) {
    let is_another = |now: &Option<HostPort>| now.as_ref().is_some_and(|now| now != place);
    if master.wait_for(is_another).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A connection to a server that was the master when it was opened.
#[derive(Debug)]
pub(crate) struct Seated {
    line: Line,
    place: HostPort,
}

impl Link for Seated {
    async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        self.line.call(command).await.map_err(|fault| fault.at(&self.place))
    }

    async fn call_after(&self, first: &Command, command: &Command) -> Result<Reply, Fault> {
        self.line.call_after(first, command).await.map_err(|fault| fault.at(&self.place))
    }

    fn end(&self) -> Option<Fault> {
        self.line.end().map(|fault| fault.at(&self.place))
    }

    async fn ended(&self) -> Fault {
        self.line.ended().await.at(&self.place)
    }

    fn close(&self) {
        self.line.close();
    }
}
