//! Traces by OTLP: a real collector, a real service, and a collector that is not there.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Told;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tollkeeper_testkit::tls::Tls;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::kit::{Service, read_reply, request, until};

const POLICY: &str =
    "rules: { api: { match: { path: /api/** }, key: header:x-api-key, limit: 2/day } }";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// What came, spans with the resource that they are of.
type Got = Arc<Mutex<Vec<(Vec<KeyValue>, Span)>>>;

/// A collector that keeps what it gets, as long as it lives.
struct Collector {
    address: SocketAddr,
    got: Got,
    _runtime: tokio::runtime::Runtime,
}

struct Keep(Got);

#[tonic::async_trait]
impl TraceService for Keep {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        for resource in request.into_inner().resource_spans {
            let about = resource.resource.unwrap_or_default().attributes;
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans.map(|span| (about.clone(), span)));
        }
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    fn start() -> Self {
        Self::start_as(tonic::transport::Server::builder())
    }

    fn start_as(mut server: tonic::transport::Server) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, got) = (listener.local_addr().unwrap(), Got::default());
        let service = TraceServiceServer::new(Keep(Arc::clone(&got)));
        let incoming = TcpIncoming::from(listener);
        runtime.spawn(server.add_service(service).serve_with_incoming(incoming));
        Self { address, got, _runtime: runtime }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn spans(&self) -> Vec<Span> {
        self.got.lock().unwrap().iter().map(|(_, span)| span.clone()).collect()
    }
}

fn text_of(value: &AnyValue) -> String {
    match value.value.clone().unwrap() {
        Told::StringValue(text) => text,
        Told::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|pair| pair.key == name)?;
    Some(text_of(found.value.as_ref().unwrap()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn service(name: &str, policy: &str, variables: &[(&str, &str)]) -> Service {
    Service::launch(name, Some(policy), &[], variables)
}

#[expect(clippy::disallowed_methods, reason = "a real process is watched")]
fn stop(service: &mut Service) -> Duration {
    let begun = Instant::now();
    let pid = service.pid().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(service.wait().code(), Some(0));
    begun.elapsed()
}

/// Whether the process has a thread that sends spans.
fn sends(service: &Service) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", service.pid())).unwrap();
    let names =
        threads.flatten().filter_map(|it| std::fs::read_to_string(it.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with("OpenTelemetry"))
}

#[test]
fn a_request_is_a_span_that_continues_its_trace_with_a_child_for_the_decision() {
    let collector = Collector::start();
    let endpoint = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())];
    let endpoint = endpoint.each_ref().map(|(name, url)| (*name, url.as_str()));
    let mut service = service("traces", POLICY, &endpoint);
    until("it has a thread that sends", || sends(&service));
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("traceparent", parent.as_str()),
        ("tracestate", "vendor=1"),
        ("x-api-key", "secret-key"),
        ("authorization", "Bearer secret-token"),
    ];
    for _ in 0..3 {
        service.send("GET", "/api/resource?secret=query", &headers, b"");
    }
    service.post("/v1/check", r#"{"key":"secret-inline","limit":"5/h"}"#);
    let two = r#"{"checks":[{"key":"secret-a","limit":"1/h"},{"key":"secret-a","limit":"1/h"}]}"#;
    service.post("/v1/check/batch", two);
    service.get(&format!("/nowhere/{}", "long".repeat(1000)));
    // What has not been sent yet is sent before the end.
    assert!(stop(&mut service) < Duration::from_secs(10));

    let spans = collector.spans();
    let servers: Vec<&Span> =
        spans.iter().filter(|span| span.kind == SpanKind::Server as i32).collect();
    let names: Vec<&str> = servers.iter().map(|span| span.name.as_str()).collect();
    let get = "GET /api/resource";
    assert_eq!(names, [get, get, get, "POST /v1/check", "POST /v1/check/batch", "GET"]);
    for (nth, result, status) in
        [(0, "allowed", "200"), (1, "allowed", "200"), (2, "denied", "429")]
    {
        let span = servers[nth];
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!(span.trace_state, "vendor=1");
        for (name, value) in [
            ("http.request.method", "GET"),
            ("http.route", "/api/resource"),
            ("http.response.status_code", status),
            ("url.path", "/api/resource"),
            ("url.scheme", "http"),
            ("tollkeeper.door", "http"),
            ("tollkeeper.rule", "api"),
            ("tollkeeper.result", result),
            ("tollkeeper.source", "store"),
        ] {
            assert_eq!(attribute(&span.attributes, name).as_deref(), Some(value), "{name}");
        }
        let child = spans.iter().find(|child| child.parent_span_id == span.span_id).unwrap();
        assert_eq!((child.name.as_str(), child.kind), ("decide", SpanKind::Internal as i32));
        assert_eq!(child.trace_id, span.trace_id);
        assert_eq!(attribute(&child.attributes, "tollkeeper.result").as_deref(), Some(result));
        assert_eq!(attribute(&child.attributes, "tollkeeper.rule").as_deref(), Some("api"));
        assert_eq!(attribute(&child.attributes, "tollkeeper.store").as_deref(), Some("memory"));
        let within = span.start_time_unix_nano..=span.end_time_unix_nano;
        assert!(within.contains(&child.start_time_unix_nano));
        assert!(within.contains(&child.end_time_unix_nano));
    }
    // Nobody sent a trace with the others.
    assert!(servers[3].parent_span_id.is_empty() && hex(&servers[3].trace_id) != TRACE);
    let of_batch = |name: &str| attribute(&servers[4].attributes, name);
    assert_eq!(of_batch("tollkeeper.decisions").as_deref(), Some("2"));
    assert_eq!(
        (of_batch("tollkeeper.result").as_deref(), of_batch("tollkeeper.rule")),
        (Some("mixed"), None)
    );
    assert_eq!(attribute(&servers[5].attributes, "url.path").unwrap().len(), 256);
    let (about, _) = collector.got.lock().unwrap()[0].clone();
    assert_eq!(attribute(&about, "service.name").as_deref(), Some("tollkeeper"));
    let everything = format!("{:?}{}", collector.got.lock().unwrap(), service.log());
    assert!(!everything.contains("secret"), "{everything}");
}

#[test]
fn a_failure_of_the_service_is_the_spans_status() {
    let collector = Collector::start();
    let url = collector.url();
    let variables =
        [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url.as_str()), ("OTEL_SERVICE_NAME", "edge")];
    let policy =
        "store: { url: redis://127.0.0.1:1, on_failure: closed }\nrules: { api: { limit: 1/day } }";
    let mut service = service("traces-closed", policy, &variables);
    assert_eq!(service.get("/api/resource").status, 503);
    stop(&mut service);
    let got = collector.got.lock().unwrap().clone();
    let (about, span) = got.iter().find(|(_, span)| span.kind == SpanKind::Server as i32).unwrap();
    assert_eq!(attribute(about, "service.name").as_deref(), Some("edge"));
    assert_eq!(span.status.as_ref().unwrap().code, 2, "{span:?}");
    assert_eq!(attribute(&span.attributes, "error.type").as_deref(), Some("503"));
    assert_eq!(attribute(&span.attributes, "tollkeeper.source").as_deref(), Some("fallback"));
}

#[test]
fn a_collector_with_a_certificate_is_believed_if_the_system_knows_who_signed_it() {
    let tls = Tls::new().unwrap();
    let read = |path| std::fs::read(path).unwrap();
    let identity = Identity::from_pem(read(tls.certificate()), read(tls.key()));
    let config = ServerTlsConfig::new().identity(identity);
    let collector =
        Collector::start_as(tonic::transport::Server::builder().tls_config(config).unwrap());
    let url = format!("https://{}", collector.address);
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    for (known, spans) in [(tls.ca(), 1), (tls.client_certificate(), 0)] {
        collector.got.lock().unwrap().clear();
        let known = ("SSL_CERT_FILE", known.to_str().unwrap());
        let mut service = service("traces-tls", POLICY, &[endpoint, known]);
        assert_eq!(service.get("/healthz").status, 200);
        stop(&mut service);
        assert_eq!(collector.spans().len(), spans, "{}", service.log());
        assert_eq!(service.log().contains("does not take all traces"), spans == 0);
    }
}

#[test]
fn the_sampler_is_the_one_that_was_asked_for() {
    for (sampler, flags, spans) in [
        ("always_off", "01", 0),
        ("parentbased_always_on", "00", 0),
        ("parentbased_always_off", "01", 2),
        ("always_on", "00", 2),
    ] {
        let collector = Collector::start();
        let url = collector.url();
        let variables =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_TRACES_SAMPLER", sampler)];
        let mut service = service("traces-sampled", POLICY, &variables);
        let parent = format!("00-{TRACE}-{PARENT}-{flags}");
        let headers = [("traceparent", parent.as_str()), ("x-api-key", "k")];
        assert_eq!(service.send("GET", "/api/resource", &headers, b"").status, 200);
        stop(&mut service);
        assert_eq!(collector.spans().len(), spans, "{sampler} {flags}");
    }
}

#[test]
fn without_the_variables_nothing_is_there_and_what_cannot_be_followed_is_told() {
    let collector = Collector::start();
    let url = collector.url();
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    for (variables, told) in [
        (&[][..], ""),
        (&[endpoint, ("OTEL_SDK_DISABLED", "true")], ""),
        (&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], "expected grpc"),
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url")], "traces are off"),
    ] {
        let mut service = service("traces-none", POLICY, variables);
        assert_eq!(service.get("/healthz").status, 200);
        assert!(!sends(&service), "{variables:?}");
        stop(&mut service);
        let log = service.log();
        assert!(log.contains(told), "{log}");
        assert_eq!(log.contains("traces"), !told.is_empty(), "{log}");
    }
    assert!(collector.spans().is_empty());
}

#[test]
fn a_collector_that_is_not_there_costs_nobody_anything_and_is_told_once() {
    let variables = [
        // Nobody listens there, and there are many batches.
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:hunter2@127.0.0.1:1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
    ];
    let mut service = service("traces-dead", POLICY, &variables);
    let failing = "the collector does not take all traces";
    assert_eq!(service.get("/healthz").status, 200);
    until("it is told", || service.log().contains(failing));
    for _ in 0..200 {
        assert_eq!(service.get("/healthz").status, 200);
    }
    assert!(stop(&mut service) < Duration::from_secs(5));
    let log = service.log();
    assert_eq!(log.matches(failing).count(), 1, "{log}");
    assert!(log.contains("collector=127.0.0.1:1") && !log.contains("hunter2"), "{log}");
}

#[test]
fn a_collector_that_never_answers_costs_spans_and_no_request() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
    let mut service = service("traces-silent", POLICY, &variables);
    // More than the queue has room for.
    let mut stream = TcpStream::connect(service.address).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..60 {
        stream.write_all(&request("GET", "/healthz", &[], b"").repeat(50)).unwrap();
        for _ in 0..50 {
            assert_eq!(read_reply(&mut reader).status, 200);
        }
    }
    drop((stream, reader));
    assert!(stop(&mut service) < Duration::from_secs(8));
}
