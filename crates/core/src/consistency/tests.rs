//! What is leased, told and shared of a limit, and what is refused.

use super::*;

const SECOND_US: u64 = 1_000_000;

fn bucket(capacity: u64, count: u64, period_us: u64) -> Quota {
    Quota::token_bucket(capacity, Rate::new(count, period_us).unwrap()).unwrap()
}

#[test]
fn a_lease_keeps_back_what_may_be_out() {
    let quota = bucket(1000, 1000, SECOND_US);
    let lease = Consistency::lease(&quota, 4, None).unwrap();
    assert_eq!(lease, Consistency::Lease { period_us: 50_000 });
    assert_eq!(lease.stored(&quota), bucket(750, 1000, SECOND_US));
    assert_eq!(lease.most_out(&quota), Some(250));
    // One that fills slowly is leased for as long as it takes to be worth it.
    let slow = bucket(1003, 1000, 60 * SECOND_US);
    let lease = Consistency::lease(&slow, 4, None).unwrap();
    assert_eq!(lease, Consistency::Lease { period_us: 2_400_000 });
    assert_eq!(lease.stored(&slow), bucket(753, 1000, 60 * SECOND_US));
    assert_eq!(lease.most_out(&slow), Some(250));
    let shed =
        Quota::leaking_bucket(1000, Rate::new(1000, SECOND_US).unwrap(), LeakMode::Meter, None);
    let shed = shed.unwrap();
    assert_eq!(Consistency::lease(&shed, 4, None).unwrap().most_out(&shed), Some(250));
}

#[test]
fn a_window_keeps_nothing_back() {
    let quota = Quota::fixed_window(1000, 60 * SECOND_US).unwrap();
    let lease = Consistency::lease(&quota, 1, None).unwrap();
    assert_eq!(lease, Consistency::Lease { period_us: 1_000_000 });
    assert_eq!((lease.stored(&quota), lease.most_out(&quota)), (quota, None));
}

#[test]
fn what_is_too_small_says_how_much_would_do() {
    let told =
        |quota: &Quota, nodes| Consistency::lease(quota, nodes, None).unwrap_err().to_string();
    assert_eq!(
        told(&bucket(100, 100, SECOND_US), 4),
        "100 at once is too little to lease to 4 processes; expected at least 320, or \
         consistency: exact"
    );
    assert!(Consistency::lease(&bucket(320, 320, SECOND_US), 4, None).is_ok());
    assert_eq!(
        told(&bucket(10, 10_000, SECOND_US), 1),
        "10 at once is too little to lease to 1 process; expected at least 800, or \
         consistency: exact"
    );
    assert!(Consistency::lease(&bucket(800, 10_000, SECOND_US), 1, None).is_ok());
    let period = Consistency::lease(&bucket(1000, 1000, SECOND_US), 1, Some(SECOND_US));
    assert_eq!(
        period.unwrap_err().to_string(),
        "a period of 1s does not suit the limit; expected 10ms to 125ms"
    );
}

#[test]
fn reports_come_before_the_limit_is_as_new() {
    let told = |quota: &Quota, period_us, parts| {
        Consistency::sync(quota, period_us, parts).unwrap_err().to_string()
    };
    let quota = bucket(1000, 1000, SECOND_US);
    let synced = Consistency::sync(&quota, None, 16).unwrap();
    assert_eq!(synced, Consistency::Sync { period_us: 100_000, parts: 16 });
    assert_eq!(synced.stored(&quota), quota.share(16));
    assert_eq!(
        told(&quota, Some(0), 1),
        "a period of 0s does not suit the limit; expected 10ms to 500ms"
    );
    assert_eq!(
        told(&bucket(1, 1000, SECOND_US), None, 1),
        "the limit is as new after 1ms, before processes could tell each other what they \
         admitted; expected 20ms or more, or consistency: exact"
    );
    for parts in [0, 101, 1_000_000] {
        let expected = format!("1000 cannot be split over {parts} keys; expected 1 to 64 of them");
        assert_eq!(told(&quota, None, parts), expected);
    }
    let log = Quota::sliding_window_log(15, SECOND_US).unwrap();
    assert!(Consistency::sync(&log, None, 1).is_ok());
    assert_eq!(told(&log, None, 2), "15 cannot be split over 2 keys; expected 1 to 1 of them");
}

#[test]
fn everybody_has_a_whole_unit_of_what_is_shared() {
    let quota = bucket(10, 10, SECOND_US);
    assert_eq!(Consistency::share(&quota, None), Ok(Consistency::Share { nodes: None }));
    assert_eq!(Consistency::share(&quota, Some(10)), Ok(Consistency::Share { nodes: Some(10) }));
    assert_eq!(
        Consistency::share(&quota, Some(11)).unwrap_err().to_string(),
        "10 is less than one for each of 11 processes; expected a limit of at least 11, or \
         consistency: exact"
    );
}

/// The time that would be worth it had overflowed.
#[test]
fn what_would_take_ages_for_a_million_processes_is_refused() {
    let slow = bucket(1, 1, crate::limits::MAX_PERIOD_US);
    assert!(Consistency::lease(&slow, 1_000_000, None).is_err());
    let window = Quota::fixed_window(1, crate::limits::MAX_PERIOD_US).unwrap();
    assert!(Consistency::lease(&window, 1_000_000, None).is_err());
}

#[test]
fn what_only_the_store_can_hand_out_is_refused() {
    let permits = Quota::concurrency(9, SECOND_US).unwrap();
    let rate = Rate::new(100, SECOND_US).unwrap();
    let shaped = Quota::leaking_bucket(100, rate, LeakMode::Shape, None).unwrap();
    for quota in [permits, shaped] {
        assert!(Consistency::lease(&quota, 1, None).is_err());
        assert!(Consistency::sync(&quota, None, 1).is_err());
        assert!(Consistency::share(&quota, None).is_err());
    }
    let log = Quota::sliding_window_log(1000, SECOND_US).unwrap();
    assert!(Consistency::lease(&log, 1, None).is_err());
}

#[test]
fn who_decides_is_told_in_few_words() {
    let quota = bucket(1000, 1000, SECOND_US);
    for (how, told) in [
        (Consistency::default(), "exact"),
        (Consistency::lease(&quota, 4, None).unwrap(), "lease, 50ms"),
        (Consistency::sync(&quota, None, 1).unwrap(), "sync, 100ms"),
        (Consistency::sync(&quota, Some(250_000), 16).unwrap(), "sync, 250ms, 16 sub-shards"),
        (Consistency::share(&quota, Some(4)).unwrap(), "share of 4"),
        (Consistency::share(&quota, None).unwrap(), "share, counted"),
    ] {
        assert_eq!(how.to_string(), told);
    }
}

/// Its unit is longer than any period, which was taken for a reason to keep nothing back.
#[test]
fn a_lease_of_a_rate_with_many_digits_keeps_back_as_well() {
    let rate = Rate::fraction(100_000_002, 100_000_000, 1_000_000).unwrap();
    let quota = Quota::token_bucket(90, rate).unwrap();
    assert!(quota.bucket().is_some_and(|bucket| bucket.unit() > crate::limits::MAX_PERIOD_US));
    let lease = Consistency::lease(&quota, 1, Some(10_000_000)).unwrap();
    assert_eq!(lease.stored(&quota).limit(), 90 - 22);
}
