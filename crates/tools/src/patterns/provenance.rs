//! The origin of a pattern. Paths are relative to the ingested directory and never those of a machine.

use kenning_engine::Snapshot;
use kenning_presentation::card::value;
use kenning_presentation::text::clean;
use schemars::JsonSchema;
use serde::Serialize;

use super::{PatternRecord, moment};
use crate::Stop;

pub(super) const MARKER: &str = "v1";

#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Provenance {
    source: String,
    /// When this version was taken in.
    pub(super) timestamp: String,
    version: String,
    marker: &'static str,
    path: String,
    scope: String,
    actor: String,
    tx_id: u64,
}

impl Provenance {
    pub(super) fn new(snapshot: &Snapshot<'_>, record: &PatternRecord<'_>) -> Result<Provenance, Stop> {
        let document = record.document;
        Ok(Provenance {
            source: clean(&document.source),
            timestamp: moment(document.updated_at.unwrap_or(document.recorded_at)),
            version: document.version.to_string(),
            marker: MARKER,
            path: clean(&document.path),
            scope: snapshot.scope_names(&[document.scope])?.of(document.scope),
            actor: clean(&document.actor),
            tx_id: record.stored.tx_id.0,
        })
    }

    pub(super) fn line(&self) -> String {
        let Provenance { source, timestamp, version, path, scope, actor, tx_id, .. } = self;
        let [source, path, actor] = [source, path, actor].map(|text| value(text));
        format!(
            "{source}, {path}, scope `{scope}`, version {version} of {timestamp} by {actor}, transaction {tx_id}"
        )
    }
}
