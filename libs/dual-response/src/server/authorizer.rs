//! The identity of a caller, and its rights. The policy belongs to the program; the library asks it before
//! every step.

use async_trait::async_trait;
use http::HeaderMap;

use super::{Error, Principal, Resource};

/// An operation on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// Read its metadata and its rows.
    Read,
    /// Pin it, so that it no longer expires.
    Pin,
    /// Remove it.
    Delete,
}

/// The program's rules.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// The principal that sent a request with these headers. [`Error::Unauthenticated`] is answered with 401.
    async fn principal(&self, headers: &HeaderMap) -> Result<Principal, Error>;

    /// Whether the principal may do this. A resource that it may not read does not exist for it (404); if it
    /// may only read the resource, other operations are refused (403).
    fn allow(&self, principal: &Principal, resource: &Resource, right: Right) -> bool {
        let _ = right;
        *principal == resource.owner
    }
}

/// Treats every caller as the anonymous principal, so whoever knows the id of a resource without an owner may
/// use it. Resources with an owner are out of reach until the program uses another authorizer.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct IdIsEnough;

#[async_trait]
impl Authorizer for IdIsEnough {
    async fn principal(&self, _headers: &HeaderMap) -> Result<Principal, Error> {
        Ok(Principal::anonymous())
    }
}

/// Treats every caller that can reach the endpoints as the same principal, as on a machine with only one
/// user.
#[derive(Clone, Debug)]
pub struct EveryoneIs(pub Principal);

#[async_trait]
impl Authorizer for EveryoneIs {
    async fn principal(&self, _headers: &HeaderMap) -> Result<Principal, Error> {
        Ok(self.0.clone())
    }
}
