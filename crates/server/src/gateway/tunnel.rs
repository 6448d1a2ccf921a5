//! A connection that became another protocol: bytes both ways, until one end closes or both are
//! silent for too long.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy, split};
use tokio::task::JoinSet;

use super::progress::Progress;

/// How long one end may go on after the other has ended.
const LINGER: Duration = Duration::from_secs(1);

/// The tunnels that there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels(Arc<Mutex<JoinSet<()>>>);

impl Tunnels {
    /// Lets `tunnel` be, until it ends or all do.
    pub(super) fn open(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        let mut tunnels = self.0.lock();
        while tunnels.try_join_next().is_some() {}
        tunnels.spawn(tunnel);
    }

    /// Cuts them off. What they held has been let go of then.
    pub(crate) async fn close(&self) {
        let mut tunnels = std::mem::take(&mut *self.0.lock());
        tunnels.shutdown().await;
    }
}

/// Joins a client and the app, once both speak the new protocol. It ends after one to two
/// `patience` without a byte.
pub(super) async fn join(client: OnUpgrade, app: OnUpgrade, patience: Duration) {
    let progress = Progress::default();
    let tunnel = async {
        let Ok((client, app)) = tokio::try_join!(client, app) else { return };
        let counted = |stream| Counted { stream: TokioIo::new(stream), progress: progress.clone() };
        let (from_client, to_client) = split(counted(client));
        let (from_app, to_app) = split(counted(app));
        let mut up = pin!(pass(from_client, to_app));
        let mut down = pin!(pass(from_app, to_client));
        // What one end sent last reaches the other, which need not say goodbye itself.
        let _ = tokio::select! {
            () = up.as_mut() => tokio::time::timeout(LINGER, down).await,
            () = down.as_mut() => tokio::time::timeout(LINGER, up).await,
        };
    };
    let _ = progress.of(tunnel, patience).await;
}

/// Passes bytes on until there are no more. However that ends, there is nobody left to tell.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    if copy(&mut from, &mut to).await.is_ok() {
        let _ = to.shutdown().await;
    }
}

/// A stream that tells when something comes from it.
struct Counted<T> {
    stream: T,
    progress: Progress,
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.moved();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
