//! Where keys lie: by a formula that is told, whatever the order, and moving as little as can be.

use super::*;

fn places(names: &[&str]) -> Vec<Place> {
    names.iter().map(|name| Place::new((*name).to_owned())).collect()
}

fn lies_at<'a>(names: &[&'a str], tag: &str) -> &'a str {
    names[place_of(places(names).iter(), tag)]
}

/// The vectors of `docs/deployment.md`, which another language can be held to.
#[test]
fn the_formula_is_the_one_that_is_told() {
    let names = ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"];
    let seeds = [0xbc54_d24f_5eb8_4857, 0x7823_4506_eeb2_3005, 0xde48_1a36_fae6_d394];
    assert_eq!(places(&names).iter().map(|place| place.seed).collect::<Vec<u64>>(), seeds);
    let table = [
        ("alice", 2, 0xf181_cc78_d662_7ffe),
        ("bob", 0, 0x6ce7_9fe8_053d_86f1),
        ("global", 2, 0xfae0_8432_8571_4e2a),
        ("203.0.113.7", 2, 0xdf82_2e25_be35_d7c2),
        ("acme", 0, 0xb879_2251_b46f_a104),
        ("a%3Ab", 0, 0xe3d5_cef6_c52a_4384),
        ("%all", 1, 0x86ff_0be6_22bf_319e),
    ];
    for (tag, nth, score) in table {
        assert_eq!(lies_at(&names, tag), names[nth], "{tag}");
        assert_eq!(places(&names)[nth].score(tag), score, "{tag}");
    }
}

#[test]
fn the_order_does_not_matter() {
    let names = ["a:1", "b:2", "c:3", "d:4"];
    let mut turned = names;
    for nth in 0..200 {
        turned.rotate_left(1);
        turned.swap(0, nth % 4);
        let tag = format!("key{nth}");
        assert_eq!(lies_at(&names, &tag), lies_at(&turned, &tag));
    }
}

#[test]
fn one_that_joins_or_leaves_moves_its_share_and_nothing_else() {
    const TAGS: usize = 20_000;
    for count in 2..=16 {
        let names: Vec<String> = (0..count).map(|nth| format!("redis-{nth}:6379")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (all, fewer) = (places(&names), places(&names[..count - 1]));
        let mut moved = 0;
        for nth in 0..TAGS {
            let tag = format!("user-{nth}");
            let (before, after) = (place_of(all.iter(), &tag), place_of(fewer.iter(), &tag));
            // Only what lay on the one that left lies elsewhere now.
            assert!(before == after || before == count - 1, "{tag}: {before} to {after}");
            moved += usize::from(before != after);
        }
        // Its share, within five standard deviations.
        let share = TAGS as f64 / count as f64;
        let deviation = (share * (1.0 - 1.0 / count as f64)).sqrt();
        assert!((moved as f64 - share).abs() < 5.0 * deviation, "{moved} of {share} moved");
    }
}
