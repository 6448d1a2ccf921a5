//! Reads a body: bounded in size and in time, as a JSON object.

use std::time::Duration;

use axum::body::Body;
use axum::body::HttpBody;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::fields::Fields;
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

/// The object in a body of at most `most` bytes.
pub(crate) async fn object(body: Body, most: usize) -> Result<Fields, Problem> {
    let mut room = Room::default();
    let reading = read(body, most, &mut room);
    let bytes = timeout(PATIENCE, reading).await.map_err(|_| Problem::timeout())??;
    if bytes.is_empty() {
        return Err(Problem::bad_request("the body is empty; expected a JSON object"));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        let told = if error.is_data() { "cannot be used" } else { "is not valid JSON" };
        Problem::bad_request(format!("the body {told}: {error}"))
    })
}

/// The room that a large body has taken. It is given back once the body has been read.
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

async fn read(mut body: Body, most: usize, room: &mut Room) -> Result<Vec<u8>, Problem> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > MAX_DISCARDED {
        return Err(Problem::too_large(most));
    }
    let mut bytes = Vec::new();
    let mut arrived = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        arrived += data.len();
        if arrived <= most {
            room.take(arrived)?;
            bytes.extend_from_slice(&data);
        } else if arrived > MAX_DISCARDED {
            break;
        }
    }
    if arrived > most { Err(Problem::too_large(most)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bodies_share_a_room_and_small_ones_need_none() {
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
        Room::default().take(MAX_BATCH_BODY).unwrap();
    }
}
