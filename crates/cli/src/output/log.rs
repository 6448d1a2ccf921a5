//! What a service has to say while it runs: one line on standard error for each event, as text or
//! as JSON. No text in an event can begin a line of its own, or steer a terminal.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use tollkeeper_policy::nearest;
use tollkeeper_server::{SPANS, TraceLayer};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use super::Failure;

/// The variable that holds a filter, where the command line has none.
const VARIABLE: &str = "TOLLKEEPER_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object for each line
    Json,
}

/// What is told, and how.
#[derive(Debug)]
pub(crate) struct Log {
    format: LogFormat,
    filter: EnvFilter,
}

impl Log {
    /// The filter of the command line goes first, then that of the environment.
    pub(crate) fn new(format: LogFormat, filter: Option<&str>) -> Result<Self, Failure> {
        let variable = std::env::var(VARIABLE).ok().filter(|filter| !filter.trim().is_empty());
        let (origin, filter) = match (filter, &variable) {
            (Some(filter), _) => ("--log", filter),
            (None, Some(filter)) => (VARIABLE, filter.as_str()),
            (None, None) => ("", "info"),
        };
        let filter = read_filter(filter)
            .map_err(|problem| Failure::told(format!("`{origin}` is {filter:?}: {problem}")))?;
        Ok(Self { format, filter })
    }

    /// Lets everything that is told from here on go to standard error, and spans to `traces`.
    pub(crate) fn begin(self, traces: Option<TraceLayer>) {
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(self.format == LogFormat::Text && io::stderr().is_terminal())
            // Nobody is left to tell that nobody listens.
            .log_internal_errors(false)
            .event_format(self.format)
            .with_filter(self.filter.and(filter_fn(|metadata| metadata.target() != SPANS)))
            .boxed();
        let layers: Vec<TraceLayer> = [Some(lines), traces].into_iter().flatten().collect();
        // Only the first caller sets it.
        let _ = Registry::default().with(layers).try_init();
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            let reason = panic.payload_as_str();
            tracing::error!(place, reason, "a part of the service broke");
        }));
    }
}

/// A level is of what Tollkeeper itself says: of its libraries, only warnings are told.
fn read_filter(text: &str) -> Result<EnvFilter, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    for word in &words {
        let names_target = word.contains(['=', ':', '[']) || word.starts_with("tollkeeper");
        if !names_target && !LEVELS.contains(&word.to_ascii_lowercase().as_str()) {
            let advice = match nearest(word, LEVELS.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("expected one of {}, or TARGET=LEVEL", LEVELS.join(", ")),
            };
            return Err(format!("{word:?} is no level; {advice}"));
        }
    }
    let filter = match (words.as_slice(), text.trim().parse::<LevelFilter>()) {
        ([_], Ok(level)) => format!("{},tollkeeper={level}", level.min(LevelFilter::WARN)),
        _ => text.to_owned(),
    };
    EnvFilter::builder().with_regex(false).parse(filter).map_err(|error| {
        format!("{error}; expected a level, or a list such as info,tollkeeper::request=debug")
    })
}

/// The fields of an event, with its message among them.
#[derive(Default)]
struct Told {
    message: String,
    fields: Map<String, Value>,
}

impl Told {
    fn put(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            _ => self.put(field, value.into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl<S, N> FormatEvent<S, N> for LogFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut told = Told::default();
        event.record(&mut told);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let line = match self {
            Self::Text => text(&time, level, &told, writer.has_ansi_escapes()),
            Self::Json => json(&time, level, target, told),
        };
        writeln!(writer, "{line}")
    }
}

fn json(time: &str, level: Level, target: &str, told: Told) -> String {
    let line = json!({
        "timestamp": time,
        "level": level.as_str(),
        "target": target,
        "message": told.message,
        "fields": told.fields,
    });
    // JSON itself escapes only the oldest of the characters that steer terminals.
    let line = line.to_string();
    let mut safe = String::with_capacity(line.len());
    for c in line.chars() {
        match steers(c) {
            true => _ = write!(safe, "\\u{:04x}", u32::from(c)),
            false => safe.push(c),
        }
    }
    safe
}

fn text(time: &str, level: Level, told: &Told, coloured: bool) -> String {
    let (begin, end) = match (coloured, level) {
        (false, _) => ("", ""),
        (true, Level::ERROR) => ("\x1b[31m", "\x1b[0m"),
        (true, Level::WARN) => ("\x1b[33m", "\x1b[0m"),
        (true, Level::INFO) => ("\x1b[32m", "\x1b[0m"),
        (true, _) => ("\x1b[34m", "\x1b[0m"),
    };
    let mut line = format!("{time} {begin}{level:>5}{end} ");
    for c in told.message.chars() {
        match steers(c) {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    for (name, value) in &told.fields {
        let _ = write!(line, " {name}={}", shown(value));
    }
    line
}

/// A value as text: in quotes unless it is one plain word.
fn shown(value: &Value) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '=');
    match value {
        Value::String(text) if !text.is_empty() && text.chars().all(plain) => text.clone(),
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// Whether a character does something else than to be seen: ends a line, moves the cursor, turns
/// the direction of writing.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends a line, begins another, colours it, hides it, turns it around.
    const EVIL: &str =
        "/x\n2026-01-01T00:00:00Z INFO forged\r\x1b[2K\u{9b}31m\u{7f}\u{2028}\u{202e}\" k=v\\";

    fn told() -> Told {
        let mut fields = Map::new();
        fields.insert("path".to_owned(), EVIL.into());
        fields.insert("status".to_owned(), 404.into());
        Told { message: EVIL.to_owned(), fields }
    }

    #[test]
    fn no_text_ends_a_line_or_steers_a_terminal() {
        for line in
            [text("now", Level::WARN, &told(), false), json("now", Level::WARN, "t", told())]
        {
            assert!(!line.chars().any(steers), "{line:?}");
        }
    }

    #[test]
    fn what_json_says_is_what_was_told() {
        let line: Value = serde_json::from_str(&json("now", Level::WARN, "t", told())).unwrap();
        let fields = json!({ "path": EVIL, "status": 404 });
        assert_eq!(
            line,
            json!({ "timestamp": "now", "level": "WARN", "target": "t", "message": EVIL, "fields": fields })
        );
    }

    #[test]
    fn text_shows_where_a_value_ends() {
        let line = text("now", Level::DEBUG, &told(), false);
        assert!(line.ends_with("\\\" k=v\\\\\" status=404"), "{line}");
        assert_eq!(shown(&"a b=c".into()), "\"a b=c\"");
        assert_eq!(shown(&"".into()), "\"\"");
        assert_eq!(shown(&"/api/x".into()), "/api/x");
        assert!(text("now", Level::ERROR, &told(), true).contains("\x1b[31mERROR\x1b[0m"));
    }

    #[test]
    fn filters_are_read_or_refused() {
        let read = |text: &str| read_filter(text).map(|filter| filter.to_string());
        assert_eq!(read("debug"), Ok("tollkeeper=debug,warn".to_owned()));
        assert_eq!(read("OFF"), Ok("tollkeeper=off,off".to_owned()));
        assert!(read("info,tollkeeper::request=debug").is_ok());
        assert!(read("tollkeeper::request").is_ok());
        for (wrong, said) in [
            ("", "no level"),
            ("debgu", "did you mean `debug`?"),
            ("7", "no level"),
            ("info,quux", "expected one of off, error"),
            ("tollkeeper=loud", "expected a level"),
            ("a=b=c", "expected a level"),
        ] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains(said), "{wrong}: {problem}");
        }
    }
}
