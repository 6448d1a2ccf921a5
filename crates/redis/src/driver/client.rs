//! Owns [`Client`]: the `redis` crate behind [`Driver`].

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};
use tollkeeper_core::{RedisAddress, RedisUrl};

use super::{Command, Driver, Fault, Reply};

/// Commands that wait to be written, on each connection.
const PIPELINE_BUFFER: usize = 256;

/// Opens connections to one server.
#[derive(Debug)]
pub(crate) struct Client {
    client: redis::Client,
    patience: Duration,
}

impl Client {
    /// A client of the server at `url`. `ca` is a PEM text of the authorities that are trusted
    /// instead of the system's; connecting takes at most `patience`.
    pub(crate) fn new(
        url: &RedisUrl,
        ca: Option<&[u8]>,
        patience: Duration,
    ) -> Result<Self, Fault> {
        let client = open(url, ca).map_err(|error| unconnected(&error))?;
        Ok(Self { client, patience })
    }
}

fn open(url: &RedisUrl, ca: Option<&[u8]>) -> Result<redis::Client, RedisError> {
    let address = match &url.address {
        RedisAddress::Tcp { host, port, tls: false } => ConnectionAddr::Tcp(host.clone(), *port),
        RedisAddress::Tcp { host, port, tls: true } => ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: false,
            tls_params: None,
        },
        RedisAddress::Unix { path } => ConnectionAddr::Unix(path.clone()),
    };
    let mut who = RedisConnectionInfo::default()
        .set_db(url.database.into())
        .set_lib_name("tollkeeper", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &url.user {
        // One without a password signs in all the same.
        who = who.set_username(user).set_password("");
    }
    if let Some(password) = &url.password {
        who = who.set_password(password.expose());
    }
    let info = address
        .into_connection_info()?
        .set_tcp_settings(TcpSettings::default().set_nodelay(true))
        .set_redis_settings(who);
    match ca {
        Some(ca) => {
            let root_cert = Some(ca.to_vec());
            redis::Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
        }
        None => redis::Client::open(info),
    }
}

impl Driver for Client {
    type Link = MultiplexedConnection;

    async fn connect(&self) -> Result<MultiplexedConnection, Fault> {
        // Calls have deadlines of their own.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER);
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        connecting.await.map_err(|error| match fault(&error) {
            Fault::Broken { text } => Fault::Unconnected { text },
            refused => refused,
        })
    }

    async fn call(&self, link: &MultiplexedConnection, command: &Command) -> Result<Reply, Fault> {
        let mut packed = Cmd::new();
        for arg in command.args() {
            packed.arg(arg);
        }
        let value = link.clone().req_packed_command(&packed).await;
        reply(value.map_err(|error| fault(&error))?)
    }
}

fn reply(value: Value) -> Result<Reply, Fault> {
    Ok(match value {
        Value::Nil => Reply::Nothing,
        Value::Int(number) => Reply::Whole(number),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::SimpleString(text) => Reply::Text(text.into_bytes()),
        Value::Okay => Reply::Text(b"OK".to_vec()),
        Value::Array(values) => {
            Reply::List(values.into_iter().map(reply).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            return Err(Fault::refused(format!("{} {details}", error.code())));
        }
        // The older protocol, which is spoken here, has nothing else.
        _ => return Err(Fault::Broken { text: "the server's reply cannot be read".to_owned() }),
    })
}

fn fault(error: &RedisError) -> Fault {
    if error.is_connection_refusal() {
        return unconnected(error);
    }
    let details = error.detail().unwrap_or_default();
    match (error.kind(), error.code()) {
        // The library tells no code for a refused password.
        (ErrorKind::AuthenticationFailed, _) => Fault::refused(format!("WRONGPASS {details}")),
        (_, Some(code)) => Fault::refused(format!("{code} {details}")),
        (ErrorKind::InvalidClientConfig, None) => unconnected(error),
        _ => Fault::Broken { text: error.to_string() },
    }
}

fn unconnected(error: &RedisError) -> Fault {
    Fault::Unconnected { text: error.to_string() }
}
