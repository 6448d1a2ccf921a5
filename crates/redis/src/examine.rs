//! Whether a server is one that we can work with, by what it says of itself.

use crate::driver::Fault;

/// The oldest server that the scripts are made for and tested on.
const OLDEST: (u32, u32) = (6, 2);

/// Refuses a server that is too old, or a node of a cluster.
pub(crate) fn examine(info: &str) -> Result<(), Fault> {
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
    if field("cluster_enabled") == Some("1") {
        return Err(refuse(
            "the server is a node of a cluster, which owns only a part of the keys; \
             expected a server with `cluster-enabled no`"
                .to_owned(),
        ));
    }
    Ok(())
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
            "redis_version:7.0.15\r\nredis_mode:standalone\r\n",
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.0\r\n",
            "# Cluster\r\ncluster_enabled:0\r\n",
            "redis_version:unknown\r\n",
            "",
        ] {
            assert_eq!(examine(good), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("redis_version:6.0.16\r\n", "Redis 6.0.16; expected Redis 6.2 or newer"),
            ("redis_version:5.0.7\r\n", "Redis 5.0.7"),
            ("# Cluster\r\ncluster_enabled:1\r\n", "node of a cluster"),
        ] {
            let Err(Fault::Unconnected { text }) = examine(bad) else { panic!("{bad}") };
            assert!(text.contains(said), "{text}");
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
            let _ = examine(&text);
            let cluster = format!("cluster_enabled:1\r\n{text}");
            assert!(examine(&cluster).is_err(), "{text}");
        }
    }
}
