//! The URL of a store: what is read, what is refused and how, and what is never shown.

use std::path::PathBuf;

use proptest::prelude::*;
use tollkeeper_policy::limits::{
    MAX_HOST_BYTES, MAX_MASTER_BYTES, MAX_SERVERS, MAX_SOCKET_PATH_BYTES, MAX_URL_BYTES,
};
use tollkeeper_policy::{HostPort, RedisAddress, RedisUrl, Secret, StoreUrl};

fn tcp(host: &str, port: u16) -> RedisUrl {
    let address = RedisAddress::Tcp { host: host.to_owned(), port, tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

fn unix(path: &str) -> RedisUrl {
    RedisUrl { address: RedisAddress::Unix { path: path.into() }, ..RedisUrl::default() }
}

fn places(list: &[(&str, u16)]) -> Vec<HostPort> {
    list.iter().map(|(host, port)| HostPort { host: (*host).to_owned(), port: *port }).collect()
}

fn sentinel(list: &[(&str, u16)], master: &str) -> RedisUrl {
    let (sentinels, master) = (places(list), master.to_owned());
    let address =
        RedisAddress::Sentinel { sentinels, master, user: None, password: None, tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

fn cluster(list: &[(&str, u16)]) -> RedisUrl {
    let address = RedisAddress::Cluster { nodes: places(list), tls: false };
    RedisUrl { address, ..RedisUrl::default() }
}

fn login(server: RedisUrl, user: &str, password: &str) -> RedisUrl {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    RedisUrl { user: filled(user), password: filled(password).map(Secret::new), ..server }
}

fn read(text: &str) -> RedisUrl {
    match text.parse() {
        Ok(StoreUrl::Redis(server)) => server,
        other => panic!("{text}: {other:?}"),
    }
}

fn refused(text: &str) -> String {
    text.parse::<StoreUrl>().expect_err(text).to_string()
}

#[test]
fn urls_are_read() {
    assert_eq!("memory://".parse(), Ok(StoreUrl::Memory));
    assert_eq!(StoreUrl::default(), StoreUrl::Memory);
    for (text, server) in [
        ("redis://localhost", tcp("localhost", 6379)),
        ("redis://127.0.0.1:6379", RedisUrl::default()),
        ("redis://127.0.0.1:6379/", RedisUrl::default()),
        ("redis://127.0.0.1:6379/0?", RedisUrl::default()),
        ("redis://my_redis-1.example.com.:1/2", {
            RedisUrl { database: 2, ..tcp("my_redis-1.example.com.", 1) }
        }),
        ("redis://h:65535/65535", RedisUrl { database: 65535, ..tcp("h", 65535) }),
        ("redis://[::1]", tcp("::1", 6379)),
        ("redis://[2001:DB8:0::1]:7000/3", RedisUrl { database: 3, ..tcp("2001:db8::1", 7000) }),
        ("redis://[::ffff:10.0.0.1]:7", tcp("::ffff:10.0.0.1", 7)),
        ("redis://app@h", login(tcp("h", 6379), "app", "")),
        ("redis://app:@h", login(tcp("h", 6379), "app", "")),
        ("redis://app:pw@h:1/2", RedisUrl { database: 2, ..login(tcp("h", 1), "app", "pw") }),
        ("redis://:pw@h", login(tcp("h", 6379), "", "pw")),
        ("redis://@h", tcp("h", 6379)),
        ("redis://:@h", tcp("h", 6379)),
        ("redis://:a:b@c@h", login(tcp("h", 6379), "", "a:b@c")),
        ("redis://a%3Ab:p%40%2f%3F%23%25%20@h", login(tcp("h", 6379), "a:b", "p@/?#% ")),
        ("redis://ä:%C3%B6+!@h", login(tcp("h", 6379), "ä", "ö+!")),
        ("redis+unix:///run/redis.sock", unix("/run/redis.sock")),
        ("redis+unix:///a%20b%3F@x.sock?", unix("/a b?@x.sock")),
        ("redis+unix:///r?db=7", RedisUrl { database: 7, ..unix("/r") }),
        (
            "redis+unix:///r?pass=p%26w=1@/&user=u&db=2",
            RedisUrl { database: 2, ..login(unix("/r"), "u", "p&w=1@/") },
        ),
        ("redis+unix:///r?db=&user=&pass=", unix("/r")),
        ("redis+sentinel://h/mymaster", sentinel(&[("h", 26379)], "mymaster")),
        ("redis+sentinel://h/my-master_1.a/", sentinel(&[("h", 26379)], "my-master_1.a")),
        (
            "redis+sentinel://app:p%2Cw@h1,10.0.0.2:7,[::1],[::1]:8/m/3?",
            RedisUrl {
                database: 3,
                ..login(
                    sentinel(&[("h1", 26379), ("10.0.0.2", 7), ("::1", 26379), ("::1", 8)], "m"),
                    "app",
                    "p,w",
                )
            },
        ),
        ("redis+cluster://h", cluster(&[("h", 6379)])),
        ("redis+cluster://a:7000,b:7000/0", cluster(&[("a", 7000), ("b", 7000)])),
        ("redis+cluster://a:7000,a:7001/", cluster(&[("a", 7000), ("a", 7001)])),
        ("redis+cluster://:p,w@[::1]:7000?", login(cluster(&[("::1", 7000)]), "", "p,w")),
    ] {
        assert_eq!(read(text), server, "{text}");
        assert!(!server.is_tls());
    }
}

#[test]
fn two_letters_s_mean_tls() {
    let server = read("rediss://app:pw@h:1/2");
    assert!(server.is_tls());
    assert_eq!(server.address, RedisAddress::Tcp { host: "h".to_owned(), port: 1, tls: true });
    assert_eq!(server.password.as_ref().map(Secret::expose), Some("pw"));
    assert_eq!((server.user.as_deref(), server.database), (Some("app"), 2));
}

#[test]
fn several_servers_with_tls_and_a_login_of_the_sentinels() {
    let server = read("rediss+sentinel://:pw@h/m?sentinel_password=a%26b&sentinel_user=s");
    assert!(server.is_tls());
    let (user, password) = (Some(Secret::new("s")), Some(Secret::new("a&b")));
    let (sentinels, master) = (places(&[("h", 26379)]), "m".to_owned());
    let address = RedisAddress::Sentinel { sentinels, master, user, password, tls: true };
    assert_eq!(server.address, address);
    let shown = format!("{server:?} {}", server.place());
    assert!(!shown.contains("a&b") && !shown.contains("\"s\""), "{shown}");
    let server = read("redis+sentinel://h/m?sentinel_user=&sentinel_password=");
    assert_eq!(server, sentinel(&[("h", 26379)], "m"));
    assert!(read("rediss+cluster://h").is_tls() && !read("redis+cluster://h").is_tls());
}

#[test]
fn a_place_is_for_people() {
    for (text, place) in [
        ("redis://h", "h:6379"),
        ("rediss://a:b@127.0.0.1:6379/0", "127.0.0.1:6379"),
        ("redis://a:b@127.0.0.1/2", "127.0.0.1:6379/2"),
        ("redis://a:b@[::1]:7/2", "[::1]:7/2"),
        ("redis+unix:///run/redis.sock?user=a&pass=b", "/run/redis.sock"),
        ("redis+unix:///run/redis.sock?db=2&user=a&pass=b", "/run/redis.sock?db=2"),
        ("redis+sentinel://a:b@h1,[::1]:7/m", "m of [::1]:7,h1:26379"),
        ("redis+sentinel://a:b@h1/m/2", "m/2 of h1:26379"),
        ("redis+cluster://a:b@h1,h2:7", "the cluster of h1:6379,h2:7"),
    ] {
        assert_eq!(read(text).place(), place, "{text}");
    }
}

/// `hunter` is part of a user or a password in all of them.
const BROKEN: &[&str] = &[
    "",
    "redis",
    "memory",
    "localhost:6379",
    "redis:/localhost",
    ":hunter@localhost:6379",
    "memory://hunter",
    "reddis://:hunter@h",
    "REDIS://:hunter@h",
    "valkey://:hunter@h",
    "unix:///run/redis.sock",
    "http://h",
    "hunter@redis://h",
    "redis-sentinel://:hunter@h1,h2/mymaster/0",
    "redis-cluster://:hunter@h1,h2",
    "redis+sentinal://h1/mymaster",
    "redis+sentinel://",
    "redis+sentinel:///mymaster",
    "redis+sentinel://:hunter@h1,h2",
    "redis+sentinel://:hunter@h1,h2/",
    "redis+sentinel://:hunter@h1,/mymaster",
    "redis+sentinel://h1,h1:26379/mymaster",
    "redis+sentinel://h1:0/mymaster",
    "redis+sentinel://h1/my master",
    "redis+sentinel://h1/my%20master",
    "redis+sentinel://h1/mymaster/x",
    "redis+sentinel://h1/mymaster/0/1",
    "redis+sentinel://:hunter@h1/mymaster?sentinel_pass=hunter",
    "redis+sentinel://h1/mymaster?sentinel_password",
    "redis+sentinel://h1/mymaster?sentinel_password=x&hunter",
    "redis+sentinel://h1/mymaster?sentinel_password=x&sentinel_password=hunter",
    "redis+sentinel://h1/mymaster?sentinel_password=hunter%",
    "redis+sentinel://h1/mymaster?sentinel_password=hunter@1",
    "redis+sentinel://user:hunter",
    "redis+cluster://",
    "redis+cluster://:hunter@a,,b",
    "redis+cluster://:hunter@a,b/1",
    "redis+cluster://a/mymaster",
    "redis+cluster://a?db=1",
    "redis+cluster://user:hunter,b",
    "redis+cluster://a:7000,redis://b:7000",
    "redis://:hunter@a,b",
    "redis://",
    "redis:///0",
    "redis://:6379",
    "redis://:hunter@",
    "redis://:hunter@:6379",
    "redis://:hunter 2@h",
    "redis://h:6379 ",
    "redis://:hunter\u{7f}@h",
    "redis://:hunter%@h",
    "redis://hunter%4:x@h",
    "redis://:hunter%g0@h",
    "redis://:hunter%ff@h",
    "redis://:hunter/2@h:6379/0",
    "redis://:hunter?2@h:6379/0",
    "redis://:hunter#2@h:6379/0",
    "redis://user:hunter",
    "redis://user:hunter/0",
    "redis://user:hunter:x",
    "redis://::1:6379",
    "redis://:hunter@[::1",
    "redis://:hunter@[::g]:6379",
    "redis://[fe80::1%25eth0]",
    "redis://[::1]6379",
    "redis://6379",
    "redis://256.0.0.1",
    "redis://a..b",
    "redis://ä",
    "redis://h%20",
    "redis://h:",
    "redis://h:0",
    "redis://h:70000",
    "redis://:hunter@h:70000",
    "redis://h:123456789",
    "redis://h:+1",
    "redis://h/abc",
    "redis://:hunter@h/abc",
    "redis://h/65536",
    "redis://h/-1",
    "redis://h/0/1",
    "redis://h/0#insecure",
    "redis://h/0?timeout=5",
    "redis://h?db=2",
    "redis+unix://",
    "redis+unix://run/redis.sock",
    "redis+unix://:hunter@/run/redis.sock",
    "redis+unix:///",
    "redis+unix:///run/",
    "redis+unix:///r%00",
    "redis+unix:///r%zz",
    "redis+unix:///r#x",
    "redis+unix:///r?db=abc",
    "redis+unix:///r?db=1;pass=hunter",
    "redis+unix:///r?password=hunter",
    "redis+unix:///r?timeout=5",
    "redis+unix:///r?pass=x&hunter",
    "redis+unix:///r?pass=x&hunter=y",
    "redis+unix:///r?hunter",
    "redis+unix:///r?pass",
    "redis+unix:///r?db=1&db=2",
    "redis+unix:///r?pass=hunter%",
    "redis+unix:///r?&",
];

#[test]
fn broken_urls_are_explained() {
    let told = BROKEN.iter().map(|text| {
        // Not even a snapshot shows a password.
        let shown = format!("{text:?}").replace("hunter", "…");
        format!("{shown}\n    {}\n", refused(text))
    });
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("broken_urls", told.collect::<String>()));
}

#[test]
fn a_password_is_in_no_message() {
    for text in BROKEN {
        let error = text.parse::<StoreUrl>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunt"), "{error:?}");
    }
    for text in ["redis://hunter1:hunter2@h/3", "redis+unix:///h?db=3&user=hunter1&pass=hunter2"] {
        let server = read(text);
        let shown = format!("{server:?} {:#?} {}", StoreUrl::Redis(server.clone()), server.place());
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("user: Some(***), password: Some(***), database: 3"), "{shown}");
    }
}

#[test]
fn every_maximum_at_its_edge() {
    let host = |length: usize| format!("redis://{}", "h".repeat(length));
    assert_eq!(read(&host(MAX_HOST_BYTES)).place().len(), MAX_HOST_BYTES + 5);
    assert!(refused(&host(MAX_HOST_BYTES + 1)).contains("a host that cannot be one"));

    let path = |length: usize| format!("redis+unix:///{}", "%41".repeat(length - 1));
    assert_eq!(read(&path(MAX_SOCKET_PATH_BYTES)).place().len(), MAX_SOCKET_PATH_BYTES);
    assert!(refused(&path(MAX_SOCKET_PATH_BYTES + 1)).contains("a path that is too long"));

    let url = |length: usize| format!("redis://:{}@h", "p".repeat(length - 11));
    assert_eq!(url(MAX_URL_BYTES).len(), MAX_URL_BYTES);
    assert_eq!(read(&url(MAX_URL_BYTES)).place(), "h:6379");
    assert!(refused(&url(MAX_URL_BYTES + 1)).contains("is too long"));

    let several = |count: usize| (1..=count).map(|nth| format!("h{nth}")).collect::<Vec<_>>();
    let url = |count: usize| format!("redis+cluster://{}", several(count).join(","));
    assert!(read(&url(MAX_SERVERS)).place().contains(",h32:6379,"));
    assert!(refused(&url(MAX_SERVERS + 1)).contains("names too many hosts; expected at most 32"));
    let named = |length: usize| format!("redis+sentinel://h/{}", "m".repeat(length));
    assert_eq!(read(&named(MAX_MASTER_BYTES)).place().len(), MAX_MASTER_BYTES + 11);
    assert!(refused(&named(MAX_MASTER_BYTES + 1)).contains("a master that cannot be one"));
}

/// Every byte but the plainest as `%XX`.
fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let bytes = text.bytes().map(|b| match b {
        b'/' => "%2F".to_owned(),
        b if plain(b) => char::from(b).to_string(),
        b => format!("%{b:02x}"),
    });
    bytes.collect()
}

fn host() -> impl Strategy<Value = String> {
    let v6 = any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string());
    let v4 = any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string());
    prop_oneof![v6, v4, "[a-zA-Z_-][a-z0-9_-]{0,9}(\\.[a-z0-9-]{1,9}){0,3}\\.?"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_server_that_is_written_is_read_back(
        host in host(),
        (port, database, tls) in (1..=u16::MAX, any::<u16>(), any::<bool>()),
        (user, password) in (".{0,12}", "\\PC{0,12}"),
    ) {
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let scheme = if tls { "rediss" } else { "redis" };
        let (login_name, word) = (encoded(&user), encoded(&password));
        let url = format!("{scheme}://{login_name}:{word}@{shown}:{port}/{database}");
        let address = RedisAddress::Tcp { host, port, tls };
        let server = RedisUrl { address, database, ..RedisUrl::default() };
        prop_assert_eq!(read(&url), login(server, &user, &password));
        prop_assert_eq!(read(&url).place().ends_with(&format!(":{port}")), database == 0);
    }

    #[test]
    fn a_socket_that_is_written_is_read_back(
        path in "(/[^/\\p{C}]{1,9}){1,2}",
        database in any::<u16>(),
        (user, password) in (".{0,12}", "\\PC{0,12}"),
    ) {
        let url = format!(
            "redis+unix:///{}?user={}&db={database}&pass={}",
            encoded(&path[1..]), encoded(&user), encoded(&password),
        );
        let address = RedisAddress::Unix { path: PathBuf::from(&path) };
        let server = RedisUrl { address, database, ..RedisUrl::default() };
        prop_assert_eq!(read(&url), login(server, &user, &password));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        let _ = text.parse::<StoreUrl>();
        for scheme in [
            "memory://", "redis://", "rediss://:", "redis://[", "redis+unix:///",
            "redis+sentinel://", "redis+sentinel://h/m?", "redis+cluster://",
        ] {
            let _ = format!("{scheme}{text}").parse::<StoreUrl>();
        }
    }

    #[test]
    fn any_pieces_are_read_or_refused(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12),
        scheme in prop::sample::select(
            &["redis://", "redis+unix:///", "redis+sentinel://", "rediss+cluster://", ""][..]
        ),
    ) {
        let text = format!("{scheme}{}", pieces.concat());
        match text.parse::<StoreUrl>() {
            Ok(StoreUrl::Redis(server)) => prop_assert!(!server.place().is_empty()),
            Ok(_) => prop_assert_eq!(text, "memory://"),
            Err(error) => prop_assert!(!error.expected().is_empty()),
        }
    }
}

/// Pieces of which URLs are made.
const PIECES: &[&str] = &[
    "redis",
    "://",
    ":",
    "/",
    "@",
    "?",
    "#",
    "&",
    "=",
    "%",
    "%2",
    "%41",
    "%ff",
    "[",
    "]",
    "::1",
    "h",
    ".",
    "1",
    "70000",
    "db",
    "db=",
    "user=",
    "pass=",
    "sentinel_user=",
    ",",
    "ä",
    " ",
    "\n",
    "\u{1b}",
    "memory",
];
