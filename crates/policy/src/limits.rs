//! The named maximum of everything in this crate, and the relations between them.

use tollkeeper_core::limits::{EXACT, MAX_CHECKS, MAX_KEY_BYTES, MAX_NAME_BYTES};

/// The largest policy file, in bytes.
pub const MAX_FILE_BYTES: usize = 8 << 20;

/// The deepest nesting of maps and lists, aliases included.
pub const MAX_DEPTH: usize = 32;

/// The most keys and values in a file once its aliases are expanded.
pub const MAX_NODES: usize = 1_000_000;

/// The most errors that are reported of one file.
pub const MAX_ERRORS: usize = 50;

/// The most pieces of advice on one policy.
pub const MAX_ADVICE: usize = 100;

/// The rules, from the first on, of which it is looked whether one hides another.
pub const MAX_COMPARED_RULES: usize = 1_000;

/// The most rules of a policy.
pub const MAX_RULES: usize = 10_000;

/// The most limits of a rule.
pub const MAX_LIMITS: usize = 16;

/// The longest name of a rule, in bytes.
pub const MAX_RULE_NAME_BYTES: usize = 64;

/// The most keys that a store can be told to hold.
pub const MAX_KEYS: u64 = 1_000_000_000;

/// The keys that a store holds where the file does not say.
pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

/// The longest URL of a store, in bytes.
pub const MAX_URL_BYTES: usize = 4096;

/// The longest path of a socket, in bytes: what the address of one has room for.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The longest name of a host, in bytes.
pub const MAX_HOST_BYTES: usize = 253;

/// The last database of a server.
pub const MAX_DATABASE: u16 = u16::MAX;

/// The port of a server where the URL does not say.
pub const DEFAULT_PORT: u16 = 6379;

/// The port of a sentinel where the URL does not say.
pub const SENTINEL_PORT: u16 = 26379;

/// The most sentinels, or nodes of a cluster, that a URL names.
pub const MAX_SERVERS: usize = 32;

/// The longest name of a master, in bytes.
pub const MAX_MASTER_BYTES: usize = 64;

/// The shortest time that a decision can be told to wait for the store.
pub const MIN_TIMEOUT_US: u64 = 1_000;

/// The longest time that a decision can be told to wait for the store.
pub const MAX_TIMEOUT_US: u64 = 10_000_000;

/// How long a decision waits for the store where the file does not say.
pub const DEFAULT_TIMEOUT_US: u64 = 20_000;

/// The longest time that a denial can be told again without the store.
pub const MAX_DENIED_CACHE_US: u64 = 60_000_000;

/// How long a denial is told again without the store where the file does not say.
pub const DEFAULT_DENIED_CACHE_US: u64 = 1_000_000;

/// The shortest time that the gateway can be told to wait.
pub const MIN_PATIENCE_US: u64 = 1_000;

/// The longest time that the gateway can be told to wait: a week.
pub const MAX_PATIENCE_US: u64 = 7 * 86_400_000_000;

/// How long the gateway waits for a connection where the file does not say.
pub const DEFAULT_CONNECT_US: u64 = 5_000_000;

/// How long the gateway waits for the next bytes of a request or an answer where the file does not
/// say.
pub const DEFAULT_SILENCE_US: u64 = 60_000_000;

/// How long the gateway waits for the next bytes of a WebSocket where the file does not say.
pub const DEFAULT_TUNNEL_US: u64 = 3_600_000_000;

/// The most connections to a server.
pub const MAX_CONNECTIONS: u64 = 64;

/// The connections to a server where the file does not say.
pub const DEFAULT_CONNECTIONS: usize = 2;

/// The most processes that can be told to share the limits.
pub const MAX_SHARING_NODES: u64 = 100_000;

/// The processes that share the limits where the file does not say.
pub const DEFAULT_NODES: u64 = 1;

/// The longest prefix of the keys on a server, in bytes.
pub const MAX_PREFIX_BYTES: usize = 32;

/// What keys on a server begin with where the file does not say.
pub const DEFAULT_PREFIX: &str = "rl";

/// The longest path of a file, in bytes.
pub const MAX_PATH_BYTES: usize = 4095;

/// The most paths of a rule.
pub const MAX_PATHS: usize = 64;

/// The longest pattern of a path, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// The most segments of a pattern.
pub const MAX_PATTERN_SEGMENTS: usize = 32;

/// The segments of a request's path that are looked at. Of a longer path, what a pattern has
/// before its first `**` is compared, and the rest counts as matched.
pub const MAX_PATH_SEGMENTS: usize = 64;

/// The most methods of a rule.
pub const MAX_METHODS: usize = 32;

/// The longest name of a method, in bytes.
pub const MAX_METHOD_BYTES: usize = 32;

/// The most hosts of a rule.
pub const MAX_HOSTS: usize = 64;

/// The most headers that a rule asks for.
pub const MAX_HEADERS: usize = 16;

/// The longest name of a header, a cookie, a parameter or an attribute, in bytes.
pub const MAX_FIELD_NAME_BYTES: usize = 64;

/// The longest value that a rule compares with, in bytes.
pub const MAX_VALUE_BYTES: usize = 1024;

/// The most parts of a key.
pub const MAX_KEY_PARTS: usize = 8;

/// The longest part of a key, in bytes, that is kept as it is; a longer one is hashed.
pub const MAX_KEY_PART_BYTES: usize = 256;

/// The most units that one request can take.
pub const MAX_COST: u64 = EXACT - 1;

/// The most tiers of a rule.
pub const MAX_TIERS: usize = 64;

/// The longest name of a tier, in bytes.
pub const MAX_TIER_BYTES: usize = 64;

/// The most entries of `refund_on`.
pub const MAX_STATUSES: usize = 64;

/// The most addresses and networks of one list.
pub const MAX_NETWORKS: usize = 10_000;

/// The most keys that are exempt from a rule.
pub const MAX_EXEMPT_KEYS: usize = 1_000;

/// The shortest token of admin calls, in bytes.
pub const MIN_TOKEN_BYTES: usize = 16;

/// The longest token of admin calls, in bytes.
pub const MAX_TOKEN_BYTES: usize = 1024;

/// The bits of an IPv6 address that count where the file does not say: one customer's network.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

/// The most attributes, headers among them, that can be told of a request.
pub const MAX_ATTRIBUTES: usize = 256;

/// The longest value that can be told of a request, in bytes.
pub const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// The longest ending that a limit's name adds to its rule's: `/`, a rate, `.16`.
pub(crate) const MAX_LABEL_BYTES: usize = 64;

const _: () = {
    assert!(MAX_RULE_NAME_BYTES + MAX_LABEL_BYTES <= MAX_NAME_BYTES);
    assert!(MAX_LIMITS <= MAX_CHECKS);
    assert!(MAX_NODES > MAX_RULES * MAX_LIMITS);
    assert!(MIN_TIMEOUT_US <= DEFAULT_TIMEOUT_US && DEFAULT_TIMEOUT_US <= MAX_TIMEOUT_US);
    assert!(DEFAULT_CONNECTIONS as u64 <= MAX_CONNECTIONS && DEFAULT_NODES <= MAX_SHARING_NODES);
    assert!(DEFAULT_PREFIX.len() <= MAX_PREFIX_BYTES);
    assert!(MAX_PATTERN_SEGMENTS < MAX_PATH_SEGMENTS, "what has no `**` meets no longer path");
    assert!(MAX_KEY_PART_BYTES >= 71 && MAX_KEY_PART_BYTES <= MAX_KEY_BYTES, "a hash fits");
    assert!(MAX_SOCKET_PATH_BYTES < MAX_URL_BYTES && MAX_HOST_BYTES < MAX_URL_BYTES);
};
