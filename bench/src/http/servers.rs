//! The servers, each in a process of its own so that its CPU can be told.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tollkeeper_policy::Policy;
use tollkeeper_server::Server;
use tollkeeper_testkit::folder::Folder;
use tollkeeper_testkit::port::Port;

use crate::cpu;

/// The arguments by which the benchmark starts itself as a server.
pub(crate) const BARE: &str = "serve-bare-hyper";
pub(crate) const SERVICE: &str = "serve-tollkeeper";

const POLICY: &str = "
listen: { http: \"127.0.0.1:0\" }
rules: { api: { limit: 1000000/s } }
";

/// As long as what a check is answered with.
pub(super) const ANSWER: &[u8] = &[b'x'; 320];

/// A server that runs.
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    /// What a peer has for as long as it runs.
    _port: Option<Port>,
    _folder: Option<Folder>,
}

impl Process {
    pub(super) fn start(which: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(which)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, address: line.trim().parse().unwrap(), _port: None, _folder: None }
    }

    /// A server of others, at the port that was kept for it.
    pub(super) fn of_peer(
        child: Child,
        address: SocketAddr,
        port: Port,
        folder: Option<Folder>,
    ) -> Self {
        Self { child, address, _port: Some(port), _folder: folder }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn used_us(&self) -> f64 {
        cpu::used_us(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn announce(address: SocketAddr) {
    println!("{address}");
    std::io::stdout().flush().unwrap();
}

pub(crate) fn serve_service() {
    Runtime::new().unwrap().block_on(async {
        let policy = Policy::parse(POLICY, &|_| None).unwrap();
        let server = Server::bind(policy).await.unwrap();
        announce(server.addresses().unwrap().http.unwrap());
        server.run(std::future::pending()).await;
    });
}

/// Hyper with nothing behind it: it reads the body and gives the same answer to everybody.
pub(crate) fn serve_bare() {
    Runtime::new().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        announce(listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            tokio::spawn(async move { drop(connection.await) });
        }
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
