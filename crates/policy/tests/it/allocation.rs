//! Finding the rules of a request takes nothing from the heap.

use tollkeeper_policy::{Attributes, Policy};

#[test]
fn a_usual_request_allocates_nothing() {
    let file = "rules:
  per-ip: { limit: 1/s, key: ip }
  per-key: { limit: 1/s, key: [header:x-api-key, route], match: { path: /api/**, methods: GET } }
  item: { limit: 1/s, key: user, match: { path: \"/api/items/{id}\", host: api.example.com } }
  other: { limit: 1/s, match: { path: [/other/**, /**/x], headers: { x-a: \"1\" } } }
  paid: { limit: 1/s, tiers: { by: attribute:plan, limits: { pro: 2/s } }, cost: { attribute: n } }";
    let policy = Policy::parse(file, &|_| None).unwrap();
    let request = Attributes::from_pairs([
        ("method", "GET"),
        ("path", "/api/%69tems/4711/?page=2"),
        ("host", "api.example.com:443"),
        ("ip", "2001:db8:1:2::3"),
        ("header.x-api-key", "k-4711"),
        ("user", "alice"),
        ("plan", "pro"),
        ("n", "3"),
    ])
    .unwrap();
    let mut met = 0;
    let heap = allocation_counter::measure(|| met = policy.meet(&request).met.len());
    assert_eq!((met, heap.count_total), (4, 0));
}
