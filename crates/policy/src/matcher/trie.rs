//! Owns [`Trie`]: the paths of all rules, segment by segment.
//!
//! A path is followed on all ways at once: the set of nodes that are reached after each segment.
//! A node has one parent, so it is reached in one way, and a `**` that is reached stays reached. So
//! each segment costs at most one look at each node, whatever is written in the rules.

use ahash::RandomState;
use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use super::candidates::Candidates;
use crate::rule::PathPattern;
use crate::rule::path::Step;

/// Where every path begins.
const ROOT: u32 = 0;

/// No node.
const NONE: u32 = u32::MAX;

/// Nodes that are reached.
type Reached = SmallVec<[u32; 16]>;

#[derive(Clone)]
pub(super) struct Trie {
    nodes: Vec<Node>,
    /// From a node by an exact segment to the next.
    edges: HashTable<Edge>,
    hasher: RandomState,
    ends: Vec<Candidates>,
}

/// What has been seen of a path.
#[derive(Clone, Copy)]
struct Node {
    /// After one segment, whatever it is.
    one: u32,
    /// After any number of segments.
    rest: u32,
    /// How many edges begin here.
    edges: u32,
    /// The rules whose path ends here, among the ends.
    end: u32,
    /// The children, of every kind: the first one, and what follows this one.
    child: u32,
    sibling: u32,
}

#[derive(Clone)]
struct Edge {
    from: u32,
    to: u32,
    segment: SmallVec<[u8; 16]>,
}

impl Default for Trie {
    fn default() -> Self {
        Self::new(RandomState::new())
    }
}

impl Trie {
    pub(super) fn new(hasher: RandomState) -> Self {
        let root = Node { one: NONE, rest: NONE, edges: 0, end: NONE, child: NONE, sibling: NONE };
        Self { nodes: vec![root], edges: HashTable::new(), hasher, ends: Vec::new() }
    }

    /// Whether there is no path in it.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rules of a path, which is added if it is new.
    pub(super) fn at(&mut self, path: &PathPattern) -> &mut Candidates {
        let mut at = ROOT;
        for step in path.steps() {
            at = self.next(at, step);
        }
        let end = match self.node(at).end {
            NONE => {
                let end = index(self.ends.len());
                self.ends.push(Candidates::default());
                self.node_mut(at).end = end;
                end
            }
            end => end,
        };
        &mut self.ends[end as usize]
    }

    fn next(&mut self, at: u32, step: &Step) -> u32 {
        let known = match step {
            Step::Exact(segment) => self.follow(at, self.hash(segment), segment),
            Step::One => some(self.node(at).one),
            Step::Rest => some(self.node(at).rest),
        };
        if let Some(known) = known {
            return known;
        }
        let new = index(self.nodes.len());
        let sibling = std::mem::replace(&mut self.node_mut(at).child, new);
        self.nodes.push(Node { one: NONE, rest: NONE, edges: 0, end: NONE, child: NONE, sibling });
        match step {
            Step::Exact(segment) => {
                self.node_mut(at).edges += 1;
                let hash = from(self.hash(segment), at);
                let edge = Edge { from: at, to: new, segment: SmallVec::from_slice(segment) };
                let hasher = self.hasher.clone();
                let again = |edge: &Edge| from(hasher.hash_one(&*edge.segment), edge.from);
                self.edges.insert_unique(hash, edge, again);
            }
            Step::One => self.node_mut(at).one = new,
            Step::Rest => self.node_mut(at).rest = new,
        }
        new
    }

    /// Calls `found` for every path that a request's path is one of, and returns how many nodes
    /// were looked at. Where the path is `deep`, more segments follow that are not known: from a
    /// `**` on, every path is one of them.
    pub(super) fn walk(
        &self,
        segments: &[&[u8]],
        deep: bool,
        mut found: impl FnMut(&Candidates),
    ) -> usize {
        let mut looked_at = 1;
        let mut reached: Reached = smallvec![ROOT];
        let mut next = Reached::new();
        // In order. Those that were reached before the segment at hand.
        let mut rests = Reached::new();
        self.reach_rests(&reached, &mut rests);
        for segment in segments {
            let goes_on = |rest: &u32| !deep && self.node(*rest).child != NONE;
            if reached.is_empty() && !rests.iter().any(goes_on) {
                break;
            }
            let hash = self.hash(segment);
            next.clear();
            for &at in reached.iter().chain(rests.iter().filter(|_| !deep)) {
                looked_at += 1;
                let node = self.node(at);
                if node.edges > 0 {
                    next.extend(self.follow(at, hash, segment));
                }
                next.extend(some(node.one));
            }
            std::mem::swap(&mut reached, &mut next);
            self.reach_rests(&reached, &mut rests);
        }
        match deep {
            true => looked_at += self.below(rests, found),
            false => {
                for &at in reached.iter().chain(&rests) {
                    self.end(at).into_iter().for_each(&mut found);
                }
            }
        }
        looked_at
    }

    /// Adds what follows `reached` after no segment.
    fn reach_rests(&self, reached: &[u32], rests: &mut Reached) {
        for &at in reached {
            let rest = self.node(at).rest;
            if rest != NONE
                && let Err(place) = rests.binary_search(&rest)
            {
                rests.insert(place, rest);
            }
        }
    }

    /// Calls `found` for these nodes and all below them.
    fn below(&self, mut open: Reached, mut found: impl FnMut(&Candidates)) -> usize {
        let mut looked_at = 0;
        while let Some(at) = open.pop() {
            looked_at += 1;
            self.end(at).into_iter().for_each(&mut found);
            let mut child = self.node(at).child;
            while child != NONE {
                open.push(child);
                child = self.node(child).sibling;
            }
        }
        looked_at
    }

    fn hash(&self, segment: &[u8]) -> u64 {
        self.hasher.hash_one(segment)
    }

    /// The node after an exact segment, of which the hash is known.
    fn follow(&self, at: u32, hash: u64, segment: &[u8]) -> Option<u32> {
        let is_it = |edge: &Edge| edge.from == at && *edge.segment == *segment;
        self.edges.find(from(hash, at), is_it).map(|edge| edge.to)
    }

    fn end(&self, at: u32) -> Option<&Candidates> {
        self.ends.get(self.node(at).end as usize)
    }

    fn node(&self, at: u32) -> Node {
        self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }
}

fn some(node: u32) -> Option<u32> {
    (node != NONE).then_some(node)
}

/// A file has far fewer nodes than fit.
fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}

/// The hash of a segment that follows a node.
fn from(hash: u64, node: u32) -> u64 {
    hash ^ u64::from(node).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
