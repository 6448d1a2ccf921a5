//! The named maximum of everything in this crate, and the relations between them.

use tollkeeper_core::limits::{MAX_CHECKS, MAX_NAME_BYTES};

/// The largest policy file, in bytes.
pub const MAX_FILE_BYTES: usize = 8 << 20;

/// The deepest nesting of maps and lists, aliases included.
pub const MAX_DEPTH: usize = 32;

/// The most keys and values in a file once its aliases are expanded.
pub const MAX_NODES: usize = 1_000_000;

/// The most errors that are reported of one file.
pub const MAX_ERRORS: usize = 50;

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

/// The longest ending that a limit's name adds to its rule's: `/`, a rate, `.16`.
pub(crate) const MAX_LABEL_BYTES: usize = 64;

const _: () = {
    assert!(MAX_RULE_NAME_BYTES + MAX_LABEL_BYTES <= MAX_NAME_BYTES);
    assert!(MAX_LIMITS <= MAX_CHECKS);
    assert!(MAX_NODES > MAX_RULES * MAX_LIMITS);
};
