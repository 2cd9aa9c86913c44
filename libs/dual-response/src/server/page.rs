//! The rows of a request, checked before any query runs.

use std::fmt::Write;

use super::Error;
use crate::wire::{Column, Order, PageQuery, Row, Sort};

/// A request for one page, as an executor gets it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageRequest {
    /// The first row, counted from 0.
    pub offset: u64,
    /// The largest number of rows.
    pub limit: u64,
    /// The fields to order by, the most important first; empty for the query's own order. Every field is one
    /// of the resource's columns. The last fields are key columns if there are any, so that no two rows are
    /// equal.
    pub sort: Vec<Sort>,
    /// The last row of the page before, when pages are read one after another: an executor may continue from
    /// it instead of skipping `offset` rows.
    pub after: Option<Row>,
}

impl PageRequest {
    /// The rows from `offset` on in the query's own order.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset, limit, sort: Vec::new(), after: None }
    }

    /// The order as SQL for SQLite and PostgreSQL:
    /// `ORDER BY "enrollment" DESC NULLS LAST, "id" ASC NULLS LAST`, or empty. It is safe to put into a
    /// statement, because names are quoted.
    pub fn order_by(&self) -> String {
        let mut sql = String::new();
        for (position, sort) in self.sort.iter().enumerate() {
            sql.push_str(if position == 0 { "ORDER BY " } else { ", " });
            let direction = if sort.order == Order::Desc { "DESC" } else { "ASC" };
            let name = sort.field.replace('"', "\"\"");
            write!(sql, "\"{name}\" {direction} NULLS LAST").expect("a string takes any text");
        }
        sql
    }
}

/// The limits of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageLimits {
    pub(super) rows_default: u64,
    pub(super) rows_max: u64,
}

impl PageLimits {
    pub(super) fn check(&self, query: &PageQuery, columns: &[Column]) -> Result<PageRequest, Error> {
        let limit = query.limit.unwrap_or(self.rows_default);
        if limit == 0 || limit > self.rows_max {
            let what = format!("limit is {limit}; it can be 1 to {}", self.rows_max);
            return Err(Error::InvalidPage { what });
        }
        let offset = checked_offset(query.offset)?;
        Ok(PageRequest { offset, limit, sort: checked_sort(&query.sort, columns)?, after: None })
    }
}

/// The offset, if it fits into the signed 64-bit integers in which databases count rows.
pub(super) fn checked_offset(offset: Option<u64>) -> Result<u64, Error> {
    match offset.unwrap_or(0) {
        offset if i64::try_from(offset).is_ok() => Ok(offset),
        offset => {
            Err(Error::InvalidPage { what: format!("offset is {offset}; it can be up to {}", i64::MAX) })
        }
    }
}

/// The requested sort, with key columns added to order equal rows. Only names of sortable columns are
/// accepted, because a field may become a part of SQL.
pub(super) fn checked_sort(asked: &[Sort], columns: &[Column]) -> Result<Vec<Sort>, Error> {
    for sort in asked {
        if !columns.iter().any(|column| column.sortable && column.name == sort.field) {
            let known: Vec<_> = columns.iter().filter(|c| c.sortable).map(|c| c.name.as_str()).collect();
            let asked = &sort.field;
            let what = match known.as_slice() {
                [] => "these rows cannot be sorted".to_owned(),
                known => format!("rows cannot be sorted by {asked:?}; they can by {}", known.join(", ")),
            };
            return Err(Error::InvalidSort { what });
        }
    }
    let mut sort = asked.to_vec();
    if !sort.is_empty() {
        for key in keys(columns) {
            if !sort.iter().any(|sort| sort.field == key.name) {
                sort.push(Sort::ascending(&key.name));
            }
        }
    }
    Ok(sort)
}

/// The columns that identify a row: those marked as keys, or else the one named `id`.
fn keys(columns: &[Column]) -> impl Iterator<Item = &Column> {
    let marked = columns.iter().any(|column| column.key);
    columns.iter().filter(move |column| if marked { column.key } else { column.name == "id" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PageLimits = PageLimits { rows_default: 100, rows_max: 1000 };

    fn columns() -> Vec<Column> {
        vec![Column::number("id"), Column::string("name"), Column::string("notes").unsortable()]
    }

    #[test]
    fn pages_default_to_the_first_hundred_rows() {
        let page = LIMITS.check(&PageQuery::default(), &columns()).unwrap();
        assert_eq!(page, PageRequest::new(0, 100));
    }

    #[test]
    fn a_bad_page_is_refused_not_clamped() {
        for query in [PageQuery::new(0, 0), PageQuery::new(0, 1001), PageQuery::new(u64::MAX, 1)] {
            let error = LIMITS.check(&query, &columns()).unwrap_err();
            assert_eq!(error.code().as_str(), "INVALID_PAGE", "{query:?}");
        }
    }

    #[test]
    fn only_sortable_columns_sort() {
        for field in ["notes", "nothing", "name\" DESC; DROP TABLE x; --", ""] {
            let query = PageQuery::default().sorted(Sort::ascending(field));
            let error = LIMITS.check(&query, &columns()).unwrap_err();
            assert_eq!(error.code().as_str(), "INVALID_SORT", "{field}");
            assert_eq!(
                error.to_string(),
                format!("rows cannot be sorted by {field:?}; they can by id, name")
            );
        }
    }

    #[test]
    fn ties_are_broken_by_the_key() {
        let sort = |asked: Sort, columns: &[Column]| checked_sort(&[asked], columns).unwrap();
        assert_eq!(
            sort(Sort::descending("name"), &columns()),
            [Sort::descending("name"), Sort::ascending("id")]
        );
        assert_eq!(sort(Sort::descending("id"), &columns()), [Sort::descending("id")]);
        let marked = [Column::string("a").as_key(), Column::string("b").as_key(), Column::string("c")];
        let all = [Sort::ascending("c"), Sort::ascending("a"), Sort::ascending("b")];
        assert_eq!(sort(Sort::ascending("c"), &marked), all);
        assert_eq!(checked_sort(&[], &marked).unwrap(), [], "without a sort the query's own order stays");
    }

    #[test]
    fn the_order_is_quoted_sql() {
        let mut page = PageRequest::new(0, 1);
        assert_eq!(page.order_by(), "");
        page.sort = vec![Sort::descending("a\"b"), Sort::ascending("id")];
        assert_eq!(page.order_by(), r#"ORDER BY "a""b" DESC NULLS LAST, "id" ASC NULLS LAST"#);
    }
}
