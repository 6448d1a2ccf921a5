//! Owns [`Proxy`]: stands between clients and a server on loopback, and does to their bytes what
//! networks do.
//!
//! It can be switched while it runs, for the connections that are open and for new ones. When a
//! switch returns, no byte passes by the old rule any more. It has a thread and a runtime of its
//! own, so that tests of any kind can use it, and every buffer is bounded.

mod line;
mod rules;

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc as async_mpsc, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::timeout;

use self::line::Line;
pub use self::rules::{Ending, Seen};
use self::rules::{Mode, Rule, Rules, Way};
use crate::port::Port;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a connection that was finished in order may still send.
const LINGER: Duration = Duration::from_secs(1);

/// More connections are turned away.
const MAX_OPEN: u64 = 1024;

/// What the thread is asked to do, and whom to tell when it is done.
struct Order {
    what: What,
    done: mpsc::Sender<Result<(), String>>,
}

enum What {
    Set(Mode),
    Abandon,
}

/// A proxy that runs until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    orders: Option<async_mpsc::UnboundedSender<Order>>,
    seen: watch::Receiver<Seen>,
    runtime: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Stands before the server on `port` of loopback, and passes everything.
    pub fn before(port: u16) -> Result<Self, String> {
        Self::start(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Stands before `server`, and passes everything.
    pub fn start(server: SocketAddr) -> Result<Self, String> {
        let port = Port::reserve()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
        let listener = {
            let _context = runtime.enter();
            listen(address)?
        };
        let (orders, received) = async_mpsc::unbounded_channel();
        let (seen_sender, seen) = watch::channel(Seen::default());
        let handle = runtime.handle().clone();
        let thread = std::thread::spawn(move || {
            let house = House { address, server, rules: Rc::new(Rules::new(seen_sender)) };
            LocalSet::new().block_on(&runtime, house.run(listener, received));
        });
        Ok(Self { port, orders: Some(orders), seen, runtime: handle, thread: Some(thread) })
    }

    /// The port that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of a Redis server behind it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Passes everything, and what was held.
    pub fn pass(&self) -> Result<(), String> {
        self.order(What::Set(Mode::Pass))
    }

    /// Every byte arrives `delay` after it came, each way.
    pub fn delay(&self, delay: Duration) -> Result<(), String> {
        self.order(What::Set(Mode::Delay(delay)))
    }

    /// Of the server's answers, at most `bytes` arrive in each `every`, on each connection.
    pub fn trickle(&self, bytes: usize, every: Duration) -> Result<(), String> {
        self.order(What::Set(Mode::Trickle { bytes, every }))
    }

    /// Nothing moves and nothing is lost: it arrives when the rule changes.
    pub fn hold(&self) -> Result<(), String> {
        self.order(What::Set(Mode::Hold))
    }

    /// Connections are accepted and nothing is closed, but every byte vanishes, and so does the end
    /// of a connection.
    pub fn half_open(&self) -> Result<(), String> {
        self.order(What::Set(Mode::HalfOpen))
    }

    /// Requests arrive at the server, and its answers vanish.
    pub fn mute(&self) -> Result<(), String> {
        self.order(What::Set(Mode::Mute))
    }

    /// Ends every connection, and each new one as soon as it is accepted.
    pub fn cut(&self, ending: Ending) -> Result<(), String> {
        self.order(What::Set(Mode::Cut(ending)))
    }

    /// Resets every connection, and refuses new ones: nobody listens.
    pub fn refuse(&self) -> Result<(), String> {
        self.order(What::Set(Mode::Refuse))
    }

    /// The connections of now are half open for ever, as behind a router that forgot them. The rule
    /// for others stays.
    pub fn abandon(&self) -> Result<(), String> {
        self.order(What::Abandon)
    }

    /// What was seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Waits until `holds` says so of what was seen.
    pub async fn until(
        &self,
        holds: impl Fn(&Seen) -> bool + Send + Sync + 'static,
    ) -> Result<Seen, String> {
        let waited = self.runtime.spawn(wait(self.seen.clone(), holds)).await;
        waited.unwrap_or_else(|_| Err("the proxy has ended".to_owned()))
    }

    /// The same for tests that are not asynchronous.
    pub fn wait_until(
        &self,
        holds: impl Fn(&Seen) -> bool + Send + Sync + 'static,
    ) -> Result<Seen, String> {
        let (sender, receiver) = mpsc::channel();
        let waited = wait(self.seen.clone(), holds);
        self.runtime.spawn(async move { sender.send(waited.await) });
        receiver.recv().unwrap_or_else(|_| Err("the proxy has ended".to_owned()))
    }

    fn order(&self, what: What) -> Result<(), String> {
        let (done, told) = mpsc::channel();
        let sent = self.orders.as_ref().map(|orders| orders.send(Order { what, done }));
        match sent {
            Some(Ok(())) => told.recv_timeout(PATIENCE).map_err(|error| error.to_string())?,
            _ => Err("the proxy has ended".to_owned()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The thread ends when nobody can give orders.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn wait(
    mut seen: watch::Receiver<Seen>,
    holds: impl Fn(&Seen) -> bool,
) -> Result<Seen, String> {
    let waited = timeout(PATIENCE, seen.wait_for(holds)).await.map(|held| held.map(|seen| *seen));
    match waited {
        Ok(Ok(held)) => Ok(held),
        Ok(Err(_)) => Err("the proxy has ended".to_owned()),
        Err(_) => Err(format!("not within {PATIENCE:?}: {:?}", *seen.borrow())),
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    listen().map_err(|error| format!("{address}: {error}"))
}

/// What lives on the thread.
struct House {
    address: SocketAddr,
    server: SocketAddr,
    rules: Rc<Rules>,
}

impl House {
    async fn run(self, listener: TcpListener, mut orders: async_mpsc::UnboundedReceiver<Order>) {
        let mut listener = Some(listener);
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    let done = self.obey(&order.what, &mut listener);
                    let _ = order.done.send(done);
                }
                Some(client) = accept(listener.as_ref()) => self.admit(client),
            }
        }
    }

    fn obey(&self, what: &What, listener: &mut Option<TcpListener>) -> Result<(), String> {
        match what {
            What::Abandon => self.rules.abandon(),
            What::Set(mode) => {
                self.rules.set(*mode);
                if *mode == Mode::Refuse {
                    *listener = None;
                } else if listener.is_none() {
                    *listener = Some(listen(self.address)?);
                }
            }
        }
        Ok(())
    }

    fn admit(&self, client: TcpStream) {
        if self.rules.open() >= MAX_OPEN {
            return;
        }
        let (id, server, rules) = (self.rules.next_id(), self.server, Rc::clone(&self.rules));
        rules.see(|seen| {
            seen.accepted += 1;
            seen.open += 1;
        });
        spawn_local(async move {
            serve(id, client, server, &rules).await;
            rules.see(|seen| seen.open -= 1);
        });
    }
}

/// The next client; none for ever where nobody listens.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

/// One connection from its beginning to its end.
async fn serve(id: u64, client: TcpStream, server: SocketAddr, rules: &Rules) {
    let _ = client.set_nodelay(true);
    let server = match connect(id, &client, server, rules).await {
        Ok(server) => server,
        Err(ending) => return end(&client, ending).await,
    };
    let _ = server.set_nodelay(true);
    let up = Line::new(id, Way::Up, (&client, &server), rules);
    let down = Line::new(id, Way::Down, (&server, &client), rules);
    if let Err(ending) = tokio::try_join!(up.run(), down.run()) {
        tokio::join!(end(&client, ending), end(&server, ending));
    }
}

/// Reaches the server once the rules let anything through to it.
async fn connect(
    id: u64,
    client: &TcpStream,
    server: SocketAddr,
    rules: &Rules,
) -> Result<TcpStream, Ending> {
    let mut changes = rules.changes();
    loop {
        changes.borrow_and_update();
        match rules.of(id, Way::Up) {
            Rule::End(ending) => return Err(ending),
            Rule::Forward { .. } => {
                return TcpStream::connect(server).await.map_err(|_| Ending::Reset);
            }
            Rule::Hold => {
                let _ = changes.changed().await;
            }
            Rule::Swallow => tokio::select! {
                _ = changes.changed() => {}
                gone = drain(client, rules) => gone?,
            },
        }
    }
}

/// Reads what comes and forgets it, until the sender ends.
async fn drain(stream: &TcpStream, rules: &Rules) -> Result<(), Ending> {
    let mut bytes = [0; 4096];
    loop {
        stream.readable().await.map_err(|_| Ending::Reset)?;
        match stream.try_read(&mut bytes) {
            Ok(0) => return Err(Ending::Finish),
            Ok(count) => rules.see(|seen| {
                seen.from_clients += count as u64;
                seen.swallowed += count as u64;
            }),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Ending::Reset),
        }
    }
}

/// Ends one side of a connection.
async fn end(stream: &TcpStream, ending: Ending) {
    match ending {
        Ending::Reset => {
            let _ = stream.set_zero_linger();
        }
        Ending::Finish => {
            let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Write);
            // Closing with something unread would reset after all.
            let mut bytes = [0; 4096];
            let read_on = async {
                while stream.readable().await.is_ok() {
                    match stream.try_read(&mut bytes) {
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Ok(1..) => {}
                        _ => return,
                    }
                }
            };
            let _ = timeout(LINGER, read_on).await;
        }
    }
}
