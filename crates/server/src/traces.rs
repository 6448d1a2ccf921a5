//! Traces by OTLP, where the standard variables name a collector. The only file that knows
//! OpenTelemetry.
//!
//! Spans wait in a queue of bounded size for a thread that sends them; what does not fit is
//! dropped. So a collector that is slow or gone costs spans, and never a request its time.

use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::{Layer, Registry};

use crate::telemetry::SPANS;

mod environment;
mod exporter;

use environment::Collector;
use exporter::Queue;

/// The longest `traceparent` and `tracestate` that are continued, in bytes.
const MAX_CONTEXT: usize = 512;

/// How long a collector is waited for at the end. One that takes spans at all takes them sooner.
const MAX_FLUSH: Duration = Duration::from_secs(3);

/// What collects spans, for the subscriber.
pub type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Traces that are sent to a collector.
pub struct Traces {
    provider: SdkTracerProvider,
    place: String,
    sampler_problem: Option<String>,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Traces {
    /// Sends traces to the collector that the environment names, if it names one. To be called
    /// within a runtime.
    pub fn from_environment() -> Result<Option<(Self, TraceLayer)>, String> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(collector) = environment::read(&variable)? else { return Ok(None) };
        let Collector { place, is_plain, sampler_problem, names_service, most_waiting } = collector;
        // What was not taken is dropped: a collector that is gone holds nobody up, least of all
        // somebody who wants to stop.
        let mut exporter =
            SpanExporter::builder().with_tonic().with_retry_policy(RetryPolicy::disabled());
        if !is_plain {
            // Of itself the library would trust nobody.
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_native_roots());
        }
        let exporter =
            exporter.build().map_err(|error| format!("no traces are sent to {place}: {error}"))?;
        let mut resource = Resource::builder()
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        if !names_service {
            resource = resource.with_service_name("tollkeeper");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_span_processor(Queue::new(exporter, place.clone(), most_waiting))
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tollkeeper"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.target() == SPANS))
            .boxed();
        Ok(Some((Self { provider, place, sampler_problem }, layer)))
    }

    /// Says where traces go, once there is a log to say it in.
    pub fn announce(&self) {
        tracing::info!(collector = self.place, "traces are sent");
        if let Some(problem) = &self.sampler_problem {
            tracing::warn!(problem, "OTEL_TRACES_SAMPLER cannot be followed");
        }
    }

    /// Sends what has not been sent, for at most so long.
    pub async fn flush(self, within: Duration) {
        let within = within.min(MAX_FLUSH);
        let flushing = move || self.provider.shutdown_with_timeout(within);
        // What could not be sent has been told.
        let _ = tokio::task::spawn_blocking(flushing).await;
    }
}

/// Lets a span continue the trace that a request belongs to.
pub(crate) fn continues(span: &Span, headers: &HeaderMap) {
    if tracing::enabled!(target: SPANS, Level::INFO) && headers.contains_key("traceparent") {
        let parent = TraceContextPropagator::new().extract(&Carrier(headers));
        // It fails only for a span that nobody collects.
        let _ = span.set_parent(parent);
    }
}

/// Headers, as far as they say which trace a request belongs to.
struct Carrier<'a>(&'a HeaderMap);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let value = self.0.get(key).filter(|value| value.len() <= MAX_CONTEXT);
        value.and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
