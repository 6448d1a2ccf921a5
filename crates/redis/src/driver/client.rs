//! Owns [`Client`]: the `redis` crate behind [`Driver`]. The crate packs commands and reads replies;
//! how the server is reached, who signs in and what an error means is ours.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, Value,
};
use tokio::task::{AbortHandle, unconstrained};
use tokio::time::{Instant, timeout, timeout_at};
use tollkeeper_core::{HostPort, RedisUrl, Secret};

use super::reach::{NO_WAY, Route, Trust};
use super::wire::{Fate, Stream, Wire};
use super::{Command, Driver, Fault, Link, Reply};
use crate::examine::Wanted;

/// Commands that wait to be written, on each connection.
const PIPELINE_BUFFER: usize = 256;

/// Longer than anybody waits.
const LONGEST_PATIENCE: Duration = Duration::from_secs(3600);

/// How often one is tried who says nothing unasked.
const TRY_EVERY: Duration = Duration::from_secs(10);

/// How we are called in the server's list of clients.
const NAME: &str = "tollkeeper";

/// How the servers of one store are reached: who we are, whom we trust, how long it may take.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    user: Option<Secret>,
    password: Option<Secret>,
    database: u16,
    trust: Option<Trust>,
    patience: Duration,
}

impl Access {
    /// As `url` says. `ca` is a PEM text of the authorities that are trusted instead of the
    /// system's; connecting takes at most `patience`.
    pub(crate) fn new(
        url: &RedisUrl,
        ca: Option<&[u8]>,
        patience: Duration,
    ) -> Result<Self, Fault> {
        Ok(Self {
            user: url.user.as_ref().map(Secret::new),
            password: url.password.clone(),
            database: url.database,
            trust: url.is_tls().then(|| Trust::new(ca)).transpose()?,
            patience: patience.min(LONGEST_PATIENCE),
        })
    }

    /// The same for servers that have users of their own.
    pub(crate) fn of(&self, user: Option<&Secret>, password: Option<&Secret>) -> Self {
        let (user, password) = (user.cloned(), password.cloned());
        Self { user, password, database: 0, ..self.clone() }
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A client of the server at `place`, which should be what is `wanted`.
    pub(crate) fn client(&self, place: &HostPort, wanted: Wanted) -> Result<Client, Fault> {
        let route = Route::tcp(place, self.trust.as_ref())?;
        Ok(Client { access: self.clone(), route, wanted })
    }

    /// A client of the one server behind a socket.
    pub(crate) fn socket(&self, path: &Path) -> Client {
        let route = Route::Unix { path: path.to_owned() };
        Client { access: self.clone(), route, wanted: Wanted::Single }
    }
}

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Client {
    access: Access,
    route: Route,
    wanted: Wanted,
}

impl Client {
    /// Says who we are, all in one round trip.
    async fn sign_in(&self, line: &Line) -> Result<(), Fault> {
        let (mut needed, mut rest) = (Vec::new(), Vec::new());
        let Access { user, password, database, .. } = &self.access;
        if user.is_some() || password.is_some() {
            let auth = user.iter().map(Secret::expose).fold(Command::new("AUTH"), Command::arg);
            // A user who needs no password signs in all the same.
            needed.push(auth.arg(password.as_ref().map_or("", Secret::expose)));
        }
        if *database != 0 {
            needed.push(Command::new("SELECT").arg(database.to_string()));
        }
        let client = || Command::new("CLIENT");
        rest.push(client().arg("SETNAME").arg(NAME));
        rest.push(client().arg("SETINFO").arg("LIB-NAME").arg(NAME));
        rest.push(client().arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION")));
        let replies = join_all(needed.iter().chain(&rest).map(|command| line.call(command))).await;
        // A server that hangs up says why in answer to whatever came first. Otherwise it need not
        // know how we are called.
        let is_lost = |fault: &Fault| !matches!(fault, Fault::Refused(_));
        let hung_up = replies.iter().any(|reply| reply.as_ref().is_err_and(is_lost));
        let heard = if hung_up { replies.len() } else { needed.len() };
        match replies.into_iter().take(heard).find_map(Result::err) {
            Some(Fault::Broken { text } | Fault::Unconnected { text }) => {
                Err(Fault::Unconnected { text: text + self.route.if_strange() })
            }
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Listens to what is said on a channel, over a connection of its own.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Ear, Fault> {
        let silent = |_| Fault::Unconnected { text: "no answer in time".to_owned() };
        timeout(self.access.patience, self.subscribe(channel)).await.map_err(silent)?
    }

    async fn subscribe(&self, channel: &str) -> Result<Ear, Fault> {
        let (wire, fate) = Wire::new(self.route.open().await?);
        let Access { user, password, .. } = &self.access;
        let mut who = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(user) = user {
            who = who.set_username(user.expose());
        }
        if user.is_some() || password.is_some() {
            who = who.set_password(password.as_ref().map_or("", Secret::expose));
        }
        let lost = |error: RedisError| broken(&error, &fate).unsent();
        let mut heard = PubSub::new(&who, wire).await.map_err(lost)?;
        heard.subscribe(channel).await.map_err(lost)?;
        fate.heard();
        Ok(Ear { heard, fate, patience: self.access.patience })
    }
}

/// A connection over which a server speaks unasked.
pub(crate) struct Ear {
    heard: PubSub,
    fate: Arc<Fate>,
    patience: Duration,
}

impl Ear {
    /// What is said next; `None` when nothing more will be said. It is tried now and then whether
    /// there is still somebody.
    pub(crate) async fn hear(&mut self) -> Option<String> {
        loop {
            // Unconstrained, so that nothing is taken for heard that only this task's turn keeps from it.
            let next = unconstrained(self.heard.on_message().next()).now_or_never();
            let next = match next {
                Some(next) => Ok(next),
                None => {
                    // All of it was heard. The library keeps whatever was not, so that a server that may say more
                    // for each message could fill the memory.
                    self.fate.heard();
                    timeout(TRY_EVERY, self.heard.on_message().next()).await
                }
            };
            if let Ok(message) = next {
                return message.map(|message| message.get_payload().unwrap_or_default());
            }
            let pinged = timeout(self.patience, self.heard.ping::<Value>()).await;
            pinged.ok()?.ok()?;
        }
    }
}

impl Driver for Client {
    type Link = Line;

    fn patience(&self) -> Duration {
        self.access.patience
    }

    fn wanted(&self) -> Wanted {
        self.wanted
    }

    async fn connect(&self) -> Result<Line, Fault> {
        let patience = self.access.patience;
        let until = Instant::now() + patience;
        let silent = |what: &str, advice: &str| {
            let text = format!("{what} within {patience:?}{}{advice}", self.route.if_silent());
            Fault::Unconnected { text }
        };
        let opened = timeout_at(until, self.route.open()).await;
        let no_way = format!("; {NO_WAY}");
        let line = Line::over(opened.map_err(|_| silent("no connection", &no_way))??).await?;
        let signed_in = timeout_at(until, self.sign_in(&line)).await;
        signed_in.map_err(|_| silent("no answer", ""))??;
        Ok(line)
    }
}

/// A connection, and the task that reads and writes on it.
#[derive(Debug)]
pub(crate) struct Line {
    connection: MultiplexedConnection,
    fate: Arc<Fate>,
    task: AbortHandle,
}

impl Line {
    async fn over(stream: Box<dyn Stream>) -> Result<Self, Fault> {
        let (wire, fate) = Wire::new(stream);
        // Nothing is said to the server yet.
        let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
        // Calls have deadlines of their own.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let made = MultiplexedConnection::new_with_config(&nobody, wire, config).await;
        let (connection, driver) =
            made.map_err(|error| Fault::Unconnected { text: error.to_string() })?;
        Ok(Self { connection, fate, task: tokio::spawn(driver).abort_handle() })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link for Line {
    async fn call(&self, command: &Command) -> Result<Reply, Fault> {
        if let Some(end) = self.end() {
            return Err(end);
        }
        let value = self.connection.clone().req_packed_command(&packed(command)).await;
        self.fate.answered();
        reply(value.map_err(|error| broken(&error, &self.fate))?)
    }

    async fn call_after(&self, first: &Command, command: &Command) -> Result<Reply, Fault> {
        if let Some(end) = self.end() {
            return Err(end);
        }
        let mut both = Pipeline::new();
        both.add_command(packed(first)).add_command(packed(command));
        let values = self.connection.clone().req_packed_commands(&both, 1, 1).await;
        self.fate.answered();
        let values = values.map_err(|error| broken(&error, &self.fate))?;
        reply(values.into_iter().next().unwrap_or(Value::Nil))
    }

    fn end(&self) -> Option<Fault> {
        self.fate.why().map(|why| Fault::Unconnected { text: why.to_owned() })
    }

    async fn ended(&self) -> Fault {
        Fault::Unconnected { text: self.fate.ended().await.to_owned() }
    }

    fn close(&self) {
        self.task.abort();
    }
}

fn packed(command: &Command) -> Cmd {
    let mut packed = Cmd::new();
    for arg in command.args() {
        packed.arg(arg);
    }
    packed
}

fn reply(value: Value) -> Result<Reply, Fault> {
    Ok(match value {
        Value::Nil => Reply::Nothing,
        Value::Int(number) => Reply::Whole(number),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::SimpleString(text) => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(values) => {
            // An error in the midst of others is not one of the whole call.
            let part = |value| reply(value).map_err(|_| no_reply());
            Reply::List(values.into_iter().map(part).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            return Err(Fault::refused(&format!("{} {details}", error.code())));
        }
        // The older protocol, which is spoken here, has nothing else.
        _ => return Err(no_reply()),
    })
}

fn no_reply() -> Fault {
    Fault::Broken { text: "it does not answer as Redis does".to_owned() }
}

/// The library has no other errors than those of a connection that is lost or cannot be read.
fn broken(error: &RedisError, fate: &Fate) -> Fault {
    match (error.kind(), fate.why()) {
        (ErrorKind::Parse, _) => no_reply(),
        (_, Some(why)) => Fault::Broken { text: why.to_owned() },
        (_, None) => Fault::Broken { text: error.to_string() },
    }
}

#[cfg(test)]
mod tests;
