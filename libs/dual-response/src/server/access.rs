//! The rights of one caller. REST, tools and `resources/read` all get rows through this type.

use std::sync::Arc;

use jiff::SignedDuration;

use super::export::{Export, ExportQuery};
use super::options::is_id;
use super::page::{checked_offset, checked_sort};
use super::sample::fitting_rows;
use super::{Backing, Error, Inner, Principal, Resource, ResourcePatch, Right};
use crate::wire::{Metadata, Page, PageQuery, Pinned, Status};

/// The server as one caller sees it: resources that the caller may not read do not exist.
#[derive(Clone)]
pub struct Access {
    pub(super) inner: Arc<Inner>,
    pub(super) principal: Principal,
}

impl Access {
    /// The metadata of a resource.
    pub async fn metadata(&self, id: &str) -> Result<Metadata, Error> {
        let resource = self.open(id, Right::Read).await?;
        Ok(Metadata {
            status: Status::Ready,
            name: resource.name,
            total_count: resource.total_count,
            columns: resource.columns,
            created_at: resource.created_at,
            expires_at: resource.expires_at,
            access_count: resource.access_count,
        })
    }

    /// A page of rows.
    pub async fn page(&self, id: &str, query: &PageQuery) -> Result<Page, Error> {
        let resource = self.open(id, Right::Read).await?;
        let page = self.inner.options.page_limits.check(query, &resource.columns)?;
        let rows = self.inner.rows(&resource, &self.principal)?;
        let (offset, limit) = (page.offset, page.limit);
        let (data, ()) = tokio::join!(rows.execute(page), self.inner.note_access(&resource));
        let mut data = data.map_err(Error::QueryExecutionFailed)?;
        data.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        data.truncate(fitting_rows(&data, self.inner.options.page_bytes_max));
        Ok(Page::new(data, offset, resource.total_count))
    }

    /// All rows, one batch after another.
    pub async fn export(&self, id: &str, query: &ExportQuery) -> Result<Export, Error> {
        let resource = self.open(id, Right::Read).await?;
        let offset = checked_offset(query.offset)?;
        let sort = checked_sort(&query.sort, &resource.columns)?;
        let rows = self.inner.rows(&resource, &self.principal)?;
        self.inner.note_access(&resource).await;
        // The count at creation bounds the export, because a query that ignores its offset would otherwise
        // run for ever.
        let left = resource.total_count.saturating_sub(offset);
        let count_max = query.limit.map_or(left, |limit| limit.min(left));
        let batch = self.inner.options.page_limits.rows_max;
        Ok(Export::new(resource, rows, sort, offset..offset + count_max, batch))
    }

    /// Pins a resource, so that it no longer expires.
    pub async fn pin(&self, id: &str) -> Result<Pinned, Error> {
        let resource = self.open(id, Right::Pin).await?;
        match self.inner.pin(&resource).await? {
            true => Ok(Pinned { status: Status::Pinned, expires_at: None }),
            false => Err(Error::NotFound),
        }
    }

    /// Removes a resource, whether expired or not.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.find(id, Right::Delete).await?;
        match self.inner.delete(id).await? {
            true => Ok(()),
            false => Err(Error::NotFound),
        }
    }

    /// The resource, if it can still be read.
    async fn open(&self, id: &str, right: Right) -> Result<Resource, Error> {
        let resource = self.find(id, right).await?;
        match self.inner.has_ended(&resource) {
            false => Ok(resource),
            true if self.inner.options.expired_as_not_found => Err(Error::NotFound),
            true => Err(Error::Expired),
        }
    }

    /// The resource, if the caller has the right. The right to read is checked before anything else, so that
    /// nobody can find out which ids exist.
    async fn find(&self, id: &str, right: Right) -> Result<Resource, Error> {
        if !is_id(id) {
            return Err(Error::NotFound);
        }
        let resource = self.inner.store.get(id).await?.ok_or(Error::NotFound)?;
        let allow = |right| self.inner.authorizer.allow(&self.principal, &resource, right);
        if !allow(Right::Read) {
            return Err(Error::NotFound);
        }
        if !allow(right) {
            return Err(Error::Forbidden);
        }
        Ok(resource)
    }
}

impl Inner {
    /// Counts an access. If the count can't be written, the rows are returned all the same.
    async fn note_access(&self, resource: &Resource) {
        let now = self.now();
        let mut patch = ResourcePatch::access(now);
        let extended = self.options.extend_on_access.and_then(|length| SignedDuration::try_from(length).ok());
        if let (Some(end), Some(length)) = (resource.expires_at, extended)
            && let Ok(later) = now.checked_add(length)
            && later > end
        {
            patch = patch.expiring(later);
            if resource.query == Backing::Live
                && let Some(live) = self.live().get_mut(&resource.id)
            {
                live.expires_at = Some(later);
            }
        }
        if let Err(error) = self.store.update(&resource.id, &patch).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "an access could not be counted");
        }
    }
}
