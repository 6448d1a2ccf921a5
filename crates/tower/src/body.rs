//! Owns [`Body`]: the answer's body, which holds a permit until it ends or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::held::InFlight;

pin_project! {
    /// The body of an answer, whoever wrote it.
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        inner: Inner<B>,
        // Given back when the body has ended, or with it.
        held: Option<InFlight>,
    }
}

pin_project! {
    #[project = InnerProj]
    #[derive(Debug)]
    enum Inner<B> {
        App { #[pin] body: B },
        Refusal { text: Option<String> },
    }
}

impl<B> Body<B> {
    pub(crate) fn of_app(body: B, held: Option<InFlight>) -> Self {
        Self { inner: Inner::App { body }, held }
    }

    pub(crate) fn refusal(text: String) -> Self {
        let text = Some(text).filter(|text| !text.is_empty());
        Self { inner: Inner::Refusal { text }, held: None }
    }
}

impl<B> http_body::Body for Body<B>
where
    B: http_body::Body,
    B::Data: From<String>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        match this.inner.project() {
            InnerProj::App { body } => {
                let frame = std::task::ready!(body.poll_frame(context));
                if !matches!(frame, Some(Ok(_))) {
                    drop(this.held.take());
                }
                Poll::Ready(frame)
            }
            InnerProj::Refusal { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            // While something is held, the end has to be seen.
            Inner::App { body } => self.held.is_none() && body.is_end_stream(),
            Inner::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::App { body } => body.size_hint(),
            Inner::Refusal { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}
