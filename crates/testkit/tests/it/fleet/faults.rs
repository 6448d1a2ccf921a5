//! Each thing that can befall a fleet does, and is told.

use std::cell::RefCell;
use std::rc::Rc;

use tollkeeper_testkit::fleet::{
    Ask, CallId, Calls, Dated, Node, NodeSickness, NodeTrouble, Op, Reply, Report, Scenario, Seat,
    Skew, StoreSickness, StoreTrouble, Telling, Told, run,
};

use super::bucket;
use super::nodes::{AsksAlways, Cheats};

/// What nodes saw: who, in which life, at what time of theirs, and what.
type Diary = Rc<RefCell<Vec<(usize, u32, u64, Seen)>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Begun,
    Asked,
    Woken { late_us: u64 },
    Answered,
    Failed,
    Left,
}

/// Looks at the store every 100 ms by its own clock, and writes down what it sees.
struct Writes {
    seat: Seat,
    diary: Diary,
    wake_us: u64,
}

const BEAT_US: u64 = 100_000;

impl Writes {
    fn new(seat: &Seat, diary: &Diary) -> Self {
        let writes = Self { seat: *seat, diary: Rc::clone(diary), wake_us: seat.now_us + BEAT_US };
        writes.write(seat.now_us, Seen::Begun);
        writes
    }

    fn write(&self, now_us: u64, seen: Seen) {
        self.diary.borrow_mut().push((self.seat.nth, self.seat.life, now_us, seen));
    }

    fn look(&self, calls: &mut Calls) {
        calls.send(0, self.seat.quota, Op::Decide { cost: 0, ticket: None });
    }
}

impl Node for Writes {
    fn ask(&mut self, now_us: u64, _: Ask, _: &mut Calls) -> Told {
        self.write(now_us, Seen::Asked);
        Told::Denied
    }

    fn answered(
        &mut self,
        now_us: u64,
        _: CallId,
        reply: Reply,
        _: &mut Calls,
        _: &mut Vec<Telling>,
    ) {
        let failed = reply == Reply::Failed;
        self.write(now_us, if failed { Seen::Failed } else { Seen::Answered });
    }

    fn wake_us(&self) -> Option<u64> {
        Some(self.wake_us)
    }

    fn wake(&mut self, now_us: u64, calls: &mut Calls, _: &mut Vec<Telling>) {
        self.write(now_us, Seen::Woken { late_us: now_us - self.wake_us });
        self.wake_us = now_us + BEAT_US;
        self.look(calls);
    }

    fn leave(&mut self, now_us: u64, calls: &mut Calls) {
        self.write(now_us, Seen::Left);
        self.look(calls);
    }
}

/// What a node saw of one kind: its life, and when by its clock.
fn seen(diary: &Diary, node: usize, which: impl Fn(Seen) -> bool) -> Vec<(u32, u64)> {
    let diary = diary.borrow();
    let its = diary.iter().filter(|(nth, _, _, seen)| *nth == node && which(*seen));
    its.map(|(_, life, at_us, _)| (*life, *at_us)).collect()
}

fn write_down(scenario: &Scenario) -> (Diary, Report) {
    let diary = Diary::default();
    let report = run(scenario, |seat| Writes::new(seat, &diary));
    (diary, report)
}

fn begun_us() -> u64 {
    Skew::default().shows_us(0)
}

/// A calm fleet of two, the second of which has this.
fn with_trouble(from_us: u64, to_us: u64, kind: NodeSickness) -> Scenario {
    let mut scenario = Scenario::calm(1, bucket(), 2);
    scenario.nodes[1].troubles.push(NodeTrouble { from_us, to_us, kind });
    scenario
}

fn with_sick_store(from_us: u64, to_us: u64, kind: StoreSickness) -> Scenario {
    let mut scenario = Scenario::calm(1, bucket(), 2);
    scenario.store.troubles.push(StoreTrouble { from_us, to_us, kind });
    scenario
}

#[test]
fn calls_and_answers_are_lost_as_often_as_the_network_says() {
    let mut scenario = Scenario::calm(1, bucket(), 4);
    scenario.network.lost_calls_ppm = 100_000;
    scenario.network.lost_answers_ppm = 50_000;
    let report = run(&scenario, AsksAlways::new);
    let faults = report.faults;
    let part = |count: u64| count as f64 / report.calls as f64;
    assert!((0.09..0.11).contains(&part(faults.lost_calls)), "{faults:?}");
    assert!((0.04..0.05).contains(&part(faults.lost_answers)), "{faults:?}");
    assert_eq!(report.failed, faults.lost_calls + faults.lost_answers);
    // A lost answer was charged all the same; the node waits until the time-out for either.
    assert!(report.utilisation() < 0.97, "{}", report.utilisation());
    assert_eq!(report.waited_us(100), scenario.network.time_out_us);
    assert_eq!(report.waited_us(50), 1_000);
    assert_eq!(report.excess(Dated::Decided), Some(0));
}

#[test]
fn answers_that_overtake_each_other_crowd_what_was_decided_apart() {
    let mut scenario = Scenario::calm(2, bucket(), 10);
    scenario.network.jitter_us = 2_000;
    let report = run(&scenario, AsksAlways::new);
    assert_eq!(report.excess(Dated::Decided), Some(0));
    assert!(report.excess(Dated::Told).unwrap() > 0);
    // Some come after the time-out, which is nine times the mean.
    assert!(report.failed > 0);
    assert_eq!(report.faults.lost_answers, 0);
}

#[test]
fn a_paused_node_is_late_by_its_own_clock() {
    let scenario = with_trouble(3_000_000, 3_700_000, NodeSickness::Paused);
    let (diary, report) = write_down(&scenario);
    let late = |node| seen(&diary, node, |seen| matches!(seen, Seen::Woken { late_us: 1.. }));
    assert_eq!(late(0), []);
    let awake_us = begun_us() + 3_700_000;
    assert_eq!(late(1), [(0, awake_us)]);
    let asked = seen(&diary, 1, |seen| seen == Seen::Asked);
    let at_once = asked.iter().filter(|(_, at_us)| *at_us == awake_us).count();
    // It is asked 1000 times a second.
    assert!((600..800).contains(&at_once), "{at_once}");
    let meanwhile = begun_us() + 3_000_001..awake_us;
    assert!(!asked.iter().any(|(_, at_us)| meanwhile.contains(at_us)));
    let latest_us = report.faults.latest_us;
    assert!((690_000..=700_000).contains(&latest_us), "{latest_us}");
}

#[test]
fn an_answer_to_a_paused_node_is_heard_when_it_wakes() {
    // A waking at 3.0 s has sent a call; its answer comes at 3.001 s.
    let scenario = with_trouble(3_000_500, 3_700_000, NodeSickness::Paused);
    let (diary, _) = write_down(&scenario);
    let answered = seen(&diary, 1, |seen| seen == Seen::Answered);
    let times: Vec<u64> = answered.iter().map(|(_, at_us)| at_us - begun_us()).collect();
    let around = times.iter().filter(|at_us| (2_950_000..3_790_000).contains(*at_us));
    assert_eq!(around.collect::<Vec<_>>(), [&3_700_000, &3_701_000]);
}

#[test]
fn a_crashed_node_forgets_and_another_begins() {
    // The call of the waking at 3.0 s is under way.
    let scenario = with_trouble(3_000_500, 4_000_000, NodeSickness::Crashed);
    let (diary, report) = write_down(&scenario);
    let begun = seen(&diary, 1, |seen| seen == Seen::Begun);
    assert_eq!(begun, [(0, begun_us()), (1, begun_us() + 4_000_000)]);
    let gone = begun_us() + 3_000_500..begun_us() + 4_000_000;
    assert!(!diary.borrow().iter().any(|(node, _, at_us, _)| *node == 1 && gone.contains(at_us)));
    assert_eq!((report.faults.crashes, report.faults.unheard), (1, 1));
    let unserved = report.faults.unserved;
    assert!((850..1_150).contains(&unserved), "{unserved}");
    // Who waits in a node that crashes is never told.
    let mut busy = scenario;
    busy.demand.percent = 1_000;
    let report = run(&busy, AsksAlways::new);
    assert_eq!(report.untold, report.requests - report.waited_us.len() as u64);
    assert!((1..20).contains(&report.untold), "{}", report.untold);
}

#[test]
fn a_clock_is_off_and_drifts() {
    let exact = Scenario::calm(1, bucket(), 2);
    let mut skewed = exact.clone();
    skewed.nodes[0].skew = Skew { offset_us: 40_000, drift_ppm: 200 };
    skewed.nodes[1].skew = Skew { offset_us: -9_000, drift_ppm: -200 };
    let ((true_diary, _), (diary, _)) = (write_down(&exact), write_down(&skewed));
    for (node, plan) in skewed.nodes.iter().enumerate() {
        let asked = |diary| seen(diary, node, |seen| seen == Seen::Asked);
        let (true_asked, asked) = (asked(&true_diary), asked(&diary));
        assert_eq!(true_asked.len(), asked.len());
        for ((_, true_us), (_, shown_us)) in true_asked.iter().zip(&asked) {
            assert_eq!(*shown_us, plan.skew.shows_us(true_us - begun_us()));
        }
        // Ten seconds gain or lose 2 ms.
        let gained_us = asked.last().unwrap().1.abs_diff(true_asked.last().unwrap().1);
        let gained_us = gained_us.abs_diff(plan.skew.offset_us.unsigned_abs());
        assert!((1_900..=2_000).contains(&gained_us), "{gained_us}");
        // A waking is due when its own clock shows it: never before, and in that microsecond.
        let late = |seen| matches!(seen, Seen::Woken { late_us: 2.. });
        assert_eq!(seen(&diary, node, late), []);
        assert!(seen(&diary, node, |seen| matches!(seen, Seen::Woken { .. })).len() >= 99);
    }
}

#[test]
fn a_node_that_is_cut_off_hears_nothing() {
    let scenario = with_trouble(3_000_000, 4_000_000, NodeSickness::CutOff);
    let report = run(&scenario, AsksAlways::new);
    let cut = 3_001_000..4_000_000;
    let of = |node| {
        let its = report.admissions.iter().filter(move |admission| admission.node == node);
        its.filter(|admission| cut.contains(&admission.told_us)).count()
    };
    assert_eq!(of(1), 0);
    // The other has the whole limit for itself.
    assert!(of(0) > 900, "{}", of(0));
    assert!(report.faults.lost_calls > 900 && report.faults.lost_answers <= 5);
}

#[test]
fn nodes_join_late_and_leave_for_good() {
    let mut scenario = Scenario::calm(1, bucket(), 3);
    scenario.nodes[1].joins_us = 4_000_000;
    scenario.nodes[2].leaves_us = Some(6_000_000);
    let (diary, report) = write_down(&scenario);
    assert_eq!(seen(&diary, 1, |seen| seen == Seen::Begun), [(0, begun_us() + 4_000_000)]);
    assert!(seen(&diary, 1, |_| true).iter().all(|(_, at_us)| *at_us >= begun_us() + 4_000_000));
    assert_eq!(seen(&diary, 2, |seen| seen == Seen::Left), [(0, begun_us() + 6_000_000)]);
    assert!(seen(&diary, 2, |_| true).iter().all(|(_, at_us)| *at_us <= begun_us() + 6_000_000));
    // What it sent in leaving ran, and nobody heard; so with the last look.
    assert!((1..=2).contains(&report.faults.unheard), "{}", report.faults.unheard);
}

#[test]
fn a_store_that_is_gone_refuses_and_comes_back_with_what_it_knew() {
    let scenario = with_sick_store(3_000_000, 5_000_000, StoreSickness::Crashed);
    let report = run(&scenario, AsksAlways::new);
    assert_eq!(report.failed, report.faults.refused);
    assert!(report.faults.refused > 3_700, "{:?}", report.faults);
    assert_eq!(report.excess(Dated::Decided), Some(0));
    // Who is refused hears it as fast as an answer.
    assert_eq!(report.waited_us(100), 1_000);
    let meanwhile = 3_001_000..5_000_000;
    assert!(!report.admissions.iter().any(|admission| meanwhile.contains(&admission.told_us)));
}

#[test]
fn a_store_that_forgets_is_over_by_what_it_forgot() {
    let scenario = with_sick_store(3_000_000, 3_000_001, StoreSickness::Emptied);
    let report = run(&scenario, AsksAlways::new);
    // The bucket was empty, and is full at once.
    let over = report.excess(Dated::Decided).unwrap();
    assert!((95..=100).contains(&over), "{over}");
}

#[test]
fn a_paused_store_does_late_what_nobody_waits_for_any_longer() {
    let scenario = with_sick_store(3_000_000, 3_100_000, StoreSickness::Paused);
    let report = run(&scenario, AsksAlways::new);
    // A time-out is 20 ms, so calls of about 80 ms are given up, and run. Those that ran within the
    // last half millisecond of theirs are answered too late.
    let too_late = report.failed - report.faults.ran_late;
    assert!(too_late < 10, "{too_late}");
    assert!((130..200).contains(&report.failed), "{}", report.failed);
    assert_eq!(report.waited_us(100), 20_000);
    assert_eq!(report.excess(Dated::Decided), Some(0));
    // What ran for nobody is charged: the burst that had come together went to waste.
    let after: u64 = report
        .admissions
        .iter()
        .filter(|admission| (3_000_000..3_101_000).contains(&admission.decided_us))
        .map(|admission| admission.units)
        .sum();
    assert!(after < 60, "{after}");
}

#[test]
fn what_befalls_nodes_changes_no_demand() {
    let scenario = Scenario::calm(8, bucket(), 6);
    let asked = |report: Report| report.nodes.iter().map(|node| node.demanded).collect::<Vec<_>>();
    let mut other = scenario.clone();
    other.network.lost_calls_ppm = 200_000;
    other.nodes[2].skew.drift_ppm = 100;
    assert_eq!(asked(run(&scenario, AsksAlways::new)), asked(run(&other, Cheats::new)));
}
