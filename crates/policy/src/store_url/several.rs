//! Reads the URLs of stores that several servers are: sentinels with their master, and clusters.

use super::parse::{
    Authority, Outcome, authority, database, decode, filled, place_of, unknown_parameter,
};
use super::{HostPort, RedisAddress, RedisUrl, Secret, StoreUrlError};
use crate::limits::{DEFAULT_PORT, MAX_MASTER_BYTES, MAX_SERVERS, SENTINEL_PORT};

const EXPECTED_SENTINEL: &str = "`redis+sentinel://h1,h2:26379/mymaster/0`: the sentinels, the \
                                 name of the master, and the database if it is not 0";
const EXPECTED_CLUSTER: &str = "some of the nodes, as in `redis+cluster://a:7000,b:7000`";
const EXPECTED_PARAMETERS: &str =
    "`?sentinel_user=U` and `sentinel_password=P`, with `&` between them";

const PARAMETERS: [&str; 2] = ["sentinel_user", "sentinel_password"];

/// `[user[:password]@]h1[:port][,h2…]/master[/db][?sentinel_user=U&sentinel_password=P]`
pub(super) fn sentinel(rest: &str, tls: bool) -> Outcome<RedisUrl> {
    let (Authority { user, password, place }, path, query) = authority(rest)?;
    let sentinels = places_of(place, SENTINEL_PORT)?;
    let path = path.strip_prefix('/').unwrap_or_default();
    let (master, number) = path.split_once('/').unwrap_or((path, ""));
    let master = master_of(master)?;
    let database = database(number)?;
    let (sentinel_user, sentinel_password) = sentinel_login(query)?;
    let address = RedisAddress::Sentinel {
        sentinels,
        master,
        user: sentinel_user,
        password: sentinel_password,
        tls,
    };
    Ok(RedisUrl { address, user, password, database })
}

/// `[user[:password]@]a[:port][,b…]`
pub(super) fn cluster(rest: &str, tls: bool) -> Outcome<RedisUrl> {
    let (Authority { user, password, place }, path, query) = authority(rest)?;
    let nodes = places_of(place, DEFAULT_PORT)?;
    if !matches!(path, "" | "/" | "/0") {
        let error = StoreUrlError::new("has something after its nodes", EXPECTED_CLUSTER);
        return Err(error.advising("a cluster has no databases but 0"));
    }
    if let Some(parameter) = query.split('&').find(|parameter| !parameter.is_empty()) {
        return Err(unknown_parameter(parameter, "no parameters", &[]));
    }
    Ok(RedisUrl { address: RedisAddress::Cluster { nodes, tls }, user, password, database: 0 })
}

fn places_of(text: &str, default_port: u16) -> Outcome<Vec<HostPort>> {
    let mut places: Vec<HostPort> = Vec::new();
    for place in text.split(',') {
        let (host, port) = place_of(place, default_port)?;
        let place = HostPort { host, port };
        if places.contains(&place) {
            return Err(StoreUrlError::new("names a host and port twice", "each of them once"));
        }
        if places.len() == MAX_SERVERS {
            let expected = format!("at most {MAX_SERVERS}: the others are found by these");
            return Err(StoreUrlError::new("names too many hosts", expected));
        }
        places.push(place);
    }
    Ok(places)
}

fn master_of(text: &str) -> Outcome<String> {
    if text.is_empty() {
        let error = StoreUrlError::new("does not name the master", EXPECTED_SENTINEL);
        return Err(error.advising("it is what `sentinel monitor` in the sentinels' file calls it"));
    }
    let name = decode(text)?;
    // What a sentinel's file can have.
    let usual = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.len() > MAX_MASTER_BYTES || !name.bytes().all(usual) {
        let expected = format!("1 to {MAX_MASTER_BYTES} of A-Z a-z 0-9 - _ .");
        return Err(StoreUrlError::new("has a name of a master that cannot be one", expected));
    }
    Ok(name)
}

/// Who we are to the sentinels.
fn sentinel_login(query: &str) -> Outcome<(Option<Secret>, Option<Secret>)> {
    let (mut user, mut password) = (None, None);
    for parameter in query.split('&').filter(|_| !query.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let slot = match name {
            "sentinel_user" => &mut user,
            "sentinel_password" => &mut password,
            // It may be the rest of a password that has an `&`.
            _ if user.is_some() || password.is_some() => {
                return Err(unknown_parameter("", EXPECTED_PARAMETERS, &[]));
            }
            _ => return Err(unknown_parameter(parameter, EXPECTED_PARAMETERS, &PARAMETERS)),
        };
        if !parameter.contains('=') {
            return Err(StoreUrlError::new("has a parameter without a `=`", EXPECTED_PARAMETERS));
        }
        if slot.replace(value).is_some() {
            return Err(StoreUrlError::new("has a parameter twice", EXPECTED_PARAMETERS));
        }
    }
    let read = |text: Option<&str>| Ok(filled(decode(text.unwrap_or_default())?).map(Secret::new));
    Ok((read(user)?, read(password)?))
}
