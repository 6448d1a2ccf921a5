//! Owns [`Ready`]: what a request meets, and the name of what is to be held for it.

use tollkeeper_core::Ticket;

use crate::error::EngineError;
use crate::handle::{Handle, HandleKind, OwnedTarget};
use crate::met::Met;

/// What is ready for the store.
#[derive(Debug)]
pub(super) struct Ready {
    /// It is large, and handed on often.
    pub(super) met: Box<Met>,
    pub(super) ticket: Option<Ticket>,
    pub(super) handle: Option<Box<Handle>>,
}

/// Names what is to be held, if anything is.
pub(super) fn ready(
    met: Box<Met>,
    reserve_for_us: Option<u64>,
    name: impl FnOnce(&Met) -> (OwnedTarget, String),
) -> Result<Ready, EngineError> {
    let kind = match reserve_for_us {
        Some(_) => HandleKind::Reservation,
        None if met.holds_permits() => HandleKind::Permit,
        None => return Ok(Ready { met, ticket: None, handle: None }),
    };
    let id = u128::from_ne_bytes(random_bytes()?);
    let (target, key) = name(&met);
    let handle = Some(Box::new(Handle { kind, id, target, key, local: false }));
    Ok(Ready { met, ticket: Some(Ticket { id, reserve_for_us }), handle })
}

pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], EngineError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| EngineError::NoRandom)?;
    Ok(bytes)
}
