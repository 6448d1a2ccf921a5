//! Turns the raw settings beside the rules into settings.

use super::store;
use crate::error::{Fault, Problems};
use crate::limits::DEFAULT_IPV6_PREFIX;
use crate::nearest::nearest;
use crate::networks::{self, Networks};
use crate::policy::Settings;
use crate::raw::{RawField, RawMap};
use crate::refused::Refused;
use crate::settings::{ClientIp, GatewaySettings, HeaderStyle, Listen, Tls};
use crate::store_url::Secret;

/// The settings, with the default for what is not there or was refused.
pub(super) fn settings(raw: &RawMap, problems: &mut Problems) -> Settings {
    let default = Settings::default();
    upstream(raw, problems);
    let admin_token = raw.map("admin").and_then(|map| map.text("token")).map(Secret::new);
    let store = raw.map("store").map(|map| store::settings(map, problems));
    Settings {
        store: store.unwrap_or_default(),
        says_nodes: raw.map("store").is_some_and(|map| map.field("nodes").is_some()),
        listen: raw.map("listen").map_or(default.listen, |map| listen(map, problems)),
        client_ip: raw.map("client_ip").map(|map| client_ip(map, problems)).unwrap_or_default(),
        headers: headers(raw, problems).unwrap_or(default.headers),
        admin_token,
        upstream: raw.upstream("upstream").cloned(),
        gateway: raw.map("gateway").map(gateway).unwrap_or_default(),
        tls: raw.map("tls").and_then(tls),
    }
}

fn gateway(map: &RawMap) -> GatewaySettings {
    let default = GatewaySettings::default();
    let read = |name, default| map.duration_us(name).unwrap_or(default);
    GatewaySettings {
        connect_timeout_us: read("connect_timeout", default.connect_timeout_us),
        timeout_us: read("timeout", default.timeout_us),
        tunnel_timeout_us: read("tunnel_timeout", default.tunnel_timeout_us),
    }
}

fn tls(map: &RawMap) -> Option<Tls> {
    Some(Tls { certificate: map.text("certificate")?.into(), key: map.text("key")?.into() })
}

fn listen(map: &RawMap, problems: &mut Problems) -> Listen {
    let doors = ["http", "admin", "gateway"];
    for (index, door) in doors.iter().enumerate() {
        let (Some(field), Some(address)) = (map.field(door), map.address(door)) else { continue };
        let same = |other: &&&str| map.address(other) == Some(address) && address.port() != 0;
        if let Some(other) = doors[..index].iter().find(same) {
            let fault = Fault::new(format!("`{door}` has the same address as `{other}`"))
                .expected("an address and a port of its own")
                .help(format!("remove `{door}`, or give it another port"));
            problems.add(field.span, fault);
        }
    }
    Listen {
        http: map.address("http"),
        admin: map.address("admin"),
        gateway: map.address("gateway"),
    }
}

/// What stands behind a gateway is reached by a gateway, and is another; and only a gateway has patience.
fn upstream(raw: &RawMap, problems: &mut Problems) {
    let door = raw.map("listen").and_then(|map| map.field("gateway"));
    let was_refused = raw.field("listen").is_some_and(|field| field.value.is_none())
        || raw.map("listen").is_some_and(|map| map.has_unknown);
    for name in ["upstream", "gateway"] {
        if let Some(field) = raw.field(name)
            && door.is_none()
            && !was_refused
        {
            let fault = Fault::new(format!("`{name}` is given, and `listen` has no `gateway`"))
                .help("say where it listens, as in `listen: { gateway: \"127.0.0.1:8000\" }`");
            problems.add(field.key_span, fault);
        }
    }
    let Some(field) = raw.field("upstream") else { return };
    let gateway = raw.map("listen").and_then(|map| map.address("gateway"));
    if let (Some(gateway), Some(upstream)) = (gateway, raw.upstream("upstream"))
        && upstream.is_at(gateway)
    {
        let fault = Fault::new("`upstream` is the gateway itself")
            .expected("the address of the app")
            .help("give the app, or `listen.gateway`, another port");
        problems.add(field.span, fault);
    }
}

fn client_ip(map: &RawMap, problems: &mut Problems) -> ClientIp {
    let proxies = map.texts("trusted_proxies");
    let networks = proxies.map(|texts| texts.read(problems, networks::read)).unwrap_or_default();
    let prefix = map.count("ipv6_prefix").and_then(|prefix| u8::try_from(prefix).ok());
    ClientIp {
        trusted_proxies: Networks::new(networks),
        ipv6_prefix: prefix.unwrap_or(DEFAULT_IPV6_PREFIX),
    }
}

fn headers(raw: &RawMap, problems: &mut Problems) -> Option<Vec<HeaderStyle>> {
    let (field, texts) = (raw.field("headers")?, raw.texts("headers")?);
    let mut styles = Vec::new();
    texts.read(problems, |text| {
        let style = HeaderStyle::named(text).ok_or_else(|| unknown_style(text))?;
        match styles.contains(&style) {
            true => Err(Refused::new(", which stands here twice", "each one once")),
            false => {
                styles.push(style);
                Ok(())
            }
        }
    });
    both_legacy(field, &styles, problems);
    Some(styles)
}

fn both_legacy(field: &RawField, styles: &[HeaderStyle], problems: &mut Problems) {
    if [HeaderStyle::Legacy, HeaderStyle::LegacyDelta].iter().all(|style| styles.contains(style)) {
        let fault = Fault::new("`headers` has both `legacy` and `legacy-delta`")
            .help("they write the same headers: remove one of them");
        problems.add(field.key_span, fault);
    }
}

fn unknown_style(text: &str) -> Refused {
    let names = HeaderStyle::ALL.map(HeaderStyle::name);
    let expected = crate::error::one_of(names);
    let refused = Refused::new(", which is not known", expected);
    match nearest(text, names.into_iter()) {
        Some(near) => refused.help(format!("did you mean `{near}`?")),
        None => refused,
    }
}
