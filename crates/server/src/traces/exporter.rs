//! Owns [`Queue`] and [`TellOnce`]: how many spans wait to be sent, and that what happens to them is
//! told when it begins and when it ends, not for each batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};

/// How many spans wait, those that are being sent included, and how many found no place.
#[derive(Debug, Default)]
struct Places {
    taken: AtomicUsize,
    dropped: AtomicUsize,
}

/// Lets so many spans wait for the thread that sends them, and drops the others.
#[derive(Debug)]
pub(super) struct Queue {
    sender: BatchSpanProcessor,
    places: Arc<Places>,
    most: usize,
}

impl Queue {
    /// At most `most` spans wait for `exporter`, which sends them to `place`.
    pub(super) fn new(exporter: impl SpanExporter + 'static, place: String, most: usize) -> Self {
        let places = Arc::new(Places::default());
        let told = TellOnce {
            exporter,
            place,
            places: Arc::clone(&places),
            failing: AtomicBool::new(false),
        };
        Self { sender: BatchSpanProcessor::builder(told).build(), places, most }
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.sender.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.places.taken.fetch_add(1, Ordering::Relaxed) < self.most {
            return self.sender.on_end(span);
        }
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
        // Who sends tells of it, since whoever ends a span has better things to do.
        self.places.dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.sender.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.sender.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.sender.set_resource(resource);
    }
}

/// Hands spans on, and says when they are no longer taken, or not as fast as they come.
#[derive(Debug)]
struct TellOnce<E> {
    exporter: E,
    place: String,
    places: Arc<Places>,
    failing: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for TellOnce<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = self.exporter.export(batch).await;
        self.places.taken.fetch_sub(spans, Ordering::Relaxed);
        let dropped = self.places.dropped.swap(0, Ordering::Relaxed);
        let failing = exported.is_err() || dropped > 0;
        let failed = self.failing.swap(failing, Ordering::Relaxed);
        let error = exported.as_ref().err().map(ToString::to_string);
        match (failing, failed) {
            (true, false) => tracing::warn!(
                collector = self.place,
                error,
                dropped,
                "the collector does not take all traces: some are dropped"
            ),
            (false, true) => {
                tracing::info!(collector = self.place, "the collector takes all traces again");
            }
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
    use parking_lot::Mutex;

    use super::*;

    /// Tells of each batch, and ends it when it is told to.
    #[derive(Debug)]
    struct Slow {
        begun: SyncSender<usize>,
        go_on: Mutex<Receiver<()>>,
    }

    impl SpanExporter for Slow {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            let _ = self.begun.send(batch.len());
            let _ = self.go_on.lock().recv();
            Ok(())
        }
    }

    #[test]
    fn no_more_spans_wait_than_there_are_places() {
        let (begun, batches) = sync_channel(10);
        let (go_on, told) = sync_channel(10);
        let queue = Queue::new(Slow { begun, go_on: Mutex::new(told) }, "here".to_owned(), 600);
        let places = Arc::clone(&queue.places);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_span_processor(queue)
            .build();
        let tracer = provider.tracer("test");
        let end = |spans: usize| (0..spans).for_each(|_| drop(tracer.start("span")));
        // A whole batch is under way, which nobody takes.
        end(512);
        let mut sent = batches.recv().unwrap();
        end(600 - 512 + 7);
        assert_eq!(places.taken.load(Ordering::Relaxed), 600);
        assert_eq!(places.dropped.load(Ordering::Relaxed), 7);
        (0..10).for_each(|_| go_on.send(()).unwrap());
        provider.shutdown().unwrap();
        sent += batches.try_iter().sum::<usize>();
        assert_eq!(sent, 600);
        assert_eq!(places.taken.load(Ordering::Relaxed), 0);
    }
}
