//! Numbers that stay, nodes that come and go.

use std::collections::BTreeSet;

use super::*;

fn place(port: u16) -> HostPort {
    HostPort { host: "h".to_owned(), port }
}

/// Thirds of the slots, and more of them in even parts.
fn view(ports: &[u16]) -> View {
    let count = u16::try_from(ports.len()).unwrap();
    let each = SLOTS / count;
    let ranges = ports.iter().enumerate().map(|(nth, port)| {
        let first = u16::try_from(nth).unwrap() * each;
        let last = if nth + 1 == ports.len() { SLOTS - 1 } else { first + each - 1 };
        (first, last, place(*port))
    });
    View { ranges: ranges.collect(), replicas: BTreeSet::new(), is_ok: true, epoch: 1 }
}

fn map(ports: &[u16]) -> Map<u16> {
    let mut map = Map::default();
    map.install(&view(ports), |place| place.port);
    map
}

fn install(map: &mut Map<u16>, ports: &[u16]) -> (Vec<u16>, bool) {
    let (gone, changed) = map.install(&view(ports), |place| place.port);
    (gone.iter().map(|node| **node).collect(), changed)
}

fn masters(map: &Map<u16>) -> Vec<u16> {
    map.masters().iter().map(|node| **node).collect()
}

#[test]
fn nobody_holds_anything_at_first() {
    let map = Map::<u16>::default();
    assert_eq!((map.owner(0), map.shard_of(0), map.shards()), (None, 0, 1));
    assert_eq!((map.masters().len(), map.shard_name(0)), (0, None));
}

#[test]
fn slots_lead_to_their_nodes() {
    let map = map(&[1, 2, 3]);
    for (slot, port) in [(0, 1), (5460, 1), (5461, 2), (10921, 2), (10922, 3), (16383, 3)] {
        assert_eq!(map.owner(slot).as_deref(), Some(&port), "{slot}");
        assert_eq!(map.shard_of(slot), usize::from(port) - 1, "{slot}");
    }
    assert_eq!((map.shards(), map.shard_name(1).as_deref()), (3, Some("h:2")));
    assert_eq!(map.owner(SLOTS), None);
}

#[test]
fn who_follows_a_master_has_its_number() {
    let mut map = map(&[1, 2, 3]);
    assert_eq!(install(&mut map, &[1, 2, 3]), (vec![], false));
    assert_eq!(install(&mut map, &[1, 9, 3]), (vec![2], true));
    assert_eq!((map.shard_of(6000), map.shards()), (1, 3));
    assert_eq!(map.shard_name(1).as_deref(), Some("h:9"));
    // And back.
    assert_eq!(install(&mut map, &[1, 2, 3]), (vec![9], true));
    assert_eq!((map.shard_of(6000), map.shards()), (1, 3));
}

#[test]
fn a_node_that_comes_has_a_number_of_its_own_and_one_that_goes_leaves_it() {
    let mut map = map(&[1, 2, 3]);
    assert_eq!(install(&mut map, &[1, 2, 3, 4]), (vec![], true));
    assert_eq!((map.shards(), map.shard_of(16383), masters(&map)), (4, 3, vec![1, 2, 3, 4]));
    assert_eq!(install(&mut map, &[1, 3]), (vec![2, 4], true));
    assert_eq!((map.shards(), masters(&map)), (4, vec![1, 3]));
    // The next that comes takes the first number that is free.
    assert_eq!(install(&mut map, &[1, 3, 7]), (vec![], true));
    assert_eq!((map.shards(), map.shard_name(1).as_deref()), (4, Some("h:7")));
}

#[test]
fn a_slot_that_was_moved_is_found_at_once_and_a_view_corrects_it() {
    let mut map = map(&[1, 2, 3]);
    assert_eq!(map.moved(0, &place(3), |_| unreachable!()).as_deref(), Some(&3));
    assert_eq!((map.owner(0).as_deref(), map.owner(1).as_deref()), (Some(&3), Some(&1)));
    assert_eq!(map.moved(1, &place(8), |place| place.port).as_deref(), Some(&8));
    // It has no number yet: it may follow one whose number it will have.
    assert_eq!((map.owner(1).as_deref(), map.shard_of(1), map.shards()), (Some(&8), 0, 3));
    assert_eq!(map.moved(1, &place(2), |_| unreachable!()).as_deref(), Some(&2));
    assert_eq!((map.owner(1).as_deref(), map.shard_of(1)), (Some(&2), 1));
    map.moved(1, &place(8), |_| unreachable!());
    // It was visited since the last view, so it stays for one more.
    assert_eq!(install(&mut map, &[1, 2, 3]), (vec![], true));
    assert_eq!(map.owner(1).as_deref(), Some(&1));
    assert_eq!(install(&mut map, &[1, 2, 3]), (vec![8], false));
}

#[test]
fn who_follows_a_master_has_its_number_also_where_a_call_was_there_before() {
    let mut map = map(&[1, 2, 3]);
    map.moved(6000, &place(9), |place| place.port);
    assert_eq!(install(&mut map, &[1, 9, 3]), (vec![2], true));
    assert_eq!((map.shard_of(6000), map.shards()), (1, 3));
    assert_eq!(map.shard_name(1).as_deref(), Some("h:9"));
}

#[test]
fn no_more_nodes_are_visited_than_there_can_be() {
    let mut map = map(&[1, 2, 3]);
    let most = u16::try_from(MOST_VISITED).unwrap();
    for port in 1..=most {
        assert!(map.moved(port, &place(port), |place| place.port).is_some());
    }
    assert_eq!(map.moved(0, &place(most + 1), |place| place.port), None);
    assert_eq!(map.visited(&place(most + 1), |place| place.port), None);
    assert_eq!((map.owner(0).as_deref(), map.nodes().len()), (Some(&1), MOST_VISITED));
    assert_eq!((map.shards(), map.moved(0, &place(7), |_| unreachable!()).is_some()), (3, true));
    install(&mut map, &[1, 2, 3]);
    install(&mut map, &[1, 2, 3]);
    assert_eq!(map.nodes().len(), 3);
}

#[test]
fn a_node_that_takes_over_is_kept_while_it_is_visited() {
    let mut map = map(&[1, 2]);
    for _ in 0..3 {
        assert_eq!(map.visited(&place(5), |place| place.port).as_deref(), Some(&5));
        assert_eq!(install(&mut map, &[1, 2]), (vec![], false));
    }
    assert_eq!((masters(&map), map.nodes().len()), (vec![1, 2], 3));
    assert_eq!(install(&mut map, &[1, 2]), (vec![5], false));
}

#[test]
fn more_nodes_than_are_told_apart_share_numbers() {
    let most = u16::try_from(MAX_SHARDS).unwrap();
    let ports: Vec<u16> = (1..=most + 2).collect();
    let map = map(&ports);
    assert_eq!(map.shards(), MAX_SHARDS);
    let first = format!("h:1,h:{}", most + 1);
    assert_eq!(map.shard_name(0), Some(first));
    assert_eq!((map.shard_of(SLOTS - 1), map.masters().len()), (1, MAX_SHARDS + 2));
    assert_eq!(map.owner(SLOTS - 1).as_deref(), Some(&(most + 2)));
}

#[test]
fn a_view_with_holes_leaves_slots_to_nobody() {
    let mut map = map(&[1, 2, 3]);
    let mut holed = view(&[1, 2, 3]);
    holed.ranges.remove(1);
    map.install(&holed, |place| place.port);
    assert_eq!((map.owner(6000), map.shard_of(6000)), (None, 0));
    // Whose it was is known again when it comes back.
    install(&mut map, &[1, 2, 3]);
    assert_eq!(map.shard_of(6000), 1);
}

/// Its breaker stayed open for ever, and with it the store counted as down.
#[test]
fn who_has_given_all_its_slots_away_is_used_no_more() {
    let mut map = map(&[1, 2, 3]);
    let used = |map: &Map<u16>| (0..3).map(|shard| map.is_used(shard)).collect::<Vec<_>>();
    assert_eq!(used(&map), [true, true, true]);
    install(&mut map, &[1, 3]);
    assert_eq!((map.shards(), used(&map)), (3, vec![true, false, true]));
    install(&mut map, &[1, 3, 7]);
    assert_eq!(used(&map), [true, true, true]);
    assert!(Map::<u16>::default().is_used(0));
}
