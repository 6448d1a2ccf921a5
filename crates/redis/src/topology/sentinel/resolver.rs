//! Owns [`Resolver`]: what the sentinels say, who is the master.

use std::fmt;
use std::time::Duration;

use futures_util::future::join;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tollkeeper_core::HostPort;

use super::super::gather::gather;
use crate::driver::{Access, Client, Command, Driver, Fault, Line, Link, Reply};
use crate::examine::Wanted;

/// How long an answer counts for whoever asks next.
const FRESH: Duration = Duration::from_millis(50);

/// What to do where a sentinel does not let us in.
const SIGN_IN: &str = " (the sentinels' own user and password stand at the end of `store.url`: \
                       ?sentinel_user=U&sentinel_password=P)";

/// Names of masters that are told, and the longest part of one.
const MOST_NAMES: usize = 10;
const LONGEST_NAME: usize = 64;

/// Asks the sentinels of one master.
pub(super) struct Resolver {
    sentinels: Vec<(HostPort, Client)>,
    name: String,
    patience: Duration,
    last: Mutex<Last>,
    master: watch::Sender<Option<HostPort>>,
}

/// What was said last, and when; and by which election the master is that is known.
#[derive(Debug, Default)]
struct Last {
    answer: Option<(Instant, Result<HostPort, Fault>)>,
    known: Option<Elected>,
}

/// A master, and the number of the election that made it so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Elected {
    epoch: i64,
    place: HostPort,
}

/// What a sentinel says of the master.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Where it is.
    Is(Elected),
    /// It knows none of that name, but others.
    Unknown { others: Vec<String> },
}

impl Resolver {
    pub(super) fn new(places: &[HostPort], name: &str, access: &Access) -> Result<Self, Fault> {
        let client = |place: &HostPort| {
            let client = access.client(place, Wanted::Single).map_err(|fault| fault.at(place))?;
            Ok((place.clone(), client))
        };
        Ok(Self {
            sentinels: places.iter().map(client).collect::<Result<_, Fault>>()?,
            name: name.to_owned(),
            patience: access.patience(),
            last: Mutex::new(Last::default()),
            master: watch::Sender::new(None),
        })
    }

    /// What the master is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Follows where the master is, as far as anybody has asked.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<HostPort>> {
        self.master.subscribe()
    }

    /// Where the master is. Several who ask at about the same time ask the sentinels once.
    pub(super) async fn master(&self) -> Result<HostPort, Fault> {
        self.ask(FRESH).await
    }

    /// Where it is, as the sentinels say after this call.
    pub(super) async fn master_now(&self) -> Result<HostPort, Fault> {
        self.ask(Duration::ZERO).await
    }

    async fn ask(&self, fresh: Duration) -> Result<HostPort, Fault> {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = &last.answer
            && at.elapsed() < fresh
        {
            return answer.clone();
        }
        let asked = self.sentinels.iter().map(|(place, client)| async move {
            self.ask_one(client).await.map_err(|fault| fault.at(place))
        });
        // Connecting and answering have the patience of a connection each.
        let (said, faults) = gather(asked, self.patience * 2).await;
        let is_all = said.len() + faults.len() == self.sentinels.len();
        let newest = newest(&self.name, said, &faults);
        let elected = newest.map(|elected| settled(elected, last.known.as_ref(), is_all));
        if let Ok(elected) = &elected {
            last.known = Some(elected.clone());
            self.master.send_if_modified(|known| {
                let is_new = known.as_ref() != Some(&elected.place);
                *known = Some(elected.place.clone());
                is_new
            });
        }
        let answer = elected.map(|elected| elected.place);
        last.answer = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn ask_one(&self, client: &Client) -> Result<Said, Fault> {
        let line = client.connect().await?;
        let sentinel = |verb: &str| Command::new("SENTINEL").arg(verb);
        let (place, about) = (
            sentinel("GET-MASTER-ADDR-BY-NAME").arg(&self.name),
            sentinel("MASTER").arg(&self.name),
        );
        let (place, about) = join(line.call(&place), line.call(&about)).await;
        match place? {
            Reply::Nothing => Ok(Said::Unknown { others: names(&line).await }),
            place => {
                let text = "it does not answer as a sentinel does".to_owned();
                let place = place_of(&place).ok_or(Fault::Unconnected { text })?;
                let epoch = about.ok().as_ref().and_then(epoch).unwrap_or(0);
                Ok(Said::Is(Elected { epoch, place }))
            }
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whom to believe: one who speaks of an older election than is known has missed it, unless nobody
/// is left who could know better.
fn settled(elected: Elected, known: Option<&Elected>, is_all: bool) -> Elected {
    match known {
        Some(known) if known.epoch > elected.epoch && !is_all => known.clone(),
        _ => elected,
    }
}

/// What the latest election made the master. Who was away during one says something older.
fn newest(name: &str, said: Vec<Said>, faults: &[Fault]) -> Result<Elected, Fault> {
    let mut known: Vec<String> = Vec::new();
    let mut best: Option<Elected> = None;
    for said in said {
        match said {
            Said::Is(elected) if best.as_ref().is_none_or(|best| elected.epoch > best.epoch) => {
                best = Some(elected);
            }
            Said::Is(_) => {}
            Said::Unknown { others } => known.extend(others),
        }
    }
    if let Some(best) = best {
        return Ok(best);
    }
    known.sort_unstable();
    known.dedup();
    let text = match (known.is_empty(), faults) {
        (false, _) => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            let known = known.join(", ");
            format!("the sentinels know no master `{name}`; they know {known}")
        }
        (true, []) => format!("the sentinels know no master `{name}`, and no other"),
        (true, faults) => {
            let mut texts: Vec<&str> = faults.iter().map(Fault::text).collect();
            texts.dedup();
            let locked = ["NOAUTH", "WRONGPASS", "without any password"];
            let is_locked = faults.iter().any(|fault| locked.iter().any(|code| fault.says(code)));
            let advice = if is_locked { SIGN_IN } else { "" };
            format!("no sentinel answers: {}{advice}", texts.join("; "))
        }
    };
    Err(Fault::Unconnected { text })
}

/// The names of the masters that a sentinel knows.
async fn names(line: &Line) -> Vec<String> {
    let listed = line.call(&Command::new("SENTINEL").arg("MASTERS")).await;
    let masters = listed.ok().and_then(|masters| masters.list().map(<[Reply]>::to_vec));
    let name = |fields: &Reply| field(fields, "name").map(|name| shown(&name));
    masters.unwrap_or_default().iter().filter_map(name).take(MOST_NAMES).collect()
}

/// A name for a message.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

fn place_of(reply: &Reply) -> Option<HostPort> {
    let [host, port] = reply.list()? else { return None };
    let port = u16::try_from(port.whole()?).ok().filter(|port| *port != 0)?;
    Some(HostPort { host: host.text().filter(|host| !host.is_empty())?.to_owned(), port })
}

fn epoch(about: &Reply) -> Option<i64> {
    field(about, "config-epoch")?.parse().ok()
}

/// A field of a list of names and values.
fn field(fields: &Reply, name: &str) -> Option<String> {
    let texts = fields.texts()?;
    texts.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(port: u16) -> HostPort {
        HostPort { host: "10.0.0.1".to_owned(), port }
    }

    fn elected(port: u16, epoch: i64) -> Elected {
        Elected { epoch, place: place(port) }
    }

    fn text(text: &str) -> Reply {
        Reply::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn the_latest_election_counts_however_many_missed_it() {
        let (was, is) = (elected(1, 3), elected(2, 4));
        let (old, new) = (|| Said::Is(elected(1, 3)), || Said::Is(elected(2, 4)));
        assert_eq!(newest("m", vec![old(), new(), old()], &[]), Ok(is.clone()));
        assert_eq!(newest("m", vec![new(), old()], &[]), Ok(is.clone()));
        let stranger = || Said::Unknown { others: vec!["a".to_owned()] };
        assert_eq!(newest("m", vec![stranger(), old()], &[]), Ok(was.clone()));

        // Also when those who know it are slow to answer.
        assert_eq!(settled(was.clone(), Some(&is), false), is);
        assert_eq!(settled(was.clone(), Some(&is), true), was);
        assert_eq!(settled(was.clone(), None, false), was);
        assert_eq!(settled(is.clone(), Some(&was), false), is);
        assert_eq!(settled(elected(9, 4), Some(&is), false), elected(9, 4));
    }

    #[test]
    fn why_there_is_no_master_is_told() {
        let unknown = |others: &[&str]| Said::Unknown {
            others: others.iter().map(|name| (*name).to_owned()).collect(),
        };
        let down = [Fault::Unconnected { text: "h:1: nobody listens there".to_owned() }];
        for (said, faults, told) in [
            (
                vec![unknown(&["b", "a"]), unknown(&["a"])],
                &down[..],
                "the sentinels know no master `m`; they know `a`, `b`",
            ),
            (vec![unknown(&[])], &[], "the sentinels know no master `m`, and no other"),
            (vec![], &down, "no sentinel answers: h:1: nobody listens there"),
        ] {
            let text = told.to_owned();
            assert_eq!(newest("m", said, faults), Err(Fault::Unconnected { text }));
        }
        assert_eq!(shown("a\u{1b}[31m"), "a[31m");
    }

    #[test]
    fn what_is_no_place_is_none() {
        let list = |parts: &[&str]| Reply::List(parts.iter().map(|part| text(part)).collect());
        assert_eq!(place_of(&list(&["10.0.0.1", "7"])), Some(place(7)));
        for parts in [&["10.0.0.1", "0"][..], &["", "7"], &["h", "70000"], &["h"], &["h", "x"]] {
            assert_eq!(place_of(&list(parts)), None, "{parts:?}");
        }
        let about = list(&["name", "m", "config-epoch", "12"]);
        assert_eq!((epoch(&about), epoch(&list(&["config-epoch"]))), (Some(12), None));
    }
}
