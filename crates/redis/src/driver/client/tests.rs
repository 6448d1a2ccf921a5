//! What a server may say unasked.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";

/// Of a megabyte, more or less.
fn message() -> Vec<u8> {
    let text = "x".repeat(1 << 20);
    format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{text}\r\n", text.len()).into_bytes()
}

/// One who listens, and the server's end of it.
async fn listening() -> (Ear, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place =
        HostPort { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let access = Access {
        user: None,
        password: None,
        database: 0,
        trust: None,
        patience: Duration::from_secs(60),
    };
    let client = access.client(&place, Wanted::Single).unwrap();
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        stream.write_all(SUBSCRIBED).await.unwrap();
        stream
    };
    let (ear, stream) = tokio::join!(client.listen("c"), serving);
    (ear.unwrap(), stream)
}

/// For each message that was heard it might say 16 MB more, all of which were kept: a server that said as much as
/// it might could fill the memory.
#[tokio::test]
async fn who_says_more_than_is_heard_is_not_listened_to() {
    let (mut ear, mut stream) = listening().await;
    let message = message();
    let (mut said, mut heard) = (0, 0);
    for _ in 0..12 {
        // Some of it still lies in the sockets when one of it is heard, and comes with what is said then.
        for _ in 0..8 {
            if stream.write_all(&message).await.is_err() {
                assert!(said < 60, "{said} messages of a megabyte for {heard} that were heard");
                return;
            }
            said += 1;
        }
        if ear.hear().await.is_none() {
            return;
        }
        heard += 1;
    }
    panic!("{said} messages of a megabyte were kept for {heard} that were heard");
}

#[tokio::test]
async fn who_is_kept_up_with_may_go_on() {
    let (mut ear, mut stream) = listening().await;
    let message = message();
    for _ in 0..6 {
        let saying = async {
            for _ in 0..10 {
                stream.write_all(&message).await.unwrap();
            }
        };
        let hearing = async {
            for _ in 0..10 {
                assert_eq!(ear.hear().await.unwrap().len(), 1 << 20);
            }
        };
        tokio::join!(saying, hearing);
    }
}
