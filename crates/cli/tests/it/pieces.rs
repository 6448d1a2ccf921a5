//! Checks whose bodies come in pieces: each is decided once, when all of it is there.

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

use tollkeeper_testkit::moment::until;

use crate::kit::{PATIENCE, Reply, Service, read_reply, request};

const CHECK: &str = "{\"key\":\"alice\",\"limit\":\"9/h\"}";

fn service(name: &str) -> Service {
    Service::start(name, "rules: { api: { limit: 3/h } }")
}

/// The bytes of a check.
fn check(body: &str) -> Vec<u8> {
    request("POST", "/v1/check", &[], body.as_bytes())
}

/// What is left to the key of [`CHECK`], of which this takes nothing.
fn left(service: &Service) -> u64 {
    let look = CHECK.replace('}', ",\"cost\":0}");
    remaining(&service.post("/v1/check", &look))
}

fn remaining(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["remaining"].as_u64().unwrap()
}

fn connect(service: &Service) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(service.address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    BufReader::new(stream)
}

/// Sends bytes, and returns when the service has read them: they have been acknowledged, so they
/// are at its end of the connection, and there they no longer wait to be read.
fn send_and_see_read(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).unwrap();
    let (ours, theirs) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    until(PATIENCE, || (waiting(ours, theirs)?.unacknowledged == 0).then_some(())).unwrap();
    until(PATIENCE, || (waiting(theirs, ours)?.unread == 0).then_some(())).unwrap();
}

/// What the kernel holds at one end of a connection, in bytes.
struct Waiting {
    unacknowledged: u64,
    unread: u64,
}

/// What waits at the end of a connection that is at `local`.
fn waiting(local: SocketAddr, remote: SocketAddr) -> Option<Waiting> {
    let ends = [spelled(local), spelled(remote)];
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (unacknowledged, unread) = columns.get(4)?.split_once(':')?;
        let bytes = |text| u64::from_str_radix(text, 16).ok();
        let is_ours = columns[1..3] == ends;
        is_ours
            .then_some(Waiting { unacknowledged: bytes(unacknowledged)?, unread: bytes(unread)? })
    })
}

/// An address as the kernel's table spells it.
fn spelled(address: SocketAddr) -> String {
    let IpAddr::V4(ip) = address.ip() else { panic!("{address} is in another table") };
    format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port())
}

#[test]
fn a_body_in_two_pieces_is_one_check() {
    let service = service("two-pieces");
    let mut connection = connect(&service);
    let whole = check(CHECK);
    // Nothing of the body comes with the head, half of it, all but its last byte.
    for (nth, late) in [CHECK.len(), CHECK.len() / 2, 1].into_iter().enumerate() {
        let (first, rest) = whole.split_at(whole.len() - late);
        send_and_see_read(connection.get_mut(), first);
        assert_eq!(left(&service), 9 - nth as u64, "half a check takes nothing");
        connection.get_mut().write_all(rest).unwrap();
        assert_eq!(remaining(&read_reply(&mut connection)), 8 - nth as u64);
    }
}

/// The first piece is a check as it stands. It was not all that was sent.
#[test]
fn a_piece_that_could_be_a_check_is_not_taken_for_one() {
    let service = service("first-piece");
    let mut connection = connect(&service);
    for (tail, status, after) in [(" ", 200, 8), ("x", 400, 8), ("\n}", 400, 8), ("\t\n", 200, 7)] {
        let whole = check(&format!("{CHECK}{tail}"));
        let (first, rest) = whole.split_at(whole.len() - tail.len());
        send_and_see_read(connection.get_mut(), first);
        connection.get_mut().write_all(rest).unwrap();
        let reply = read_reply(&mut connection);
        assert_eq!(reply.status, status, "{tail:?}: {reply:?}");
        assert_eq!(left(&service), after, "{tail:?}");
    }
}

#[test]
fn a_body_in_many_chunks_is_one_check() {
    let service = service("chunks");
    let mut connection = connect(&service);
    let head = "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let byte_by_byte: String = CHECK.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    let all = format!("{:x};note=whole\r\n{CHECK}\r\n", CHECK.len());
    let requests =
        [format!("{head}{byte_by_byte}0\r\n\r\n"), format!("{head}{all}0\r\nx-trailer: a\r\n\r\n")];
    for (nth, request) in requests.iter().enumerate() {
        connection.get_mut().write_all(request.as_bytes()).unwrap();
        assert_eq!(remaining(&read_reply(&mut connection)), 8 - nth as u64);
    }
    // And cut where no chunk ends.
    send_and_see_read(connection.get_mut(), head.as_bytes());
    for piece in byte_by_byte.as_bytes().chunks(40) {
        send_and_see_read(connection.get_mut(), piece);
    }
    assert_eq!(left(&service), 7, "a body that has not ended takes nothing");
    connection.get_mut().write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(remaining(&read_reply(&mut connection)), 6);
}

/// What came could be a check, but more was announced, and then the client was gone.
#[test]
fn a_body_that_breaks_off_takes_nothing() {
    let service = service("broken-off");
    let longer = check(&format!("{CHECK} "));
    for missing in [1, CHECK.len() / 2, CHECK.len()] {
        let mut connection = connect(&service);
        let stream = connection.get_mut();
        stream.write_all(&longer[..longer.len() - missing]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let reply = read_reply(&mut connection);
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(reply.json()["detail"], "the body broke off");
        assert_eq!(connection.read(&mut [0]).unwrap(), 0, "it ends the connection too");
        assert_eq!(left(&service), 9, "{missing} missing");
    }
}

#[test]
fn two_checks_in_one_segment_are_two() {
    let service = service("pipelined");
    let mut connection = connect(&service);
    connection.get_mut().write_all(&[check(CHECK), check(CHECK)].concat()).unwrap();
    let replies = [read_reply(&mut connection), read_reply(&mut connection)];
    assert_eq!(replies.each_ref().map(remaining), [8, 7]);

    // One and a half, then the other half and another one.
    let three = [check(CHECK), check("{"), check(CHECK)].concat();
    let (first, rest) = three.split_at(check(CHECK).len() * 3 / 2);
    send_and_see_read(connection.get_mut(), first);
    assert_eq!(remaining(&read_reply(&mut connection)), 6);
    connection.get_mut().write_all(rest).unwrap();
    assert_eq!(read_reply(&mut connection).status, 400);
    assert_eq!(remaining(&read_reply(&mut connection)), 5);
    assert_eq!(connection.buffer(), b"", "nothing follows");
}
