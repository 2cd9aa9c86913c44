//! Exports of all rows, as NDJSON and CSV.

use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt;
use mcp_dual_response::client::BatchOptions;
use mcp_dual_response::reqwest::{self, Response};
use mcp_dual_response::server::{DualResponseServer, NewResource, PageRequest};
use mcp_dual_response::{Column, Row, Sort};
use serde_json::{Value, json};

use crate::support::*;

async fn exported(server: &DualResponseServer, new: NewResource, query: &str) -> Response {
    let url = server.create_response(new).await.unwrap().resource_url.unwrap();
    reqwest::get(format!("{url}/export{query}")).await.unwrap()
}

#[tokio::test]
async fn ndjson_ends_with_its_marker() {
    let (server, _) = served(|builder| builder).await;
    let response = exported(&server, live(), "?format=ndjson").await;
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"abc1.ndjson\"");
    assert_eq!(response.headers()["x-total-count"], "847");
    let text = response.text().await.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 848);
    assert_eq!(lines[847], r#"{"_end":true,"count":847}"#);
    let rows: Vec<Row> = lines[..847].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows, all_rows());
}

#[tokio::test]
async fn post_streams_when_ndjson_is_accepted() {
    let (server, _) = served(|builder| builder).await;
    let url = server.create_response(live()).await.unwrap().resource_url.unwrap();
    let body = json!({"sort": {"field": "id", "order": "desc"}, "offset": 800, "limit": 2});
    let request =
        reqwest::Client::new().post(url).header("accept", "application/x-ndjson").body(body.to_string());
    let text = request.send().await.unwrap().text().await.unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [json!(row(46)), json!(row(45)), json!({"_end": true, "count": 2})]);
}

#[tokio::test]
async fn csv_has_a_header_and_no_formulas() {
    let (server, _) = served(|builder| builder).await;
    let columns = [Column::number("id"), Column::string("note")];
    let rows = vec![
        object(json!({"id": 1, "note": "=HYPERLINK(\"http://evil\")"})),
        object(json!({"id": -2, "note": null, "not a column": true})),
    ];
    let new = NewResource::snapshot(NAME, columns, rows);
    let response = exported(&server, new, "?format=csv").await;
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/csv"));
    let text = response.text().await.unwrap();
    assert_eq!(text, "id,note\r\n1,\"'=HYPERLINK(\"\"http://evil\"\")\"\r\n-2,\r\n");
}

#[tokio::test]
async fn csv_ends_with_a_marker_when_asked_to() {
    let (server, _) = served(|builder| builder).await;
    let text = exported(&server, live(), "?format=csv&end=true&limit=2&sort=-id").await.text().await.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        ["id,name,state,enrollment", "846,College 846,NJ,24", "845,College 845,CA,5", "_end,2"]
    );
}

#[tokio::test]
async fn an_unknown_format_or_sort_is_400() {
    let (server, _) = served(|builder| builder).await;
    for query in ["?format=xlsx", "?sort=nothing", "?offset=-1", "?formt=csv"] {
        assert_eq!(exported(&server, live(), query).await.status(), 400, "{query}");
    }
}

#[tokio::test]
async fn an_export_sorts_a_snapshot() {
    let (server, _) = served(|builder| builder.page_rows(10, 100)).await;
    let new = NewResource::snapshot(NAME, columns(), all_rows());
    let (_, parsed) = parsed(&server, new).await;
    let rows: Vec<Row> = parsed.export(vec![Sort::descending("enrollment")]).try_concat().await.unwrap();
    let keys: Vec<_> =
        rows.iter().map(|row| (std::cmp::Reverse(row["enrollment"].as_u64()), row["id"].as_u64())).collect();
    assert!(keys.is_sorted() && keys.len() == 847);
}

#[tokio::test]
async fn executors_may_seek_to_the_last_row() {
    let (server, _) = served(|builder| builder.page_rows(100, 500)).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = asked.clone();
    let spy = move |page: PageRequest| {
        note.lock().unwrap().push((page.offset, page.after.as_ref().map(|row| row["id"].as_u64().unwrap())));
        execute(page)
    };
    let (_, parsed) = parsed(&server, NewResource::live(NAME, columns(), spy, count)).await;
    let rows: Vec<Row> = parsed.export(vec![]).try_concat().await.unwrap();
    assert_eq!(rows, all_rows());
    assert_eq!(*asked.lock().unwrap(), [(0, None), (0, None), (500, Some(499))]);
}

#[derive(serde::Serialize)]
struct Typed {
    id: u64,
    name: String,
}

#[tokio::test]
async fn rows_may_be_of_any_type_that_is_an_object() {
    let (server, _) = served(|builder| builder.page_rows(10, 100)).await;
    let typed = |page: PageRequest| async move {
        let typed = |id| Typed { id, name: format!("College {id}") };
        Ok::<Vec<Typed>, String>((page.offset..250).map(typed).collect())
    };
    let count = || async { Ok::<u64, String>(250) };
    let (response, parsed) = parsed(&server, NewResource::live(NAME, columns(), typed, count)).await;
    assert_eq!(response.sample[1], object(json!({"id": 1, "name": "College 1"})));
    let rows: Vec<Row> = parsed.export(vec![]).try_concat().await.unwrap();
    assert_eq!(rows, parsed.fetch_all(BatchOptions::new().batch_size(100)).await.unwrap());
    assert_eq!(rows.len(), 250);

    let numbers = |_: PageRequest| async { Ok::<Vec<u64>, String>(vec![1, 2, 3]) };
    let new = NewResource::live(NAME, columns(), numbers, || async { Ok::<u64, String>(3) });
    assert_eq!(server.create_response(new).await.unwrap_err().code().as_str(), "QUERY_EXECUTION_FAILED");
}

#[tokio::test]
async fn an_export_that_fails_on_the_way_has_no_end() {
    let (server, _) = served(|builder| builder.page_rows(100, 100)).await;
    let fails = |page: PageRequest| async move {
        match page.offset {
            0..300 => Ok(page_of(all_rows(), &page)),
            _ => Err("the database went away"),
        }
    };
    let (_, parsed) = parsed(&server, NewResource::live(NAME, columns(), fails, count)).await;
    let mut stream = Box::pin(parsed.export(vec![]));
    let mut rows = 0;
    let error = loop {
        match stream.try_next().await {
            Ok(Some(batch)) => rows += batch.len(),
            Ok(None) => panic!("{rows} rows passed for all"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().as_str(), "FETCH_ERROR");
    assert!(rows <= 300);
}

#[tokio::test]
async fn an_export_ends_though_rows_vanish_or_never_end() {
    let (server, _) = served(|builder| builder.page_rows(100, 100)).await;
    let vanish = |page: PageRequest| async move {
        Ok::<_, String>(if page.offset < 250 { page_of(all_rows()[..250].to_vec(), &page) } else { vec![] })
    };
    let text =
        exported(&server, NewResource::live(NAME, columns(), vanish, count), "").await.text().await.unwrap();
    assert_eq!(text.lines().last(), Some(r#"{"_end":true,"count":250}"#));
    let endless = |_: PageRequest| async { Ok::<_, String>(all_rows()[..100].to_vec()) };
    let text =
        exported(&server, NewResource::live(NAME, columns(), endless, count), "").await.text().await.unwrap();
    assert_eq!(text.lines().last(), Some(r#"{"_end":true,"count":847}"#));
}
