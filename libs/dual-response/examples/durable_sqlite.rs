//! A result that survives a restart: a registered executor over SQLite, its resource in a SQLite store.
//! `cargo run --example durable_sqlite --features sqlite`

use std::path::{Path, PathBuf};

use mcp_dual_response::rusqlite::{Connection, params};
use mcp_dual_response::server::{
    DualResponseServer, Executor, NewResource, PageRequest, Principal, SqliteStore,
};
use mcp_dual_response::wire::PageQuery;
use mcp_dual_response::{BoxError, Column, Row, Sort};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The query. The store keeps its name, its version and its arguments, but not its code.
struct Institutions {
    database: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct InState {
    state: String,
}

impl Executor for Institutions {
    type Args = InState;
    type Row = Row;
    const NAME: &'static str = "institutions";
    const VERSION: u32 = 1;

    async fn execute(&self, args: &InState, page: PageRequest, _: &Principal) -> Result<Vec<Row>, BoxError> {
        let database = Connection::open(&self.database)?;
        // `page.sort` only contains names of columns, and `order_by` quotes them.
        let sql = format!(
            "SELECT id, name, enrollment FROM institutions WHERE state = ?1 {} LIMIT ?2 OFFSET ?3",
            page.order_by()
        );
        let mut select = database.prepare(&sql)?;
        let window = params![args.state, i64::try_from(page.limit)?, i64::try_from(page.offset)?];
        let rows = select.query_map(window, |row| {
            Ok(Row::from_iter([
                ("id".to_owned(), json!(row.get::<_, i64>(0)?)),
                ("name".to_owned(), json!(row.get::<_, String>(1)?)),
                ("enrollment".to_owned(), json!(row.get::<_, i64>(2)?)),
            ]))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn count(&self, args: &InState, _: &Principal) -> Result<u64, BoxError> {
        let database = Connection::open(&self.database)?;
        let sql = "SELECT count(*) FROM institutions WHERE state = ?1";
        let count: i64 = database.query_row(sql, [&args.state], |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }
}

fn start(folder: &Path) -> Result<DualResponseServer, BoxError> {
    Ok(DualResponseServer::builder("https://api.example.com/resources")
        .store(SqliteStore::open(folder.join("rows.db"))?)
        .executor(Institutions { database: folder.join("data.db") })
        .build()?)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it got")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let data = Connection::open(folder.path().join("data.db"))?;
    data.execute_batch(
        "CREATE TABLE institutions (id INTEGER PRIMARY KEY, name TEXT, state TEXT, enrollment INTEGER);
         WITH RECURSIVE n (id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM n WHERE id < 847)
         INSERT INTO institutions SELECT id, 'College ' || id, 'NJ', id * 7919 % 5000 FROM n;",
    )?;

    let before = start(folder.path())?;
    let columns = [Column::number("id").as_key(), Column::string("name"), Column::number("enrollment")];
    let new = NewResource::query::<Institutions>("Institutions", columns, &InState { state: "NJ".into() });
    let response = before.create_response(new).await?;
    let everybody = Principal::anonymous();
    let largest_first = |offset| PageQuery::new(offset, 100).sorted(Sort::descending("enrollment"));
    let first = before.access(everybody.clone()).page(&response.resource_id, &largest_first(0)).await?;
    println!("before the restart: rows 0 to {} of {}", first.returned_count, first.total_count);
    before.shutdown().await?;

    let after = start(folder.path())?;
    let next = first.next_offset.ok_or("there is a second page")?;
    let second = after.access(everybody).page(&response.resource_id, &largest_first(next)).await?;
    println!("after the restart: rows {} to {}", second.offset, second.offset + second.returned_count);
    after.shutdown().await?;
    Ok(())
}
