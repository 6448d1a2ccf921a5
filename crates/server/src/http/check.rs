//! `/v1/check`, `/v1/check/batch` and `/v1/reserve`: what is asked, and what was decided.

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tollkeeper_core::Algorithm;
use tollkeeper_engine::{Ask, Encounter, EngineError, Judgement, Target, Verdict};
use tollkeeper_policy::{Attributes, Limit, nearest};
use tollkeeper_tower::{InFlight, ToTheEnd, check_waiting, repay};

use super::body::{MAX_BATCH_BODY, MAX_BODY, whole};
use super::fields::Fields;
use super::problem::Problem;
use super::strict::MAX_LIST;
use super::usual::Usual;
use super::{Engine, encode};
use crate::telemetry::deciding;
use crate::wire::AppEngine;

/// The most checks of one batch, and how many of them are under way at once.
const MAX_BATCH: usize = MAX_LIST;
const BATCH_WIDTH: usize = 128;

/// What names a check; each call has fields of its own beside them.
pub(super) const FIELDS: [&str; 5] = ["key", "rule", "limit", "algorithm", "cost"];

/// A check as the body spells it.
#[derive(Debug)]
pub(super) struct Asked<'b> {
    rule: Option<Cow<'b, str>>,
    limit: Option<Cow<'b, str>>,
    algorithm: Option<Algorithm>,
    key: Option<Cow<'b, str>>,
    cost: u64,
}

impl<'b> Asked<'b> {
    /// Takes the fields that name a check; those of the call itself are left.
    pub(super) fn take(fields: &mut Fields<'b>) -> Result<Self, Problem> {
        if fields.take("attributes").is_some() {
            return Err(Problem::bad_request(
                "`attributes` do not go with this call; send `rule` and `key`, or `limit` and `key`",
            ));
        }
        let algorithm = fields.text("algorithm")?;
        Self {
            rule: fields.text("rule")?,
            limit: fields.text("limit")?,
            algorithm: algorithm.as_deref().map(algorithm_of).transpose()?,
            key: fields.text("key")?,
            cost: fields.whole("cost")?.unwrap_or(1),
        }
        .checked()
    }

    /// A check as nearly every body spells it; nothing where a longer look is needed.
    pub(super) fn usual(body: &'b [u8]) -> Option<Self> {
        let Usual { rule, limit, algorithm, key, cost } = Usual::read(body)?;
        let asked = Self {
            rule: rule.map(Cow::from),
            limit: limit.map(Cow::from),
            algorithm: algorithm.map(str::parse).transpose().ok()?,
            key: key.map(Cow::from),
            cost: cost.unwrap_or(1),
        };
        asked.checked().ok()
    }

    /// The same, if its fields go together.
    fn checked(self) -> Result<Self, Problem> {
        match &self {
            Self { rule: Some(_), limit: Some(_), .. } => {
                Err(Problem::bad_request("`rule` and `limit` exclude each other; send one of them"))
            }
            Self { rule: None, limit: None, .. } => {
                Err(Problem::missing("rule", "the name of a rule, or a `limit` such as 10/min"))
            }
            Self { rule: Some(_), algorithm: Some(_), .. } => {
                Err(Problem::bad_request("`algorithm` goes with `limit`; a rule has its own"))
            }
            Self { limit: Some(_), key: None, .. } => {
                Err(Problem::missing("key", "who is counted, 1 to 1024 bytes"))
            }
            _ => Ok(self),
        }
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        let target = match (&self.rule, &self.limit) {
            (Some(rule), _) => Target::Rule(rule),
            (None, limit) => Target::Inline {
                limit: limit.as_deref().unwrap_or_default(),
                algorithm: self.algorithm,
            },
        };
        Ask { target, key: self.key.as_deref(), cost: self.cost }
    }
}

fn algorithm_of(name: &str) -> Result<Algorithm, Problem> {
    name.parse().map_err(|_| {
        let names = Algorithm::ALL.map(Algorithm::name);
        let near = nearest(name, names.iter().copied());
        Problem::algorithm(name, near, &names.join(", "))
    })
}

/// The request that `attributes` describe, for which the policy finds the rules.
fn described(fields: &mut Fields<'_>) -> Result<Option<Attributes>, Problem> {
    let Some(value) = fields.take("attributes") else { return Ok(None) };
    let Value::Object(pairs) = value else {
        return Err(Problem::field("attributes", &value.to_string(), "an object of texts"));
    };
    let mut attributes = Attributes::new();
    for (name, value) in pairs {
        let Value::String(text) = value else {
            let field = format!("attributes.{name}");
            return Err(Problem::field(&field, &value.to_string(), "a string"));
        };
        attributes.set(&name, &text).map_err(|error| Problem::bad_request(error.to_string()))?;
    }
    Ok(Some(attributes))
}

pub(super) async fn check(State(engine): Engine, body: Body) -> Response {
    answer(&engine, body).await
}

/// What `/v1/check` answers to a body.
pub(super) async fn answer<B>(engine: &Arc<AppEngine>, body: B) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
{
    decided(engine, body).await.unwrap_or_else(IntoResponse::into_response)
}

async fn decided<B>(engine: &Arc<AppEngine>, body: B) -> Result<Response, Problem>
where
    B: HttpBody<Data = Bytes> + Send + Unpin,
{
    let body = whole(body, MAX_BODY).await?;
    let mut fields = Fields::read(&body)?;
    if let Some(request) = described(&mut fields)? {
        fields.finish(&[&["attributes"]])?;
        // Those who name a rule are not to carry it along.
        let mut judging = Box::pin(judge(engine, engine.meet(&request)));
        return Ok(encode::judged(&deciding(engine, judging.as_mut()).await?));
    }
    let asked = Asked::take(&mut fields)?;
    fields.finish(&[&FIELDS, &["attributes"]])?;
    let checking = async {
        match engine.check_at_once(asked.ask()) {
            Ok(decided) => decided,
            Err(undecided) => check_waiting(engine, undecided).await,
        }
    };
    let verdict = deciding(engine, pin!(checking)).await?;
    Ok(encode::answer(&verdict))
}

/// Judges a request. What it was given comes back if its client does not wait for it.
pub(super) async fn judge(
    engine: &Arc<AppEngine>,
    encounter: Encounter,
) -> Result<Judgement, EngineError> {
    match engine.judge_at_once(encounter) {
        Ok(judged) => judged,
        Err(undecided) => check_waiting(engine, undecided).await.map(Judgement::Decided),
    }
}

pub(super) async fn reserve(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let body = whole(body, MAX_BODY).await?;
    let mut fields = Fields::read(&body)?;
    let ttl_us = fields.duration_us("ttl")?;
    if let Some(request) = described(&mut fields)? {
        fields.finish(&[&["attributes", "ttl"]])?;
        let judging = engine.judge_reserving(engine.meet(&request), ttl_us);
        let judgement = deciding(&engine, pin!(judging)).await?;
        return Ok(encode::judged(&judgement));
    }
    let asked = Asked::take(&mut fields)?;
    fields.finish(&[&FIELDS, &["attributes", "ttl"]])?;
    let verdict = deciding(&engine, pin!(engine.reserve(asked.ask(), ttl_us))).await?;
    Ok(encode::answer(&verdict))
}

/// One entry of a batch.
enum Entry {
    Named(Asked<'static>),
    Described(Attributes),
}

pub(super) async fn batch(State(engine): Engine, body: Body) -> Result<Response, Problem> {
    let body = whole(body, MAX_BATCH_BODY).await?;
    // One batch is the work of hundreds of calls, and a connection can bring one after the other:
    // whoever else waits goes first.
    tokio::task::yield_now().await;
    let entries = entries(&body)?;
    let (entries, Decided { verdicts, judgements }) = if may_hold(&engine, &entries) {
        let (asked, leaving) = (Arc::clone(&engine), Arc::clone(&engine));
        // The room that the entries take is taken until they are decided.
        let all = async move {
            let (entries, decided) = decide_all(&asked, entries).await;
            decided.verdicts().for_each(|verdict| repay(&asked, verdict));
            ((entries, decided), body)
        };
        let unheard = move |((_, decided), _): ((_, Decided), _)| decided.give_back(&leaving);
        let mut all = ToTheEnd::new(engine.returns(), all, unheard);
        deciding(&engine, Pin::new(&mut all)).await.0
    } else {
        deciding(&engine, pin!(decide_all(&engine, entries))).await
    };
    let (mut verdicts, mut judgements) = (verdicts.into_iter(), judgements.into_iter());
    let told = |told: Option<Result<Value, EngineError>>| match told {
        Some(Ok(decision)) => decision,
        Some(Err(error)) => Problem::from(error).to_json(),
        None => Value::Null,
    };
    let results: Vec<Value> = entries
        .iter()
        .map(|entry| match entry {
            Err(problem) => problem.to_json(),
            Ok(Entry::Named(_)) => {
                told(verdicts.next().map(|verdict| verdict.map(|it| encode::decision(&it))))
            }
            Ok(Entry::Described(_)) => {
                told(judgements.next().map(|judged| judged.map(|it| encode::judgement_json(&it))))
            }
        })
        .collect();
    Ok(Json(json!({ "results": results })).into_response())
}

/// What was decided on the entries of a batch, first those that name a limit.
struct Decided {
    verdicts: Vec<Result<Verdict, EngineError>>,
    judgements: Vec<Result<Judgement, EngineError>>,
}

type Entries = Vec<Result<Entry, Problem>>;

async fn decide_all(engine: &AppEngine, entries: Entries) -> (Entries, Decided) {
    let (mut asks, mut encounters) = (Vec::new(), Vec::new());
    for entry in entries.iter().flatten() {
        match entry {
            Entry::Named(asked) => asks.push(asked.ask()),
            Entry::Described(request) => encounters.push(engine.meet(request)),
        }
    }
    let verdicts = engine.check_many(&asks).await;
    let mut judgements = Vec::with_capacity(encounters.len());
    for some in encounters.chunks(BATCH_WIDTH) {
        let judging = some.iter().map(|encounter| engine.judge(encounter.clone()));
        judgements.extend(join_all(judging).await);
    }
    (entries, Decided { verdicts, judgements })
}

/// Whether any of it could take a permit.
fn may_hold(engine: &AppEngine, entries: &Entries) -> bool {
    let is_permits = |limit: &Limit| limit.quota().algorithm() == Algorithm::Concurrency;
    let is_inline = |entry: &Entry| {
        matches!(entry, Entry::Named(Asked { algorithm: Some(Algorithm::Concurrency), .. }))
    };
    engine.policy().rules().iter().any(|rule| rule.every_limit().any(is_permits))
        || entries.iter().flatten().any(is_inline)
}

impl Decided {
    fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let judged = self.judgements.iter().flatten().filter_map(|judged| match judged {
            Judgement::Decided(verdict) => Some(verdict),
            _ => None,
        });
        self.verdicts.iter().flatten().chain(judged)
    }

    /// Gives back what is held by entries whose client has gone.
    fn give_back(&self, engine: &Arc<AppEngine>) {
        self.verdicts().for_each(|verdict| drop(InFlight::of(engine, verdict)));
    }
}

/// The entries of a batch. The tree that they are read from, which is far larger, ends here.
fn entries(body: &[u8]) -> Result<Entries, Problem> {
    let mut fields = Fields::read(body)?;
    let checks = fields.list("checks")?;
    let checks = checks.ok_or_else(|| Problem::missing("checks", "a list of checks"))?;
    fields.finish(&[&["checks"]])?;
    if !(1..=MAX_BATCH).contains(&checks.count) {
        let detail = format!("`checks` has {} entries; expected 1 to {MAX_BATCH}", checks.count);
        return Err(Problem::bad_request(detail));
    }
    Ok(checks.kept.into_iter().enumerate().map(|(at, check)| entry(at, check)).collect())
}

fn entry(at: usize, check: Value) -> Result<Entry, Problem> {
    let mut fields = Fields::of(&format!("checks[{at}]"), check)?;
    if let Some(request) = described(&mut fields)? {
        fields.finish(&[&["attributes"]])?;
        return Ok(Entry::Described(request));
    }
    let asked = Asked::take(&mut fields)?;
    fields.finish(&[&FIELDS, &["attributes"]])?;
    Ok(Entry::Named(asked))
}

#[cfg(test)]
mod tests {
    use tollkeeper_testkit::dice::Dice;

    use super::*;

    const PIECES: [&str; 32] = [
        "{",
        "}",
        "{",
        "}",
        "\"key\":",
        "\"rule\":",
        "\"limit\":",
        "\"cost\":",
        "\"algorithm\":",
        "\"key\" : ",
        "\"a\"",
        "\"a\"",
        "\"gcra\"",
        "\"10/s\"",
        "\"\\u0061\"",
        "\"é\"",
        "\"\\n\"",
        "1",
        "0",
        "18446744073709551615",
        "18446744073709551616",
        "1.0",
        "1e3",
        "-1",
        "null",
        "true",
        ",",
        ",",
        " ",
        "\n",
        "[]",
        "\"attributes\":{}",
    ];

    fn body(dice: &mut Dice) -> String {
        if dice.one_in(4) {
            return (0..dice.below(12)).map(|_| dice.pick(&PIECES)).collect();
        }
        // Nearly a check: fields with values that are nearly theirs.
        let field = |dice: &mut Dice| {
            format!("{}{}", dice.pick(&PIECES[4..10]), dice.pick(&PIECES[10..24]))
        };
        let fields: Vec<String> = (0..dice.below(5)).map(|_| field(dice)).collect();
        format!("{{{}}}", fields.join(dice.pick(&[",", ", ", ",\n"])))
    }

    #[test]
    fn a_batch_has_so_many_checks_and_says_how_many_came() {
        let told = |count: usize| {
            let checks = vec!["0"; count].join(",");
            entries(format!("{{\"checks\":[{checks}]}}").as_bytes()).map(|entries| entries.len())
        };
        for count in [0, 1001, 300_000] {
            let problem = told(count).unwrap_err().to_json();
            let detail = format!("`checks` has {count} entries; expected 1 to 1000");
            assert_eq!(problem["detail"], detail.as_str());
        }
        assert_eq!((told(1).unwrap(), told(1000).unwrap()), (1, 1000));
        let other = entries(b"{\"checks\":{}}").err().unwrap().to_json();
        assert_eq!(other["detail"], "`checks` is `{}`; expected a list");
    }

    /// Who is answered at once asks for the same as it would after a longer look.
    #[test]
    fn what_is_read_at_once_is_what_a_longer_look_reads() {
        let (mut dice, mut usual) = (Dice::new(11), 0);
        for _ in 0..200_000 {
            let body = body(&mut dice);
            let Some(read) = Asked::usual(body.as_bytes()) else { continue };
            let mut fields = Fields::read(body.as_bytes()).unwrap();
            let looked = Asked::take(&mut fields).unwrap();
            fields.finish(&[&FIELDS]).unwrap();
            assert_eq!(format!("{read:?}"), format!("{looked:?}"), "{body}");
            usual += 1;
        }
        assert!(usual > 2_000, "only {usual} were usual");
    }
}
