//! Owns [`Script`]: fixed texts that the server knows by their hash.

use tollkeeper_core::Algorithm;

use crate::driver::{Command, Fault, Reply};
use crate::topology::Way;

/// The functions of one algorithm: how it reads, and how it takes.
macro_rules! functions {
    (token_bucket) => {
        concat!(include_str!("lua/debt.lua"), include_str!("lua/token_bucket.lua"))
    };
    (gcra) => {
        concat!(include_str!("lua/debt.lua"), include_str!("lua/gcra.lua"))
    };
    (leaking_bucket) => {
        concat!(include_str!("lua/debt.lua"), include_str!("lua/leaking_bucket.lua"))
    };
    (fixed_window) => {
        include_str!("lua/fixed_window.lua")
    };
    (sliding_window_log) => {
        include_str!("lua/sliding_window_log.lua")
    };
    (sliding_window_counter) => {
        include_str!("lua/sliding_window_counter.lua")
    };
    (concurrency) => {
        concat!(include_str!("lua/expire.lua"), include_str!("lua/concurrency.lua"))
    };
}

/// What the functions share with others: states that are strings, and exact products for those that
/// multiply beyond 2^53.
macro_rules! shared {
    (sliding_window_log) => {
        ""
    };
    (concurrency) => {
        ""
    };
    (fixed_window) => {
        include_str!("lua/packed.lua")
    };
    ($other:ident) => {
        concat!(include_str!("lua/packed.lua"), include_str!("lua/exact.lua"))
    };
}

/// What a script begins with: whether it changes what was decided, the names that not every script
/// gives a meaning, the time.
macro_rules! head {
    ($amends:tt) => {
        concat!(
            concat!("local AMENDS = ", $amends, "\n"),
            "local algorithm, refund, overcharge, is_present, loans_of, keep_loans, release, renew\n",
            include_str!("lua/prelude.lua"),
        )
    };
}

/// One algorithm of a script for several.
macro_rules! branch {
    ($letter:literal, $algorithm:ident) => {
        concat!(
            concat!("if letter == '", $letter, "' then\n"),
            functions!($algorithm),
            "return limit, look, take\n",
            "end\n",
        )
    };
}

/// What of a bucket's state is only changed after the decision.
macro_rules! lends {
    (true, $bucket:ident) => {
        lends!(@ $bucket)
    };
    (false, $bucket:ident) => {
        ""
    };
    (@ token_bucket) => {
        include_str!("lua/lent.lua")
    };
    (@ gcra) => {
        include_str!("lua/lent.lua")
    };
    (@ leaking_bucket) => {
        include_str!("lua/lent.lua")
    };
    (@ $other:ident) => {
        ""
    };
}

/// A script for each algorithm, and what there is for several. A call makes every function of its
/// script anew, so each script has those of its own algorithm and no others.
macro_rules! texts {
    ($amends:tt, $main:literal, $several:expr) => {
        |algorithm| match algorithm {
            Some(Algorithm::TokenBucket) => Some(texts!(@ $amends, $main, token_bucket)),
            Some(Algorithm::Gcra) => Some(texts!(@ $amends, $main, gcra)),
            Some(Algorithm::LeakingBucket) => Some(texts!(@ $amends, $main, leaking_bucket)),
            Some(Algorithm::FixedWindow) => Some(texts!(@ $amends, $main, fixed_window)),
            Some(Algorithm::SlidingWindowLog) => Some(texts!(@ $amends, $main, sliding_window_log)),
            Some(Algorithm::SlidingWindowCounter) => {
                Some(texts!(@ $amends, $main, sliding_window_counter))
            }
            Some(Algorithm::Concurrency) => Some(texts!(@ $amends, $main, concurrency)),
            Some(_) => None,
            None => $several,
        }
    };
    (@ $amends:tt, $main:literal, $algorithm:ident) => {
        concat!(
            head!($amends),
            shared!($algorithm),
            functions!($algorithm),
            lends!($amends, $algorithm),
            include_str!($main)
        )
    };
}

/// The text for limits of one algorithm, or of several.
pub(crate) type Texts = fn(Option<Algorithm>) -> Option<&'static str>;

/// Decides requests of the same limits, one after another.
pub(crate) const DECIDE: Texts = texts!(false, "lua/decide.lua", Some(DECIDE_SEVERAL));

const DECIDE_SEVERAL: &str = concat!(
    head!(false),
    include_str!("lua/packed.lua"),
    include_str!("lua/exact.lua"),
    "function algorithm(letter)\n",
    branch!("t", token_bucket),
    branch!("b", leaking_bucket),
    branch!("f", fixed_window),
    branch!("l", sliding_window_log),
    branch!("c", sliding_window_counter),
    branch!("p", concurrency),
    "end\n",
    "local limit, look, take\n",
    include_str!("lua/decide.lua"),
);

/// Changes one state after the decision.
pub(crate) const AMEND: Texts = texts!(true, "lua/amend.lua", None);

/// The scripts of one purpose.
#[derive(Debug)]
pub(crate) struct Script {
    variants: Vec<Variant>,
}

#[derive(Debug)]
struct Variant {
    algorithm: Option<Algorithm>,
    text: &'static str,
    sha: String,
}

/// What a script is called with.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// The algorithm of all limits; `None` where they have several.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// How a script for several algorithms is told of one. GCRA asks what the token bucket asks, whether
/// D′ + cost·P ≤ B·P, so there they share their functions.
pub(crate) fn letter(algorithm: Algorithm) -> char {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::Gcra => 't',
        Algorithm::LeakingBucket => 'b',
        Algorithm::FixedWindow => 'f',
        Algorithm::SlidingWindowLog => 'l',
        Algorithm::SlidingWindowCounter => 'c',
        Algorithm::Concurrency => 'p',
        _ => '?',
    }
}

impl Script {
    pub(crate) fn new(texts: Texts) -> Self {
        let algorithms = Algorithm::ALL.into_iter().map(Some).chain([None]);
        let variant = |algorithm| {
            let text = texts(algorithm)?;
            let sha = sha1_smol::Sha1::from(text).digest().to_string();
            Some(Variant { algorithm, text, sha })
        };
        Self { variants: algorithms.filter_map(variant).collect() }
    }

    /// Runs it by its hash; by its text if the server has forgotten it, which means that it did
    /// not run.
    pub(crate) async fn run(&self, way: &Way<'_>, call: &Call) -> Result<Reply, Fault> {
        let found = self.variants.iter().find(|variant| variant.algorithm == call.algorithm);
        let Some(Variant { text, sha, .. }) = found else {
            return Err(Fault::refused("NOSCRIPT there is none for this algorithm"));
        };
        match way.call(&command("EVALSHA", sha, call)).await {
            Err(fault) if fault.says("NOSCRIPT") => way.call(&command("EVAL", text, call)).await,
            replied => replied,
        }
    }
}

fn command(name: &str, script: &str, call: &Call) -> Command {
    let mut command = Command::new(name).arg(script).arg(call.keys.len().to_string());
    call.keys.iter().for_each(|key| command.push(key));
    call.args.iter().for_each(|arg| command.push(arg));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_its_scripts_and_its_letter_among_several() {
        for algorithm in Algorithm::ALL {
            assert!(DECIDE(Some(algorithm)).is_some() && AMEND(Some(algorithm)).is_some());
            let branch = format!("if letter == '{}' then", letter(algorithm));
            assert!(DECIDE_SEVERAL.contains(&branch), "{algorithm}");
        }
    }
}
