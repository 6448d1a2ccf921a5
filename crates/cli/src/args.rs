//! What can be typed: the arguments as they come, unchecked.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::output::log::LogFormat;

/// A rate limiter: a service, and a tool to check and simulate policies.
#[derive(Debug, Parser)]
#[command(name = "tollkeeper", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the service
    #[command(after_help = "Examples:
  tollkeeper serve                       the embedded store and a demo rule
  tollkeeper serve --demo                the same, and eleven requests that show it
  tollkeeper serve -c tollkeeper.yaml    your own rules
  tollkeeper serve --store redis://127.0.0.1:6379    limits that many services share
  tollkeeper serve --log debug --log-format json     a line of JSON for each request

Without -c, ./tollkeeper.yaml is read if it is there.")]
    Serve(ServeArgs),
    /// Take one decision, from a running service or a store
    #[command(after_help = "Examples:
  tollkeeper check --key alice --limit 10/min
  tollkeeper check --key alice --limit 10/10s --algorithm sliding_window_counter --cost 3
  tollkeeper check --key alice --rule per-key --url http://127.0.0.1:8080 --json
  tollkeeper check --key alice --limit 10/min --store redis://127.0.0.1:6379

Exit code: 0 allowed, 1 denied, 2 no answer.")]
    Check(CheckArgs),
    /// Read a policy file and say what is wrong with it
    #[command(after_help = "Examples:
  tollkeeper validate
  tollkeeper validate policies/api.yaml
  tollkeeper validate --strict           advice counts as a failure, for CI
  tollkeeper validate --json | jq .rules

A valid file can get advice: a warning with a code, and a page that tells more.
Exit code: 0 valid, 1 with --strict and advice, 2 not valid.")]
    Validate(ValidateArgs),
    /// Show every limit of a policy: for whom, how much, and what happens on a failure
    #[command(after_help = "Examples:
  tollkeeper limits
  tollkeeper limits policies/api.yaml
  tollkeeper limits --json | jq '.[] | select(.shadow)'

A single limit has the name of its rule; of several, each is RULE/WINDOW.")]
    Limits(LimitsArgs),
    /// Show which rules a request meets, with which keys and limits, and why the others not
    #[command(after_help = "Examples:
  tollkeeper explain --method GET --path /api/x --header 'x-api-key: k' --ip 1.2.3.4
  tollkeeper explain policies/api.yaml --path /search --attribute plan=pro --json")]
    Explain(ExplainArgs),
    /// Replay a trace in virtual time and show what each request would have met
    #[command(after_help = "Examples:
  tollkeeper simulate -c tollkeeper.yaml --trace trace.csv
  tollkeeper simulate -c tollkeeper.yaml --trace trace.csv --out jsonl | jq 'select(.allowed | not)'

A trace is CSV with the header time_us,rule,key,cost: whole microseconds that never descend.
An empty rule means every rule of the file.")]
    Simulate(SimulateArgs),
    /// Print the JSON Schema of the policy file
    #[command(after_help = "Example:
  tollkeeper schema > tollkeeper.schema.json")]
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The policy file [default: ./tollkeeper.yaml, or a demo rule]
    #[arg(short, long, value_name = "F")]
    pub(crate) config: Option<PathBuf>,
    /// Listen for HTTP here, whatever the file says
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Keep the state here, whatever the file says: memory://, redis://, rediss://, redis+unix://,
    /// redis+sentinel://, redis+cluster://; several times for servers over which keys are spread
    #[arg(long, value_name = "URL")]
    pub(crate) store: Vec<String>,
    /// Send eleven requests to the demo route and show what they meet
    #[arg(long)]
    pub(crate) demo: bool,
    /// What to tell while it runs: off, error, warn, info, debug (a line for each request), trace,
    /// or a list such as info,tollkeeper::request=debug [default: $TOLLKEEPER_LOG, or info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    /// How to write it to standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// Who is counted
    #[arg(long)]
    pub(crate) key: String,
    /// The limit, such as 10/min
    #[arg(long, required_unless_present = "rule", conflicts_with = "rule")]
    pub(crate) limit: Option<String>,
    /// A rule of the policy, instead of a limit
    #[arg(long)]
    pub(crate) rule: Option<String>,
    /// The algorithm of the limit [default: token_bucket]
    #[arg(long, requires = "limit")]
    pub(crate) algorithm: Option<String>,
    /// How many units it takes; 0 only looks
    #[arg(long, default_value_t = 1)]
    pub(crate) cost: u64,
    /// The service to ask
    #[arg(long, value_name = "U", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// Decide in this store instead of asking a service: memory://, redis://, rediss://,
    /// redis+unix://, redis+sentinel://, redis+cluster://; several times for servers over which
    /// keys are spread
    #[arg(long, value_name = "S", conflicts_with = "url")]
    pub(crate) store: Vec<String>,
    /// The policy file that has the rule, with --store [default: ./tollkeeper.yaml]
    #[arg(short, long, value_name = "F", requires = "store")]
    pub(crate) config: Option<PathBuf>,
    /// Print the decision as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ValidateArgs {
    /// The policy file [default: ./tollkeeper.yaml]
    #[arg(value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// The policy file, as the other commands take it
    #[arg(short, long, value_name = "F", conflicts_with = "file")]
    pub(crate) config: Option<PathBuf>,
    /// Let advice be a failure: exit code 1
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print rules and advice, or errors, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// The policy file [default: ./tollkeeper.yaml]
    #[arg(value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// The policy file, as the other commands take it
    #[arg(short, long, value_name = "F", conflicts_with = "file")]
    pub(crate) config: Option<PathBuf>,
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The policy file [default: ./tollkeeper.yaml]
    #[arg(value_name = "F")]
    pub(crate) file: Option<PathBuf>,
    /// The policy file, as the other commands take it
    #[arg(short, long, value_name = "F", conflicts_with = "file")]
    pub(crate) config: Option<PathBuf>,
    /// The request's method
    #[arg(long, default_value = "GET")]
    pub(crate) method: String,
    /// Its path, with or without a query
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
    /// The host that it asks for
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// The client's address
    #[arg(long)]
    pub(crate) ip: Option<String>,
    /// A header, as `NAME: VALUE`; may come several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Something that the app says of it, as `NAME=VALUE`; may come several times
    #[arg(long = "attribute", value_name = "NAME=VALUE")]
    pub(crate) attributes: Vec<String>,
    /// Let headers that set a cost or a tier not count, as from a client that is no trusted proxy
    #[arg(long)]
    pub(crate) untrusted: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// The policy file [default: ./tollkeeper.yaml]
    #[arg(short, long, value_name = "F")]
    pub(crate) config: Option<PathBuf>,
    /// The trace; - is standard input
    #[arg(long, value_name = "T")]
    pub(crate) trace: PathBuf,
    /// Where the state lies: memory://, redis://, rediss://, redis+unix://, redis+sentinel://,
    /// redis+cluster://; on a server, under keys of the run's own; several times for servers over
    /// which keys are spread
    #[arg(long, value_name = "URL", default_value = "memory://")]
    pub(crate) store: Vec<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Out::Summary)]
    pub(crate) out: Out,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Out {
    /// One line of JSON for each row of the trace
    Jsonl,
    /// A table of what each rule let through
    Summary,
}
