//! Reads a store's URL from the left to the right.
//!
//! A message quotes a piece only where it cannot be part of a user or a password, not even of one
//! that was not encoded or that lost its `@`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use super::{RedisAddress, RedisUrl, Secret, StoreUrl, StoreUrlError};
use crate::limits::{
    DEFAULT_PORT, MAX_DATABASE, MAX_HOST_BYTES, MAX_SOCKET_PATH_BYTES, MAX_URL_BYTES,
};
use crate::nearest::nearest;
use crate::store_url::several;

/// What a URL can begin with.
const SCHEMES: &[&str] = &[
    "memory",
    "redis",
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

/// What other programs call these stores.
const ALIASES: &[(&str, &str)] = &[
    ("valkey", "redis"),
    ("valkeys", "rediss"),
    ("tcp", "redis"),
    ("tls", "rediss"),
    ("unix", "redis+unix"),
    ("redis-socket", "redis+unix"),
    ("sentinel", "redis+sentinel"),
    ("redis-sentinel", "redis+sentinel"),
    ("rediss-sentinel", "rediss+sentinel"),
    ("cluster", "redis+cluster"),
    ("redis-cluster", "redis+cluster"),
    ("rediss-cluster", "rediss+cluster"),
];

/// What the query of a socket's URL can have.
const PARAMETERS: &[&str] = &["db", "user", "pass"];

/// The longest piece of a URL that is quoted: a longer one is no slip of the finger.
const MAX_QUOTED: usize = 20;

/// What a store's URL looks like.
pub(crate) const EXPECTED: &str = "`memory://`, `redis://host:port/db`, `rediss://host:port/db`, \
                                   `redis+unix:///path`, `redis+sentinel://h1,h2/master/db` or \
                                   `redis+cluster://h1,h2`";

const EXPECTED_PLACE: &str = "a host and a port such as `redis://127.0.0.1:6379`";
const EXPECTED_SOCKET: &str = "a path such as `redis+unix:///run/redis.sock`";

pub(super) type Outcome<T> = Result<T, StoreUrlError>;

impl StoreUrlError {
    pub(super) fn new(problem: &'static str, expected: impl Into<String>) -> Self {
        let expected = expected.into();
        Self { problem: problem.to_owned(), unquoted: problem, expected, help: None }
    }

    /// The same in words that quote a piece, if it is harmless.
    pub(super) fn quoting(mut self, piece: &str, problem: impl Fn(&str) -> String) -> Self {
        let harmless = |b: u8| b.is_ascii_alphanumeric() || b"+.-_".contains(&b);
        if (1..=MAX_QUOTED).contains(&piece.len()) && piece.bytes().all(harmless) {
            self.problem = problem(piece);
        }
        self
    }

    /// Advice, which never repeats a piece of the URL.
    pub(super) fn advising(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

pub(super) fn parse(text: &str) -> Outcome<StoreUrl> {
    if text.is_empty() {
        return Err(StoreUrlError::new("is empty", EXPECTED));
    }
    if text.len() > MAX_URL_BYTES {
        return Err(StoreUrlError::new("is too long", format!("at most {MAX_URL_BYTES} bytes")));
    }
    if text.contains(char::is_whitespace) {
        let error = StoreUrlError::new("has a space in it", EXPECTED);
        return Err(error.advising("remove it, or write `%20` in a user, password or path"));
    }
    if text.contains(char::is_control) {
        let error = StoreUrlError::new("has a control character in it", EXPECTED);
        return Err(error.advising("remove it; an editor may not show it"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        let mut error = StoreUrlError::new("has no `://` in it", EXPECTED);
        error.help = meant(text.split(':').next().unwrap_or_default());
        return Err(error);
    };
    match scheme {
        "memory" if rest.is_empty() => Ok(StoreUrl::Memory),
        "memory" => Err(StoreUrlError::new("has something after `memory://`", "`memory://`")),
        "redis" | "rediss" => tcp(rest, scheme == "rediss").map(StoreUrl::Redis),
        "redis+unix" => unix(rest).map(StoreUrl::Redis),
        "redis+sentinel" | "rediss+sentinel" => {
            several::sentinel(rest, scheme.starts_with("rediss")).map(StoreUrl::Redis)
        }
        "redis+cluster" | "rediss+cluster" => {
            several::cluster(rest, scheme.starts_with("rediss")).map(StoreUrl::Redis)
        }
        _ => Err(unknown(scheme)),
    }
}

fn unknown(scheme: &str) -> StoreUrlError {
    let error = StoreUrlError::new("begins with a scheme that is not known", EXPECTED);
    let mut error =
        error.quoting(scheme, |scheme| format!("begins with `{scheme}://`, which is not known"));
    error.help = meant(scheme);
    error
}

/// The advice to write a scheme that is known.
fn meant(scheme: &str) -> Option<String> {
    let scheme = scheme.to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == scheme).map(|(_, known)| *known);
    let near = || nearest(&scheme, SCHEMES.iter().copied());
    let known = alias.or_else(near)?;
    Some(format!("did you mean `{known}://`?"))
}

/// What stands between the scheme and the path.
pub(super) struct Authority<'t> {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    /// A host and a port, or several.
    pub(super) place: &'t str,
}

/// Takes `[user[:password]@]place` from the front; the path and the query of what follows.
pub(super) fn authority(rest: &str) -> Outcome<(Authority<'_>, &str, &str)> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        let expected = "a user and a password in which these are encoded";
        let error = StoreUrlError::new("has an `@` after a `/`, a `?` or a `#`", expected);
        return Err(
            error.advising("write `/` as `%2F`, `?` as `%3F` and `#` as `%23` before the `@`")
        );
    }
    let (user, password, place) = match authority.rsplit_once('@') {
        Some((who, place)) => {
            let (user, password) = who.split_once(':').unwrap_or((who, ""));
            (decode(user)?, decode(password)?, place)
        }
        None => (String::new(), String::new(), authority),
    };
    let (path, query) = split_tail(tail)?;
    let (user, password) = (filled(user), filled(password).map(Secret::new));
    Ok((Authority { user, password, place }, path, query))
}

/// `[user[:password]@]host[:port][/db]`
fn tcp(rest: &str, tls: bool) -> Outcome<RedisUrl> {
    let (Authority { user, password, place }, path, query) = authority(rest)?;
    if place.contains(',') {
        let error = StoreUrlError::new("names several hosts", EXPECTED_PLACE);
        return Err(error.advising(
            "sentinels are named as `redis+sentinel://h1,h2/mymaster`, nodes of a cluster as \
             `redis+cluster://h1,h2`",
        ));
    }
    let (host, port) = place_of(place, DEFAULT_PORT)?;
    let database = database(path.strip_prefix('/').unwrap_or_default())?;
    if let Some(parameter) = query.split('&').find(|parameter| !parameter.is_empty()) {
        let expected = "no parameters: a database stands after a `/`, as in `redis://host:port/2`";
        return Err(unknown_parameter(parameter, expected, &[]));
    }
    Ok(RedisUrl { address: RedisAddress::Tcp { host, port, tls }, user, password, database })
}

/// `/path/to.sock[?db=N&user=U&pass=P]`
fn unix(rest: &str) -> Outcome<RedisUrl> {
    let (path, query) = split_tail(rest)?;
    if !path.starts_with('/') && !path.is_empty() {
        let problem = "has something between `redis+unix://` and the path";
        let error = StoreUrlError::new(problem, EXPECTED_SOCKET);
        return Err(match path.contains('@') {
            true => error.advising("a user and a password stand after the path: `?user=…&pass=…`"),
            false => error.advising("a path begins with a `/`, so that there are three of them"),
        });
    }
    let path = decode(path)?;
    if path.is_empty() || path.ends_with('/') {
        return Err(StoreUrlError::new("names no socket", EXPECTED_SOCKET));
    }
    if path.contains(char::is_control) {
        let problem = "has a control character in its path";
        return Err(StoreUrlError::new(problem, EXPECTED_SOCKET));
    }
    if path.len() > MAX_SOCKET_PATH_BYTES {
        let expected = format!("at most {MAX_SOCKET_PATH_BYTES} bytes, which is what sockets take");
        return Err(StoreUrlError::new("has a path that is too long", expected));
    }
    let (mut db, mut user, mut pass) = (None, None, None);
    for parameter in query.split('&').filter(|_| !query.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let slot = match name {
            "db" => &mut db,
            "user" => &mut user,
            "pass" => &mut pass,
            // It may be the rest of a password that has an `&`.
            _ if pass.is_some() || user.is_some() => {
                return Err(unknown_parameter("", expected_parameters(), &[]));
            }
            _ => return Err(unknown_parameter(parameter, expected_parameters(), PARAMETERS)),
        };
        if !parameter.contains('=') {
            return Err(StoreUrlError::new("has a parameter without a `=`", expected_parameters()));
        }
        if slot.replace(value).is_some() {
            return Err(StoreUrlError::new("has a parameter twice", expected_parameters()));
        }
    }
    Ok(RedisUrl {
        address: RedisAddress::Unix { path: PathBuf::from(path) },
        user: filled(decode(user.unwrap_or_default())?),
        password: filled(decode(pass.unwrap_or_default())?).map(Secret::new),
        database: database(db.unwrap_or_default())?,
    })
}

fn expected_parameters() -> &'static str {
    "`?db=N`, `user=U` and `pass=P`, with `&` between them"
}

pub(super) fn unknown_parameter(
    parameter: &str,
    expected: &str,
    known: &[&'static str],
) -> StoreUrlError {
    let (name, _) = parameter.split_once('=').unwrap_or_default();
    let mut error = StoreUrlError::new("has a parameter that is not known", expected)
        .quoting(name, |name| format!("has the parameter `{name}`, which is not known"));
    let near = nearest(name, known.iter().copied());
    error.help = near.map(|near| format!("did you mean `{near}`?"));
    error
}

/// The path and the query of what follows a place.
fn split_tail(tail: &str) -> Outcome<(&str, &str)> {
    if tail.contains('#') {
        let error = StoreUrlError::new("has a `#` in it", EXPECTED);
        return Err(error.advising("write it as `%23` in a user, password or path"));
    }
    Ok(tail.split_once('?').unwrap_or((tail, "")))
}

pub(super) fn place_of(place: &str, default_port: u16) -> Outcome<(String, u16)> {
    if let Some(rest) = place.strip_prefix('[') {
        let bad = || StoreUrlError::new("has brackets that hold no IPv6 address", "`[::1]:6379`");
        let (address, after) = rest.split_once(']').ok_or_else(bad)?;
        let host = address.parse::<Ipv6Addr>().map_err(|_| bad())?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host.to_string(), port_of(port)?)),
            None if after.is_empty() => Ok((host.to_string(), default_port)),
            None => Err(StoreUrlError::new("has something after its `]`", "`[::1]:6379`")),
        };
    }
    let (host, port) = match place.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            let error = StoreUrlError::new("has several `:` in its host", EXPECTED_PLACE);
            return Err(error.advising("an IPv6 address stands in brackets: `[::1]:6379`"));
        }
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    check_host(host)?;
    Ok((host.to_owned(), port.map_or(Ok(default_port), port_of)?))
}

fn check_host(host: &str) -> Outcome<()> {
    if host.is_empty() {
        return Err(StoreUrlError::new("has no host", EXPECTED_PLACE));
    }
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    if host.chars().all(digits) && host.parse::<Ipv4Addr>().is_err() {
        return Err(StoreUrlError::new("has a host that is no IPv4 address", EXPECTED_PLACE));
    }
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(usual);
    // A dot at the end says that the name is whole.
    let labels = host.strip_suffix('.').unwrap_or(host);
    if host.len() > MAX_HOST_BYTES || !labels.split('.').all(is_label) {
        let expected = "a name of A-Z a-z 0-9 - _ between dots, or an address";
        return Err(StoreUrlError::new("has a host that cannot be one", expected));
    }
    Ok(())
}

fn port_of(text: &str) -> Outcome<u16> {
    let expected = || format!("a port from 1 to {}", u16::MAX);
    if text.is_empty() {
        return Err(StoreUrlError::new("has no port after its `:`", expected()));
    }
    // It may be a password whose `@host` is missing, so it is not quoted.
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        let error = StoreUrlError::new("has a port that is not a number", expected());
        return Err(
            error.advising("a user and a password stand before an `@`: `user:password@host`")
        );
    }
    text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
        let shown = if text.len() <= 5 { text } else { "" };
        StoreUrlError::new("has a port that is out of range", expected())
            .quoting(shown, |port| format!("has the port `{port}`, which is out of range"))
    })
}

pub(super) fn database(text: &str) -> Outcome<u16> {
    let expected = || format!("a database from 0 to {MAX_DATABASE}");
    if text.is_empty() {
        return Ok(0);
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(StoreUrlError::new("has a database that is not a number", expected())
            .quoting(text, |text| format!("has the database `{text}`, which is not a number")));
    }
    text.parse().map_err(|_| {
        StoreUrlError::new("has a database that is out of range", expected())
            .quoting(text, |text| format!("has the database `{text}`, which is out of range"))
    })
}

/// The text with every `%XX` as the byte that it stands for.
pub(super) fn decode(text: &str) -> Outcome<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let byte = match after {
            [high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let Some((high, low)) = byte else {
            let error = StoreUrlError::new("has a `%` without two hex digits after it", "`%XX`");
            return Err(error.advising("write `%25` for the character itself"));
        };
        bytes.push(high << 4 | low);
        rest = &after[2..];
    }
    String::from_utf8(bytes)
        .map_err(|_| StoreUrlError::new("has `%XX` that stand for no text", "the bytes of UTF-8"))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(super) fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
