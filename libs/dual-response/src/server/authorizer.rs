//! Who is asking, and what they may do. The policy is the program's; the library asks it before every step.

use async_trait::async_trait;
use http::HeaderMap;

use super::{Error, Principal, Resource};

/// What somebody wants to do to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Right {
    /// See what it is, and read its rows.
    Read,
    /// Take away its end.
    Pin,
    /// Remove it.
    Delete,
}

/// The program's rules.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Who sent a request with these headers. [`Error::Unauthenticated`] is answered with 401.
    async fn principal(&self, headers: &HeaderMap) -> Result<Principal, Error>;

    /// Whether they may. A resource that somebody may not read does not exist for them (404); one that they may only
    /// read refuses the rest (403).
    fn allow(&self, principal: &Principal, resource: &Resource, right: Right) -> bool {
        let _ = right;
        *principal == resource.owner
    }
}

/// Everybody is the anonymous principal, so whoever knows the id of a resource without an owner may use it. A resource
/// that has an owner is out of reach until a program says who its callers are.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct IdIsEnough;

#[async_trait]
impl Authorizer for IdIsEnough {
    async fn principal(&self, _headers: &HeaderMap) -> Result<Principal, Error> {
        Ok(Principal::anonymous())
    }
}

/// Everybody who can reach the endpoints is one and the same principal, as on a machine that only one person uses.
#[derive(Clone, Debug)]
pub struct EveryoneIs(pub Principal);

#[async_trait]
impl Authorizer for EveryoneIs {
    async fn principal(&self, _headers: &HeaderMap) -> Result<Principal, Error> {
        Ok(self.0.clone())
    }
}
