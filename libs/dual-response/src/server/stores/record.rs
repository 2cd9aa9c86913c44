//! A resource as a row of a table: the same columns in both databases, JSON as text, times in milliseconds.
//!
//! JSON is stored as text and not in the database's JSON type, so that a value is read exactly as it was
//! written.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BoxError;
use crate::server::{Principal, Resource, StoreError};

pub(super) const COLUMNS: &str = "id, owner_tenant, owner_subject, name, backing, columns, sample, total_count, \
     metadata, created_at, expires_at, access_count, last_accessed_at, schema_version";

#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) owner_tenant: Option<String>,
    pub(super) owner_subject: String,
    pub(super) name: String,
    pub(super) backing: String,
    pub(super) columns: String,
    pub(super) sample: String,
    pub(super) total_count: i64,
    pub(super) metadata: String,
    pub(super) created_at: i64,
    pub(super) expires_at: Option<i64>,
    pub(super) access_count: i64,
    pub(super) last_accessed_at: Option<i64>,
    pub(super) schema_version: i64,
}

impl Record {
    pub(super) fn of(resource: &Resource) -> Result<Self, StoreError> {
        Ok(Self {
            id: resource.id.clone(),
            owner_tenant: resource.owner.tenant.clone(),
            owner_subject: resource.owner.subject.clone(),
            name: resource.name.clone(),
            backing: to_text(&resource.query)?,
            columns: to_text(&resource.columns)?,
            sample: to_text(&resource.sample_data)?,
            total_count: to_i64(resource.total_count)?,
            metadata: to_text(&resource.metadata)?,
            created_at: resource.created_at.as_millisecond(),
            expires_at: resource.expires_at.map(Timestamp::as_millisecond),
            access_count: to_i64(resource.access_count)?,
            last_accessed_at: resource.last_accessed_at.map(Timestamp::as_millisecond),
            schema_version: resource.schema_version.into(),
        })
    }

    pub(super) fn into_resource(self) -> Result<Resource, StoreError> {
        let mut owner = Principal::subject(self.owner_subject);
        owner.tenant = self.owner_tenant;
        Ok(Resource {
            id: self.id,
            name: self.name,
            query: from_text(&self.backing)?,
            columns: from_text(&self.columns)?,
            total_count: from_number(self.total_count)?,
            sample_data: from_text(&self.sample)?,
            created_at: from_millis(self.created_at)?,
            expires_at: self.expires_at.map(from_millis).transpose()?,
            access_count: from_number(self.access_count)?,
            last_accessed_at: self.last_accessed_at.map(from_millis).transpose()?,
            metadata: from_text(&self.metadata)?,
            owner,
            schema_version: from_number(self.schema_version)?,
        })
    }
}

pub(super) fn unavailable(error: impl Into<BoxError>) -> StoreError {
    StoreError::Unavailable(error.into())
}

pub(super) fn to_text(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(damaged)
}

pub(super) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(damaged)
}

/// Converts a limit to the database's integer; a limit that is too large becomes the largest integer, which
/// has the same effect.
pub(super) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_i64(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(damaged)
}

fn from_number<T: TryFrom<i64, Error: Into<BoxError>>>(number: i64) -> Result<T, StoreError> {
    T::try_from(number).map_err(damaged)
}

fn from_millis(millis: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_millisecond(millis).map_err(damaged)
}

fn damaged(error: impl Into<BoxError>) -> StoreError {
    StoreError::Damaged(error.into())
}
