//! Many callers at once admit exactly what one caller would.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollkeeper_core::{Check, Quota};

use super::{START_US, Verdict, ask, ask_all, require, slow_quotas};
use crate::replay::Harness;

const CALLERS: u64 = 64;

/// Runs `call` on many threads at once, `each` times on every one; how often it said yes.
fn together(each: u64, call: impl Fn(u128) -> Result<bool, String> + Sync) -> Result<u64, String> {
    let gate = Barrier::new(usize::try_from(CALLERS).unwrap_or(64));
    let yes = AtomicU64::new(0);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (gate, yes, call) = (&gate, &yes, &call);
                scope.spawn(move || {
                    gate.wait();
                    for nth in 0..each {
                        if call(u128::from(caller * each + nth))? {
                            yes.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let joined = callers
            .into_iter()
            .map(|caller| caller.join().unwrap_or_else(|_| Err("a caller panicked".to_owned())));
        joined.collect::<Result<Vec<()>, String>>()
    })?;
    Ok(yes.into_inner())
}

/// 64 callers with 32 requests each on one key of limit 1000, for every algorithm.
pub(super) fn exactly_the_limit<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    for quota in slow_quotas(1000) {
        let key = format!("callers {}", quota.algorithm());
        let admitted = together(32, |id| {
            let check = Check::new("suite", &quota, &key, 1);
            Ok(ask_all(harness, &[check], id)?.allowed)
        })?;
        require(admitted == 1000, || format!("{key}: {admitted} admitted"))?;
    }
    Ok(())
}

/// Two limits, of which the second denies most: the first is charged for the admitted alone.
pub(super) fn the_second_denies<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    for first in slow_quotas(1000) {
        for second in slow_quotas(100) {
            let key = format!("second {} {}", first.algorithm(), second.algorithm());
            let admitted = together(4, |id| {
                let wide = Check::new("wide", &first, &key, 1);
                let narrow = Check { limit: "narrow", quota: &second, ..wide };
                Ok(ask_all(harness, &[wide, narrow], id)?.allowed)
            })?;
            require(admitted == 100, || format!("{key}: {admitted} admitted"))?;
            let look = Check::new("wide", &first, &key, 0);
            let left = ask_all(harness, &[look], 0)?.outcomes()[0].remaining;
            require(left == 900, || format!("{key}: {left} left of the first"))?;
        }
    }
    Ok(())
}

/// Requests that meet the same keys in opposite orders neither wait for each other nor miscount.
pub(super) fn crossing_keys<H: Harness>(harness: &H) -> Verdict {
    harness.clock().set(START_US);
    let quota = Quota::fixed_window(1000, 86_400_000_000).map_err(|error| error.to_string())?;
    let keys: Vec<String> = (0..8).map(|nth| format!("crossing {nth}")).collect();
    let admitted = together(40, |id| {
        let turn = usize::try_from(id % 8).unwrap_or(0);
        let mut order: Vec<&String> = keys[turn..].iter().chain(&keys[..turn]).collect();
        if id % 2 == 0 {
            order.reverse();
        }
        let check = |key| Check::new("suite", &quota, key, 1);
        let checks: Vec<Check<'_>> = order.into_iter().map(|key| check(key)).collect();
        Ok(ask_all(harness, &checks, id)?.allowed)
    })?;
    let least = if harness.is_one_whole() { 1000 } else { 1000 - CALLERS };
    require((least..=1000).contains(&admitted), || format!("{admitted} admitted"))?;
    // Whoever was denied wrongly has left nothing behind: the rest is there for one who comes alone.
    for nth in admitted..=1000 {
        let check = |key| Check::new("suite", &quota, key, 1);
        let checks: Vec<Check<'_>> = keys.iter().map(|key| check(key)).collect();
        let allowed = ask_all(harness, &checks, 0)?.allowed;
        require(allowed == (nth < 1000), || format!("alone after {nth}: {allowed}"))?;
    }
    for key in &keys {
        let left = ask(harness, &quota, key, 0)?.outcomes()[0].remaining;
        require(left == 0, || format!("{key}: {left} left"))?;
    }
    Ok(())
}
