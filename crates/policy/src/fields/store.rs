//! The table of the store: where state is kept, and what happens while it cannot be reached.

use tollkeeper_core::Colocate;

use super::{Kind, Shape, TextForm, optional};
use crate::limits::{
    MAX_CONNECTIONS, MAX_DENIED_CACHE_US, MAX_KEYS, MAX_PATH_BYTES, MAX_PREFIX_BYTES,
    MAX_SHARING_NODES, MAX_TIMEOUT_US, MIN_TIMEOUT_US,
};
use crate::settings::OnFailure;

const WHEN_FULL: &[&str] = &["evict", "deny", "allow"];

/// The words for what happens while the store gives no answer.
pub(super) const ON_FAILURE: &[&str] =
    &[OnFailure::Open.name(), OnFailure::Closed.name(), OnFailure::Static.name()];

/// The words for which limits lie together.
const COLOCATE: &[&str] = &[Colocate::Key.name(), Colocate::First.name(), Colocate::All.name()];

static PREFIX: TextForm = TextForm {
    expected: "1 to 32 letters, digits, `-`, `_`, `.` or `:`",
    pattern: "^[A-Za-z0-9_.:-]{1,32}$",
    fits: |text| {
        let usual = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
        (1..=MAX_PREFIX_BYTES).contains(&text.len()) && text.bytes().all(usual)
    },
};

static PATH: TextForm = TextForm {
    expected: "the path of a file such as /etc/ssl/redis-ca.pem",
    pattern: "^.{1,4095}$",
    fits: is_path,
};

pub(super) fn is_path(text: &str) -> bool {
    (1..=MAX_PATH_BYTES).contains(&text.len()) && !text.contains(char::is_control)
}

pub(crate) static STORE: Shape = Shape {
    doc: "Where the state of the limits is kept.",
    example: "{ url: \"redis://127.0.0.1:6379\", timeout: 20ms }",
    fields: &[
        optional(
            "url",
            "The store: memory:// (the default) is this process; redis://[user[:password]@]host[:port][/db], rediss:// (TLS) and redis+unix:///path[?db=N&user=U&pass=P] are a server; redis+sentinel://[user[:password]@]h1[:port],h2/master[/db] is the master that sentinels name, redis+cluster://[user[:password]@]a[:port],b a cluster; rediss+sentinel:// and rediss+cluster:// with TLS. A list of servers spreads the keys over them.",
            Kind::StoreUrl,
        ),
        optional(
            "timeout",
            "How long a decision may wait for a server; 20ms if not given. No effect with memory://.",
            Kind::DurationWithin { min_us: MIN_TIMEOUT_US, max_us: MAX_TIMEOUT_US },
        ),
        optional(
            "on_failure",
            "What is decided while a server gives no answer: static (the default) by a limiter in this process, open admits, closed denies. A rule can say otherwise. No effect with memory://.",
            Kind::Word(ON_FAILURE),
        ),
        optional(
            "denied_cache",
            "How long a denial is at most told again without the server being asked; 1s if not given, 0 for never. What another process gives back or resets is seen at once where the server may tell it, and else so much later. No effect with memory://.",
            Kind::DurationWithin { min_us: 0, max_us: MAX_DENIED_CACHE_US },
        ),
        optional(
            "merge",
            "Whether checks that wait at the same moment go to a server together; true if not given. No effect with memory://.",
            Kind::Flag,
        ),
        optional(
            "connections",
            "How many connections are held to a server, or to each of a cluster; 2 if not given. No effect with memory://.",
            Kind::Count { max: MAX_CONNECTIONS },
        ),
        optional(
            "nodes",
            "How many processes share the limits; 1 if not given. While a server gives no answer, static admits in each of them that part of a limit; so does consistency: share. No effect with memory://.",
            Kind::Count { max: MAX_SHARING_NODES },
        ),
        optional(
            "count_nodes",
            "true lets processes count each other through the server, a call or two a second, instead of nodes; false if not given. They do so anyway where a rule has consistency: share and nodes is not given. No effect with memory://.",
            Kind::Flag,
        ),
        optional(
            "prefix",
            "What every key on a server begins with; rl if not given. No effect with memory://.",
            Kind::Text(&PREFIX),
        ),
        optional(
            "colocate",
            "Which limits lie together where a store spreads keys over slots or shards, and so are decided in one step: key (the default) those of one key, first those of keys with the same first part, all every limit, which leaves one slot or shard all the work. No effect on one server.",
            Kind::Word(COLOCATE),
        ),
        optional(
            "ca",
            "A PEM file of certificate authorities that are trusted instead of the system's; only with TLS, as in rediss://. No effect with memory://.",
            Kind::Text(&PATH),
        ),
        optional(
            "max_keys",
            "The most keys that are held in memory; 1000000 if not given. With a server, it bounds the limiter of on_failure: static.",
            Kind::Count { max: MAX_KEYS },
        ),
        optional(
            "when_full",
            "What happens to a new key when max_keys are held: evict (the default) forgets an old key, deny and allow decide without counting. With a server, it is for the limiter of on_failure: static.",
            Kind::Word(WHEN_FULL),
        ),
        optional(
            "names",
            "false forgets the text of keys that are held in memory: half of the memory, and the same decisions, but the state of a key is shown only to who names it. true if not given.",
            Kind::Flag,
        ),
    ],
    later: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_and_numbers_told_are_those_that_count() {
        assert_eq!(ON_FAILURE, OnFailure::ALL.map(OnFailure::name));
        assert_eq!(COLOCATE, Colocate::ALL.map(Colocate::name));
        let most = format!("1 to {MAX_PREFIX_BYTES} ");
        assert!(PREFIX.expected.starts_with(&most));
        assert!(PREFIX.pattern.contains(&format!("{{1,{MAX_PREFIX_BYTES}}}")));
        assert!(PATH.pattern.contains(&format!("{{1,{MAX_PATH_BYTES}}}")));
    }
}
