//! What each rule of the proxy does to a client and an echoing server.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use tollkeeper_testkit::proxy::{Ending, Proxy};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server that sends back what it gets, and the proxy before it.
async fn echo() -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    Proxy::before(port).unwrap()
}

struct Client(TcpStream);

impl Client {
    async fn of(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap())
    }

    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn get(&mut self, count: usize) -> String {
        let mut bytes = vec![0; count];
        timeout(PATIENCE, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// What the client reads when nothing more comes: the end, or an error.
    async fn ending(&mut self) -> Result<usize, ErrorKind> {
        let read = timeout(PATIENCE, self.0.read(&mut [0; 64])).await.unwrap();
        read.map_err(|error| error.kind())
    }
}

/// What a new client reads. A reset may already meet it while it connects.
async fn met_by(proxy: &Proxy) -> Result<usize, ErrorKind> {
    match TcpStream::connect(("127.0.0.1", proxy.port())).await {
        Ok(stream) => Client(stream).ending().await,
        Err(error) => Err(error.kind()),
    }
}

#[tokio::test]
async fn everything_passes_both_ways_and_the_end_too() {
    let proxy = echo().await;
    let mut client = Client::of(&proxy).await;
    // More than every buffer holds, so that it only passes if both ways run at once.
    let sent: Vec<u8> = (0..8 << 20).map(|n: u32| n.to_le_bytes()[0]).collect();
    let (mut from, mut to) = client.0.split();
    let write = async {
        to.write_all(&sent).await.unwrap();
        to.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let both = async { tokio::join!(write, from.read_to_end(&mut got)).1 };
    timeout(PATIENCE, both).await.unwrap().unwrap();
    assert!(got == sent);
    let seen = proxy.until(|seen| seen.open == 0).await.unwrap();
    assert_eq!((seen.accepted, seen.to_clients, seen.swallowed), (1, 8 << 20, 0));
}

#[tokio::test]
async fn a_delay_holds_each_way_and_ends_with_its_rule() {
    let proxy = echo().await;
    let mut client = Client::of(&proxy).await;
    let delay = Duration::from_millis(40);
    proxy.delay(delay).unwrap();
    let begun = Instant::now();
    client.send("late").await;
    assert_eq!(client.get(4).await, "late");
    assert!(begun.elapsed() >= 2 * delay, "{:?}", begun.elapsed());

    proxy.delay(Duration::from_secs(3600)).unwrap();
    client.send("never?").await;
    proxy.until(|seen| seen.from_clients == 10).await.unwrap();
    assert_eq!(proxy.seen().to_server, 4);
    proxy.pass().unwrap();
    assert_eq!(client.get(6).await, "never?");
}

#[tokio::test]
async fn what_is_held_arrives_later_and_whole() {
    let proxy = echo().await;
    let mut client = Client::of(&proxy).await;
    client.send("a").await;
    assert_eq!(client.get(1).await, "a");
    proxy.hold().unwrap();
    client.send("bc").await;
    let mut new = Client::of(&proxy).await;
    new.send("d").await;
    proxy.until(|seen| seen.accepted == 2).await.unwrap();
    assert_eq!(proxy.seen().to_server, 1);
    proxy.pass().unwrap();
    assert_eq!(client.get(2).await, "bc");
    assert_eq!(new.get(1).await, "d");
}

#[tokio::test]
async fn half_open_connections_swallow_and_close_nothing() {
    let proxy = echo().await;
    let mut old = Client::of(&proxy).await;
    old.send("1").await;
    assert_eq!(old.get(1).await, "1");
    proxy.half_open().unwrap();
    let mut new = Client::of(&proxy).await;
    old.send("lost").await;
    new.send("lost, too").await;
    let seen = proxy.until(|seen| seen.swallowed == 13).await.unwrap();
    assert_eq!((seen.open, seen.to_server), (2, 1));
    // A client that goes away is not noticed either.
    drop(new);
    proxy.pass().unwrap();
    old.send("found").await;
    assert_eq!(old.get(5).await, "found");
}

#[tokio::test]
async fn abandoned_connections_stay_dead_and_new_ones_live() {
    let proxy = echo().await;
    let mut old = Client::of(&proxy).await;
    old.send("1").await;
    assert_eq!(old.get(1).await, "1");
    proxy.half_open().unwrap();
    proxy.abandon().unwrap();
    proxy.pass().unwrap();
    old.send("lost").await;
    let seen = proxy.until(|seen| seen.swallowed == 4).await.unwrap();
    assert_eq!((seen.open, seen.to_server), (1, 1));
    let mut new = Client::of(&proxy).await;
    new.send("found").await;
    assert_eq!(new.get(5).await, "found");
    // Only an end that is made here reaches it.
    proxy.cut(Ending::Reset).unwrap();
    assert_eq!(old.ending().await, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_mute_server_hears_everything() {
    let proxy = echo().await;
    let mut client = Client::of(&proxy).await;
    proxy.mute().unwrap();
    client.send("heard").await;
    let seen = proxy.until(|seen| seen.swallowed == 5).await.unwrap();
    assert_eq!((seen.to_server, seen.from_server, seen.to_clients), (5, 5, 0));
    proxy.pass().unwrap();
    client.send("said").await;
    assert_eq!(client.get(4).await, "said");
}

#[tokio::test]
async fn a_trickle_is_as_slow_as_it_is_told() {
    let proxy = echo().await;
    let mut client = Client::of(&proxy).await;
    let every = Duration::from_millis(20);
    proxy.trickle(2, every).unwrap();
    let begun = Instant::now();
    client.send("123456789").await;
    assert_eq!(client.get(9).await, "123456789");
    assert!(begun.elapsed() >= 4 * every, "{:?}", begun.elapsed());
    // Requests are not slowed, and what waits comes at once when the rule ends.
    proxy.trickle(1, Duration::from_secs(3600)).unwrap();
    client.send("abcdef").await;
    proxy.until(|seen| seen.from_server == 15).await.unwrap();
    proxy.pass().unwrap();
    assert_eq!(client.get(6).await, "abcdef");
}

#[tokio::test]
async fn a_cut_ends_old_and_new_connections_in_the_way_it_is_told() {
    let proxy = echo().await;
    for (ending, read) in
        [(Ending::Reset, Err(ErrorKind::ConnectionReset)), (Ending::Finish, Ok(0))]
    {
        let mut old = Client::of(&proxy).await;
        old.send("1").await;
        assert_eq!(old.get(1).await, "1");
        proxy.cut(ending).unwrap();
        assert_eq!(old.ending().await, read);
        assert_eq!(met_by(&proxy).await, read);
        proxy.pass().unwrap();
        let mut after = Client::of(&proxy).await;
        after.send("2").await;
        assert_eq!(after.get(1).await, "2");
    }
}

#[tokio::test]
async fn a_cut_that_is_over_at_once_still_cuts() {
    let proxy = echo().await;
    let mut old = Client::of(&proxy).await;
    old.send("1").await;
    assert_eq!(old.get(1).await, "1");
    proxy.cut(Ending::Reset).unwrap();
    proxy.pass().unwrap();
    assert_eq!(old.ending().await, Err(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_refusing_port_is_the_same_port_afterwards() {
    let proxy = echo().await;
    let mut old = Client::of(&proxy).await;
    old.send("1").await;
    assert_eq!(old.get(1).await, "1");
    for _ in 0..3 {
        proxy.refuse().unwrap();
        let refused = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.pass().unwrap();
        let mut new = Client::of(&proxy).await;
        new.send("2").await;
        assert_eq!(new.get(1).await, "2");
    }
    assert_eq!(old.ending().await, Err(ErrorKind::ConnectionReset));
}

#[test]
fn tests_that_are_not_asynchronous_can_wait_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let proxy = runtime.block_on(echo());
    let client = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    assert_eq!(proxy.wait_until(|seen| seen.open == 1).unwrap().accepted, 1);
    drop(client);
    proxy.wait_until(|seen| seen.open == 0).unwrap();
}
