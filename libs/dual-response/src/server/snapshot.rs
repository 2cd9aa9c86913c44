//! Rows that the store keeps: written once, read in pages, sorted in memory.

use std::cmp::Ordering;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::executor::{Lines, Rows};
use super::sample::json_bytes;
use super::{Error, Inner, PageRequest, Resource, ResourceStore};
use crate::BoxError;
use crate::wire::{Order, Row, Sort};

/// The number of rows that are read or written in one step.
const BATCH: usize = 1000;

impl Inner {
    /// All rows of a query; fails if they are too many.
    pub(super) async fn read_all(&self, rows: &dyn Rows, total_count: u64) -> Result<Vec<Row>, Error> {
        let mut all: Vec<Row> = Vec::new();
        let mut bytes = 0;
        while (all.len() as u64) < total_count {
            let mut page = PageRequest::new(all.len() as u64, BATCH as u64);
            page.after = all.last().cloned();
            let mut batch = rows.execute(page).await.map_err(Error::QueryExecutionFailed)?;
            batch.truncate(BATCH);
            if batch.is_empty() {
                break;
            }
            bytes = self.check_snapshot_bytes(&batch, bytes)?;
            all.append(&mut batch);
        }
        all.truncate(usize::try_from(total_count).unwrap_or(usize::MAX));
        Ok(all)
    }

    /// The size of a snapshot after these rows are added; fails if that is too large.
    pub(super) fn check_snapshot_bytes(&self, rows: &[Row], before: usize) -> Result<usize, Error> {
        let bytes = before + rows.iter().map(json_bytes).sum::<usize>();
        let most = self.options.snapshot_bytes_max;
        if bytes > most {
            return Err(Error::LimitExceeded { what: format!("a snapshot can have at most {most} bytes") });
        }
        Ok(bytes)
    }

    pub(super) async fn save_rows(&self, id: &str, rows: &[Row]) -> Result<(), Error> {
        for (position, batch) in rows.chunks(BATCH).enumerate() {
            self.store.save_rows(id, (position * BATCH) as u64, batch).await?;
        }
        Ok(())
    }
}

/// The rows of one snapshot. The value is made for each request, so an export sorts only once and not for
/// each of its pages.
pub(super) struct SnapshotRows {
    store: Arc<dyn ResourceStore>,
    id: String,
    total_count: u64,
    sorted: OnceCell<Vec<Row>>,
}

impl SnapshotRows {
    pub(super) fn new(store: Arc<dyn ResourceStore>, resource: &Resource) -> Self {
        Self { store, id: resource.id.clone(), total_count: resource.total_count, sorted: OnceCell::new() }
    }

    async fn sorted(&self, sort: &[Sort]) -> Result<&[Row], BoxError> {
        let rows = self.sorted.get_or_try_init(|| async {
            let mut rows = self.store.rows(&self.id, 0, self.total_count).await?;
            sort_rows(&mut rows, sort);
            Ok::<_, BoxError>(rows)
        });
        Ok(rows.await?)
    }
}

impl Rows for SnapshotRows {
    fn execute(&self, page: PageRequest) -> BoxFuture<'_, Result<Vec<Row>, BoxError>> {
        Box::pin(async move {
            if page.sort.is_empty() {
                return Ok(self.store.rows(&self.id, page.offset, page.limit).await?);
            }
            let rows = self.sorted(&page.sort).await?;
            let skip = usize::try_from(page.offset).unwrap_or(usize::MAX);
            let take = usize::try_from(page.limit).unwrap_or(usize::MAX);
            Ok(rows.iter().skip(skip).take(take).cloned().collect())
        })
    }

    fn lines(&self, page: PageRequest) -> BoxFuture<'_, Result<Lines, BoxError>> {
        let limit = page.limit;
        Box::pin(async move { Lines::of(self.execute(page).await?, limit) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, BoxError>> {
        Box::pin(async { Ok(self.total_count) })
    }
}

/// Sorts rows, for an executor whose source can't do so. Missing values come last.
pub fn sort_rows(rows: &mut [Row], sort: &[Sort]) {
    rows.sort_by(|a, b| compare_rows(a, b, sort));
}

fn compare_rows(a: &Row, b: &Row, sort: &[Sort]) -> Ordering {
    let each = sort.iter().map(|sort| {
        let (a, b) = (a.get(&sort.field).unwrap_or(&Value::Null), b.get(&sort.field).unwrap_or(&Value::Null));
        match (a, b) {
            // Missing values come last in both directions.
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => Ordering::Greater,
            (_, Value::Null) => Ordering::Less,
            _ if sort.order == Order::Desc => compare_values(b, a),
            _ => compare_values(a, b),
        }
    });
    each.fold(Ordering::Equal, Ordering::then)
}

/// Compares two values: first by kind in the order boolean, number, string, other; values of one kind by
/// size, other values by their JSON.
fn compare_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => match (a.as_i128(), b.as_i128()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => kind(a).cmp(&kind(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sorted(values: Value, order: Order) -> Vec<Value> {
        let values = values.as_array().unwrap().clone();
        let mut rows: Vec<Row> =
            values.into_iter().map(|value| Row::from_iter([("v".to_owned(), value)])).collect();
        let sort = match order {
            Order::Asc => Sort::ascending("v"),
            Order::Desc => Sort::descending("v"),
        };
        rows.sort_by(|a, b| compare_rows(a, b, std::slice::from_ref(&sort)));
        rows.into_iter().map(|mut row| row.remove("v").unwrap()).collect()
    }

    #[test]
    fn missing_values_come_last_both_ways() {
        let values = json!([3, null, -1, 2.5, 18446744073709551615u64]);
        assert_eq!(
            sorted(values.clone(), Order::Asc),
            [json!(-1), json!(2.5), json!(3), json!(u64::MAX), json!(null)]
        );
        assert_eq!(
            sorted(values, Order::Desc),
            [json!(u64::MAX), json!(3), json!(2.5), json!(-1), json!(null)]
        );
    }

    #[test]
    fn kinds_keep_apart() {
        let values = json!(["b", 2, true, "a", false]);
        assert_eq!(sorted(values, Order::Asc), [json!(false), json!(true), json!(2), json!("a"), json!("b")]);
    }
}
