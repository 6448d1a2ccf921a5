//! Owns [`run`]: true time, and everything that happens in it, one event after another.

use tollkeeper_core::Quota;

use super::demand::Arrivals;
use super::flights::Flights;
use super::ledger::{Asked, Ledger};
use super::node::{Ask, Calls, Node, Reply, Telling, Told};
use super::process::{Held, Process};
use super::queue::{Event, Queue};
use super::report::Report;
use super::scenario::{Scenario, StoreSickness, StoreTrouble};
use super::store::Store;
use crate::dice::Dice;

/// How long a fleet goes on when no more requests come, so that those under way are answered.
const DRAIN_US: u64 = 1_000_000;

/// Who a new node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its number in the scenario.
    pub nth: usize,
    /// How many have had its place before, and crashed.
    pub life: u32,
    /// How many places there are.
    pub nodes: usize,
    /// The limit that the fleet shares.
    pub quota: Quota,
    /// Its clock.
    pub now_us: u64,
}

/// Lets a scenario happen to nodes that `factory` makes: one for each that joins, and for each that
/// takes the place of one that crashed.
pub fn run<N: Node>(scenario: &Scenario, mut factory: impl FnMut(&Seat) -> N) -> Report {
    run_boxed(scenario, &mut |seat| Box::new(factory(seat)))
}

/// Not generic, so that it is built here, where it is optimised, and not with each test.
fn run_boxed<'a>(scenario: &'a Scenario, factory: &'a mut Factory<'a>) -> Report {
    let mut world = World::new(scenario, factory);
    let end_us = scenario.duration_us + DRAIN_US;
    while let Some((at_us, event)) = world.queue.next().filter(|(at_us, _)| *at_us <= end_us) {
        world.now_us = at_us;
        world.happens(event);
    }
    let untold: u64 = world.processes.iter().map(Process::waiting).sum();
    world.ledger.report.untold += untold;
    world.ledger.close()
}

type Factory<'a> = dyn FnMut(&Seat) -> Box<dyn Node + 'a> + 'a;

/// A fleet at a moment.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) factory: &'a mut Factory<'a>,
    pub(super) now_us: u64,
    pub(super) queue: Queue,
    pub(super) processes: Vec<Process<'a>>,
    pub(super) store: Store,
    pub(super) trouble: Option<StoreTrouble>,
    pub(super) flights: Flights,
    /// For the network: what befalls one call changes what befalls the next.
    pub(super) dice: Dice,
    pub(super) calls: Calls,
    pub(super) told: Vec<Telling>,
    pub(super) ledger: Ledger,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, factory: &'a mut Factory<'a>) -> Self {
        let Scenario { seed, demand, quota, nodes, .. } = scenario;
        let arrivals =
            (0..nodes.len()).map(|nth| Arrivals::new(*seed, demand, quota, nth, nodes.len()));
        let mut world = Self {
            scenario,
            factory,
            now_us: 0,
            queue: Queue::default(),
            processes: arrivals.map(Process::new).collect(),
            store: Store::default(),
            trouble: None,
            flights: Flights::default(),
            dice: Dice::new(!seed),
            calls: Calls::default(),
            told: Vec::new(),
            ledger: Ledger::new(scenario),
        };
        world.arrange();
        world
    }

    /// Arranges all that is known beforehand.
    fn arrange(&mut self) {
        for (nth, trouble) in self.scenario.store.troubles.iter().enumerate() {
            assert!(trouble.from_us < trouble.to_us, "{trouble:?} ends before it begins");
            self.queue.at(trouble.from_us, Event::StoreSick { nth });
            self.queue.at(trouble.to_us, Event::StoreWell { nth });
        }
        for (node, plan) in self.scenario.nodes.iter().enumerate() {
            self.queue.at(plan.joins_us, Event::Join { node });
            for (nth, trouble) in plan.troubles.iter().enumerate() {
                assert!(trouble.from_us < trouble.to_us, "{trouble:?} ends before it begins");
                self.queue.at(trouble.from_us, Event::NodeSick { node, nth });
                self.queue.at(trouble.to_us, Event::NodeWell { node, nth });
            }
            if let Some(leaves_us) = plan.leaves_us {
                self.queue.at(leaves_us, Event::Leave { node });
            }
            self.arrange_arrival(node);
        }
    }

    fn arrange_arrival(&mut self, node: usize) {
        let (at_us, cost) = self.processes[node].arrivals.next();
        if at_us < self.scenario.duration_us {
            self.queue.at(at_us, Event::Arrive { node, cost });
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrive { node, cost } => self.arrive(node, cost),
            Event::Wake { node } => self.ring(node),
            Event::Reach(place) => self.reach(place),
            Event::Back(place) => self.come_back(place),
            Event::GiveUp(place) => self.give_up(place),
            Event::Join { node } => self.begin(node),
            Event::Leave { node } => self.leave(node),
            Event::NodeSick { node, nth } => {
                self.node_sick(node, self.scenario.nodes[node].troubles[nth].kind);
            }
            Event::NodeWell { node, nth } => {
                self.node_well(node, self.scenario.nodes[node].troubles[nth].kind);
            }
            Event::StoreSick { nth } => {
                let trouble = self.scenario.store.troubles[nth];
                if trouble.kind == StoreSickness::Emptied {
                    self.store = Store::default();
                }
                self.trouble = Some(trouble);
            }
            Event::StoreWell { .. } => self.trouble = None,
        }
    }

    fn arrive(&mut self, node: usize, cost: u64) {
        self.arrange_arrival(node);
        if self.processes[node].node.is_none() {
            self.ledger.faults().unserved += 1;
            return;
        }
        let asked = self.ledger.asked(node, cost, self.now_us);
        self.deliver(node, Held::Ask(asked));
    }

    /// Hands something to a node, or keeps it until the node is awake.
    pub(super) fn deliver(&mut self, node: usize, what: Held) {
        if self.processes[node].is_paused {
            self.processes[node].held.push((self.now_us, what));
            return;
        }
        match what {
            Held::Ask(asked) => self.ask(node, asked),
            Held::Reply { id, reply, ran_us } => {
                let failed = reply == Reply::Failed;
                if failed {
                    self.ledger.failed(node);
                }
                let decided_us = if failed { self.now_us } else { ran_us };
                self.with(node, decided_us, |node, now_us, calls, told| {
                    node.answered(now_us, id, reply, calls, told);
                });
            }
        }
    }

    fn ask(&mut self, at: usize, asked: Asked) {
        let mut heard = Told::Denied;
        let ask = Ask { id: asked.id, cost: asked.cost };
        self.with(at, self.now_us, |node, now_us, calls, _| heard = node.ask(now_us, ask, calls));
        match heard {
            Told::Admitted => self.ledger.admitted(at, asked, self.now_us, self.now_us),
            Told::Denied => {}
            Told::Waits => self.processes[at].wait(asked),
        }
    }

    /// Lets a node act, and carries out what it wants.
    pub(super) fn with(
        &mut self,
        at: usize,
        decided_us: u64,
        act: impl FnOnce(&mut dyn Node, u64, &mut Calls, &mut Vec<Telling>),
    ) {
        let Some(node) = self.processes[at].node.as_mut() else { return };
        let shown_us = self.scenario.nodes[at].skew.shows_us(self.now_us);
        act(node.as_mut(), shown_us, &mut self.calls, &mut self.told);
        self.tell(at, decided_us);
        self.send(at);
        self.arm(at);
    }
    /// Those who waited hear what the node said of them.
    fn tell(&mut self, at: usize, decided_us: u64) {
        if self.told.is_empty() {
            return;
        }
        for Telling { id, admitted } in self.told.drain(..) {
            let asked = self.processes[at].told(id);
            assert!(asked.is_some(), "node {at} tells {id:?}, who does not wait");
            let Some(asked) = asked else { continue };
            self.ledger.report.waited_us.push(self.now_us - asked.came_us);
            if admitted {
                self.ledger.admitted(at, asked, self.now_us, decided_us);
            }
        }
    }
}
