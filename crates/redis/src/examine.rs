//! Whether a server is one that we can work with, by what it says of itself.

use crate::driver::Fault;

/// The oldest server that the scripts are made for and tested on.
const OLDEST: (u32, u32) = (6, 2);

/// What kind of server is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One that a URL names by itself.
    Single,
    /// The one that sentinels call the master.
    Master,
    /// A node of a cluster.
    Node,
}

/// Refuses a server that is too old, or not what is wanted.
pub(crate) fn examine(info: &str, wanted: Wanted) -> Result<(), Fault> {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    if let Some(version) = field("redis_version")
        && let Some(parsed) = major_minor(version)
        && parsed < OLDEST
    {
        let (major, minor) = OLDEST;
        return Err(refuse(format!(
            "the server is Redis {version}; expected Redis {major}.{minor} or newer, or Valkey"
        )));
    }
    if field("arch_bits") == Some("32") {
        let text = "the server is a build of 32 bits, whose scripts do not count far enough; \
                    expected one of 64";
        return Err(refuse(text.to_owned()));
    }
    match (field("cluster_enabled"), wanted) {
        (Some("1"), Wanted::Single) => {
            let text = "the server is a node of a cluster, which owns only a part of the keys; \
                        write redis+cluster://HOST:PORT, or rediss+cluster:// with TLS";
            return Err(refuse(text.to_owned()));
        }
        (Some("1"), Wanted::Master) => {
            let text = "the server is a node of a cluster, which sentinels do not watch; \
                        write redis+cluster://HOST:PORT";
            return Err(refuse(text.to_owned()));
        }
        (Some("0"), Wanted::Node) => return Err(no_cluster()),
        _ => {}
    }
    if wanted == Wanted::Master && field("role") == Some("slave") {
        return Err(replica());
    }
    Ok(())
}

/// The fault of a server that stands alone, where a cluster is wanted.
pub(crate) fn no_cluster() -> Fault {
    let text = "the server is not a node of a cluster (`cluster-enabled no`); \
                write redis://HOST:PORT for a server that stands alone";
    refuse(text.to_owned())
}

/// The fault of a replica, where the master is wanted.
pub(crate) fn replica() -> Fault {
    refuse(
        "the sentinels call it the master, but it is a replica; it is asked for again".to_owned(),
    )
}

fn refuse(text: String) -> Fault {
    Fault::Unconnected { text }
}

fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use tollkeeper_testkit::dice::Dice;

    use super::*;

    #[test]
    fn a_server_is_refused_by_its_version_or_its_cluster() {
        for good in [
            "# Server\r\nredis_version:6.2.0\r\n",
            "redis_version:7.0.15\r\nredis_mode:standalone\r\narch_bits:64\r\n",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.0\r\n",
            "# Cluster\r\ncluster_enabled:0\r\n",
            "redis_version:unknown\r\n",
            "",
        ] {
            assert_eq!(examine(good, Wanted::Single), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("redis_version:6.0.16\r\n", "Redis 6.0.16; expected Redis 6.2 or newer"),
            ("redis_version:5.0.7\r\n", "Redis 5.0.7"),
            ("redis_version:7.0.15\r\narch_bits:32\r\n", "expected one of 64"),
            ("# Cluster\r\ncluster_enabled:1\r\n", "write redis+cluster://HOST:PORT"),
        ] {
            let Err(Fault::Unconnected { text }) = examine(bad, Wanted::Single) else {
                panic!("{bad}")
            };
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn a_server_is_refused_where_another_kind_is_wanted() {
        for (info, wanted, said) in [
            ("cluster_enabled:0\r\n", Wanted::Node, Some("write redis://HOST:PORT")),
            ("cluster_enabled:1\r\n", Wanted::Node, None),
            ("cluster_enabled:1\r\n", Wanted::Master, Some("write redis+cluster://HOST:PORT")),
            ("cluster_enabled:0\r\n", Wanted::Master, None),
            ("role:slave\r\n", Wanted::Master, Some("but it is a replica")),
            ("role:master\r\n", Wanted::Master, None),
            // A cluster's replica sends us on by itself, and one alone says so when it is asked.
            ("role:slave\r\n", Wanted::Node, None),
            ("role:slave\r\n", Wanted::Single, None),
            ("redis_version:6.0.16\r\n", Wanted::Node, Some("expected Redis 6.2")),
        ] {
            match (examine(info, wanted), said) {
                (Ok(()), None) => {}
                (Err(Fault::Unconnected { text }), Some(said)) => {
                    assert!(text.contains(said), "{text}");
                }
                (examined, _) => panic!("{info} {wanted:?}: {examined:?}"),
            }
        }
    }

    #[test]
    fn whatever_a_server_says_of_itself_can_be_read() {
        const PARTS: [&str; 12] = [
            "redis_version:",
            "cluster_enabled:",
            "6.2",
            ".",
            "1",
            "99999999999999999999",
            "-",
            " ",
            "\r\n",
            "\n",
            "é",
            "\0",
        ];
        let mut dice = Dice::new(3);
        for _ in 0..20_000 {
            let parts = 0..dice.below(12);
            let text: String = parts.map(|_| dice.pick(&PARTS)).collect();
            let _ = (examine(&text, Wanted::Master), examine(&text, Wanted::Node));
            let cluster = format!("cluster_enabled:1\r\n{text}");
            assert!(examine(&cluster, Wanted::Single).is_err(), "{text}");
        }
    }
}
