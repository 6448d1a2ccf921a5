//! Reads a body: bounded in size and in time.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::problem::Problem;

/// The largest body of a single call.
pub(crate) const MAX_BODY: usize = 64 * 1024;

/// The largest body of a batch.
pub(crate) const MAX_BATCH_BODY: usize = 4 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away, so that the caller, who is still
/// sending, hears the answer instead of a broken connection.
const MAX_DISCARDED: usize = 256 * 1024 * 1024;

/// What all bodies together may hold beyond [`MAX_BODY`] each. Single calls never need it, so no
/// flood of batches is in their way.
const ROOM: usize = 256 * 1024 * 1024;

/// What is left of it, in pieces of [`MAX_BODY`].
static LEFT: Semaphore = Semaphore::const_new(ROOM / MAX_BODY);

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body, and the room that it has taken: what is made of it needs as much and more, so it is held
/// until there is an answer.
pub(crate) struct Whole {
    bytes: Bytes,
    _room: Room,
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body of at most `most` bytes.
pub(crate) async fn whole<B>(body: B, most: usize) -> Result<Whole, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut reading = pin!(read(body, most));
    // A body that came with its head is there at the second look: only a later one is timed.
    if let Poll::Ready(read) = look_twice(reading.as_mut()).await {
        return read;
    }
    timeout(PATIENCE, reading).await.map_err(|_| Problem::timeout())?
}

/// Polls what is not ready at once a second time, in the next turn of its task, and not again.
async fn look_twice<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    let mut looked = false;
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Pending if !looked => {
            looked = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
        polled => Poll::Ready(polled),
    })
    .await
}

/// The room that a large body has taken, until it is dropped.
#[derive(Default)]
struct Room(Vec<SemaphorePermit<'static>>);

impl Room {
    /// Takes what a body of so many bytes needs and has not got yet.
    fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        while (self.0.len() + 1) * MAX_BODY < bytes {
            self.0.push(LEFT.try_acquire().map_err(|_| Problem::busy())?);
        }
        Ok(())
    }
}

async fn read<B>(mut body: B, most: usize) -> Result<Whole, Problem>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > MAX_DISCARDED {
        return Err(Problem::too_large(most));
    }
    let mut room = Room::default();
    let mut pieces = Pieces::default();
    let mut arrived = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        arrived += data.len();
        if arrived <= most {
            room.take(arrived)?;
            pieces.add(data);
        } else if arrived > MAX_DISCARDED {
            break;
        }
    }
    match arrived > most {
        true => Err(Problem::too_large(most)),
        false => Ok(Whole { bytes: pieces.joined(), _room: room }),
    }
}

/// What has arrived of a body. Most are one piece, and that one is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    all: Vec<u8>,
}

impl Pieces {
    fn add(&mut self, piece: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = piece;
            return;
        }
        self.all.extend_from_slice(&std::mem::take(&mut self.first));
        self.all.extend_from_slice(&piece);
    }

    fn joined(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn pieces_are_joined_in_order() {
        let joined = |pieces: &[&'static str]| {
            let mut all = Pieces::default();
            pieces.iter().for_each(|piece| all.add(Bytes::from_static(piece.as_bytes())));
            all.joined()
        };
        assert_eq!(joined(&[]), "");
        assert_eq!(joined(&["a"]), "a");
        assert_eq!(joined(&["", "ab", "", "c", "d"]), "abcd");
    }

    #[tokio::test]
    async fn large_bodies_share_a_room_and_small_ones_need_none() {
        let mut rooms: Vec<Room> = Vec::new();
        for _ in 0..ROOM / MAX_BATCH_BODY {
            let mut room = Room::default();
            room.take(MAX_BATCH_BODY).unwrap();
            room.take(MAX_BATCH_BODY).unwrap();
            rooms.push(room);
        }
        // The first piece of each is not counted, so some is left.
        let mut last = Room::default();
        while last.take((last.0.len() + 2) * MAX_BODY).is_ok() {}
        assert_eq!(LEFT.available_permits(), 0);
        Room::default().take(MAX_BODY).unwrap();
        assert!(Room::default().take(MAX_BODY + 1).is_err());
        drop(rooms);
        drop(last);
        Room::default().take(MAX_BATCH_BODY).unwrap();
        // It was given back when the body had come, before anything was made of it.
        let body = Full::new(Bytes::from(vec![b' '; MAX_BATCH_BODY]));
        let held = whole(body, MAX_BATCH_BODY).await.unwrap_or_else(|_| unreachable!());
        assert_eq!(held.len(), MAX_BATCH_BODY);
        assert_eq!(LEFT.available_permits(), (ROOM - MAX_BATCH_BODY) / MAX_BODY + 1);
        drop(held);
        assert_eq!(LEFT.available_permits(), ROOM / MAX_BODY);
    }
}
