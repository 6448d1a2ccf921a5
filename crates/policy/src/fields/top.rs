//! The tables of the file itself and of the settings beside the rules, but for the store.

use super::rule::RULE;
use super::store::{STORE, is_path};
use super::{Kind, Shape, TextForm, TextsForm, optional, required, secret};
use crate::limits::{MAX_NETWORKS, MAX_PATIENCE_US, MIN_PATIENCE_US};
use crate::networks;
use crate::settings::{HeaderStyle, is_token};

static HEADERS: TextsForm = TextsForm {
    expected: "`legacy`, `legacy-delta`, `ietf` or `openai`",
    pattern: "^(legacy|legacy-delta|ietf|openai)$",
    numbers: false,
    min: 0,
    max: HeaderStyle::ALL.len(),
};

static PROXIES: TextsForm = TextsForm {
    expected: networks::EXPECTED,
    pattern: "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
    numbers: false,
    min: 0,
    max: MAX_NETWORKS,
};

static TOKEN: TextForm = TextForm {
    expected: "16 to 1024 visible ASCII characters, such as \"${TOLLKEEPER_ADMIN_TOKEN}\"",
    pattern: "^[!-~]{16,1024}$",
    fits: is_token,
};

pub(crate) static TOP: Shape = Shape {
    doc: "A policy of Tollkeeper: which limits there are, where their state is kept, and where the service listens.",
    example: "{ rules: { api: { limit: 100/min } } }",
    fields: &[
        required(
            "rules",
            "The rules by name; a name is 1 to 64 of A-Z a-z 0-9 _ . -",
            Kind::Rules(&RULE),
        ),
        optional("store", "Where the state of the limits is kept.", Kind::Map(&STORE)),
        optional(
            "listen",
            "The addresses on which the service listens; a door not named stays closed. Without it, http on 127.0.0.1:8080.",
            Kind::Map(&LISTEN),
        ),
        optional(
            "upstream",
            "The app behind the gateway, such as http://127.0.0.1:3000; only with listen.gateway.",
            Kind::Upstream,
        ),
        optional("gateway", "How long the gateway waits.", Kind::Map(&GATEWAY)),
        optional("tls", "The certificate of every door.", Kind::Map(&TLS)),
        optional("client_ip", "How the address of a client is found.", Kind::Map(&CLIENT_IP)),
        optional(
            "headers",
            "The headers that answers carry; [legacy] if not given, [] for none. legacy is X-RateLimit-* with the reset as Unix seconds, legacy-delta the same with seconds to go, ietf is RateLimit and RateLimit-Policy, openai is x-ratelimit-*-requests and -tokens.",
            Kind::Texts(&HEADERS),
        ),
        secret("admin", "Who may make admin calls.", Kind::Map(&ADMIN)),
    ],
    later: &[],
};

pub(super) static LISTEN: Shape = Shape {
    doc: "The addresses on which the service listens.",
    example: "{ http: \"127.0.0.1:8080\" }",
    fields: &[
        optional("http", "The address of the HTTP API.", Kind::Address),
        optional(
            "admin",
            "The address of admin calls; without it they are answered at http.",
            Kind::Address,
        ),
        optional("gateway", "The address of the reverse proxy before upstream.", Kind::Address),
    ],
    later: &["grpc", "resp"],
};

static GATEWAY: Shape = Shape {
    doc: "How long the gateway waits.",
    example: "{ connect_timeout: 5s, timeout: 60s, tunnel_timeout: 1h }",
    fields: &[
        optional(
            "connect_timeout",
            "How long a connection to upstream may take; 5s if not given.",
            PATIENCE,
        ),
        optional(
            "timeout",
            "How long the client may take for the next bytes of a request, and upstream for those of its answer; 60s if not given.",
            PATIENCE,
        ),
        optional(
            "tunnel_timeout",
            "How long a WebSocket may be silent; 1h if not given.",
            PATIENCE,
        ),
    ],
    later: &[],
};

const PATIENCE: Kind = Kind::DurationWithin { min_us: MIN_PATIENCE_US, max_us: MAX_PATIENCE_US };

static TLS: Shape = Shape {
    doc: "The certificate of every door.",
    example: "{ certificate: /etc/tollkeeper/cert.pem, key: /etc/tollkeeper/key.pem }",
    fields: &[
        required(
            "certificate",
            "A PEM file of the certificate, and of those that lead to its authority.",
            Kind::Text(&PEM),
        ),
        required("key", "A PEM file of the certificate's private key.", Kind::Text(&PEM)),
    ],
    later: &[],
};

static PEM: TextForm = TextForm {
    expected: "the path of a file such as /etc/tollkeeper/cert.pem",
    pattern: "^.{1,4095}$",
    fits: is_path,
};

static CLIENT_IP: Shape = Shape {
    doc: "How the address of a client is found.",
    example: "{ trusted_proxies: [10.0.0.0/8], ipv6_prefix: 64 }",
    fields: &[
        optional(
            "trusted_proxies",
            "The networks of the proxies whose word on the client's address counts, and whose headers may set a cost or a tier; nobody's if not given.",
            Kind::Texts(&PROXIES),
        ),
        optional(
            "ipv6_prefix",
            "How many bits of an IPv6 address tell clients apart; 64 if not given.",
            Kind::Number { min: 1, max: 128 },
        ),
    ],
    later: &[],
};

static ADMIN: Shape = Shape {
    doc: "Who may make admin calls.",
    example: "{ token: \"${TOLLKEEPER_ADMIN_TOKEN}\" }",
    fields: &[secret(
        "token",
        "What admin calls must show, of at least 16 characters; without it they are answered to this machine alone.",
        Kind::Text(&TOKEN),
    )],
    later: &[],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_TOKEN_BYTES, MIN_TOKEN_BYTES};

    #[test]
    fn the_words_and_numbers_told_are_those_that_count() {
        assert_eq!(
            HEADERS.pattern,
            format!("^({})$", HeaderStyle::ALL.map(HeaderStyle::name).join("|"))
        );
        assert!(HeaderStyle::ALL.iter().all(|style| HEADERS.expected.contains(style.name())));
        assert!(TOKEN.expected.starts_with(&format!("{MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES} ")));
        assert!(TOKEN.pattern.contains(&format!("{{{MIN_TOKEN_BYTES},{MAX_TOKEN_BYTES}}}")));
    }
}
