//! Builds the tree from the parser's events, and bounds it: depth, size, aliases.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

use super::expand::expand;
use super::syntax::{check_text, node_span, scan_error};
use super::{Entry, Lookup, Node, Scalar, Value};
use crate::error::{Fault, PolicyError, Problems, Span, quoted};
use crate::limits::{MAX_DEPTH, MAX_NODES};

/// The tree of the one document in `text`, or `None` where there is none to be had; then the
/// reason is among the problems.
pub(crate) fn parse(text: &str, env: Lookup<'_>, problems: &mut Problems) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let built = check_text(text).and_then(|()| {
        Builder {
            text,
            parser: Parser::new_from_str(text),
            anchors: HashMap::new(),
            open: Vec::new(),
            nodes: 0,
            env,
            problems,
        }
        .document()
    });
    built.map_err(|error| problems.push(error)).ok()
}

struct Builder<'t, 'p> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, Anchored>,
    /// Where each map and list begins that has not ended.
    open: Vec<Span>,
    /// Nodes so far, each alias counted as all that it stands for.
    nodes: usize,
    env: Lookup<'p>,
    problems: &'p mut Problems,
}

/// What an alias can stand for.
struct Anchored {
    node: Node,
    nodes: usize,
    height: usize,
}

/// A node and how deep it goes: 1 for a scalar.
type Built = (Node, usize);

impl<'t> Builder<'t, '_> {
    fn document(mut self) -> Result<Node, PolicyError> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentStart(_) if root.is_some() => {
                    let fault = Fault::new("a second document begins here")
                        .help("a policy is one document: remove this line and what follows");
                    return Err(PolicyError::new(span, fault));
                }
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                event => root = Some(self.node(event, span, 1)?.0),
            }
        }
        let empty = |node: &Node| matches!(&node.value, Value::Scalar(s) if s.is_null());
        root.filter(|node| !empty(node)).ok_or_else(|| {
            let fault = Fault::new("no rules: the file is empty")
                .help("begin with `rules: { api: { limit: 100/min } }`");
            PolicyError::new(Span::FILE, fault)
        })
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), PolicyError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let span = node_span(&event, &span);
                match event {
                    Event::MappingStart(..) | Event::SequenceStart(..) => self.open.push(span),
                    Event::MappingEnd | Event::SequenceEnd => drop(self.open.pop()),
                    _ => {}
                }
                Ok((event, span))
            }
            Some(Err(error)) => Err(scan_error(&error, self.text, self.open.last().copied())),
            None => Ok((Event::StreamEnd, Span::FILE)),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Built, PolicyError> {
        let before = self.nodes;
        self.count(1, depth, span)?;
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::MappingStart(anchor, tag)
            | Event::SequenceStart(anchor, tag) => (*anchor, tag.clone()),
            _ => (0, None),
        };
        let (mut value, height) = match event {
            Event::Alias(id) => return self.alias(id, span, depth),
            Event::Scalar(text, style, ..) => (self.scalar(&text, style, span), 1),
            Event::MappingStart(..) => self.map(depth)?,
            Event::SequenceStart(..) => self.list(depth)?,
            _ => (Value::Unreadable, 1),
        };
        if tag.is_some() {
            // Its name is not told: it may be a secret that begins with a `!`.
            let fault = Fault::new("tags are not supported")
                .help("remove the tag: what a value means follows from its field");
            self.problems.add(span, fault);
            value = Value::Unreadable;
        }
        let node = Node { span, value };
        if anchor != 0 {
            let anchored = Anchored { node: node.clone(), nodes: self.nodes - before, height };
            self.anchors.insert(anchor, anchored);
        }
        Ok((node, height))
    }

    fn count(&mut self, nodes: usize, depth: usize, span: Span) -> Result<(), PolicyError> {
        if depth > MAX_DEPTH {
            let fault = Fault::new(format!("this is nested deeper than {MAX_DEPTH} levels")).help(
                "a policy needs no more than 5 levels: look for brackets that are not closed",
            );
            return Err(PolicyError::new(span, fault));
        }
        if self.problems.is_full() {
            // One more is not kept, but ends the reading.
            return Err(PolicyError::new(span, "too much is wrong before this"));
        }
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let fault = Fault::new(format!("the file has more than {MAX_NODES} keys and values"))
                .help("each `*alias` counts as all that it stands for: use fewer of them");
            return Err(PolicyError::new(span, fault));
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<Built, PolicyError> {
        let Some(anchored) = self.anchors.get(&id) else {
            let fault = Fault::new("this alias stands inside what it is an alias for");
            return Err(PolicyError::new(span, fault));
        };
        let (node, height) = (anchored.node.clone(), anchored.height);
        // The alias itself was counted as one node.
        self.count(anchored.nodes - 1, depth + height - 1, span)?;
        Ok((node, height))
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Value {
        let written: Rc<str> = text.into();
        let (text, has_variable) = match expand(&written, self.env) {
            Ok(None) => (written.clone(), false),
            Ok(Some((text, has_variable))) => (text.into(), has_variable),
            Err(refusal) => {
                let mut at = span;
                let quote = usize::from(style != ScalarStyle::Plain);
                // Only a text without escapes or line breaks has its characters in their places.
                if span.length == written.chars().count() + 2 * quote {
                    at.column += quote + refusal.start;
                    at.length = refusal.length;
                }
                self.problems.add(at, refusal.fault);
                return Value::Unreadable;
            }
        };
        let plain = style == ScalarStyle::Plain;
        Value::Scalar(Scalar { text, written, plain, has_variable, veiled: false })
    }

    fn list(&mut self, depth: usize) -> Result<(Value, usize), PolicyError> {
        let (mut items, mut height) = (Vec::new(), 0);
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd | Event::StreamEnd) {
                return Ok((Value::List(items.into()), height + 1));
            }
            let (node, below) = self.node(event, span, depth + 1)?;
            height = height.max(below);
            items.push(node);
        }
    }

    fn map(&mut self, depth: usize) -> Result<(Value, usize), PolicyError> {
        let (mut entries, mut height) = (Vec::new(), 0);
        let mut lines: HashMap<Rc<str>, usize> = HashMap::new();
        let mut merges = false;
        loop {
            let (event, key_span) = self.next()?;
            if matches!(event, Event::MappingEnd | Event::StreamEnd) {
                let value = match merges {
                    true => Value::Unreadable,
                    false => Value::Map(entries.into()),
                };
                return Ok((value, height + 1));
            }
            self.count(1, depth + 1, key_span)?;
            let (key, is_merge) = key(event, key_span)?;
            let (event, span) = self.next()?;
            let (value, below) = self.node(event, span, depth + 1)?;
            height = height.max(below);
            if is_merge {
                merges = true;
                let fault = Fault::new("merge keys are not supported")
                    .help("write the fields out, or use `key: *anchor` for a whole value");
                self.problems.add(key_span, fault);
            } else if let Some(first) = lines.get(&key) {
                let fault = Fault::new(format!("{} stands twice in this map", quoted(&key)))
                    .help(format!("the first is on line {first}: remove or rename one"));
                self.problems.add(key_span, fault);
            } else {
                lines.insert(key.clone(), key_span.line);
                entries.push(Entry { key, key_span, value });
            }
        }
    }
}

/// The text of a key, and whether it is `<<`.
fn key(event: Event<'_>, span: Span) -> Result<(Rc<str>, bool), PolicyError> {
    match event {
        Event::Scalar(text, style, 0, None) => {
            let is_merge = text == "<<" && style == ScalarStyle::Plain;
            Ok((text.into(), is_merge))
        }
        _ => Err(PolicyError::new(
            span,
            Fault::new("a key must be a plain name").help(
                "write `name: value`, without an anchor, alias, tag, list or map as the name",
            ),
        )),
    }
}
