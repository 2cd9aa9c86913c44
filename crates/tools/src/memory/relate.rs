//! `relate`: write a fact of the graph.

use kenning_engine::Snapshot;
use kenning_model::{Record, ScopeId, fold};
use kenning_presentation::Answer;
use kenning_presentation::budget::{ROWS_BYTES_MAX, take_rows};
use kenning_storage::{NewTriple, OnConflict, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::item::{TripleItem, as_data, in_scope};
use super::names::respelt;
use crate::arguments::{Confidence, NAME_BYTES_MAX, TERM_BYTES_MAX, TOPIC_BYTES_MAX, Text};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct Relate;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// What the fact is about.
    subject: Text<TERM_BYTES_MAX>,
    /// The relation, in one spelling throughout.
    predicate: Text<TERM_BYTES_MAX>,
    /// What it is related to.
    object: Text<TERM_BYTES_MAX>,
    /// `namespace:scope`
    scope: Option<Text<NAME_BYTES_MAX>>,
    /// Where it comes from.
    source: Option<Text<TOPIC_BYTES_MAX>>,
    /// How sure, 0 to 1.
    confidence: Option<Confidence>,
    /// When subject and predicate have another object; default keep_both.
    on_conflict: Option<Choice>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Choice {
    KeepBoth,
    Replace,
    Reject,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    #[serde(flatten)]
    triple: TripleItem,
    /// False when the identical triple was there already.
    written: bool,
    /// Whether conflicts in the same scope gave way.
    replaced: bool,
    /// The newest live triples with the same subject and predicate and another object.
    conflicts: Vec<TripleItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    conflicts_left_out: Option<u64>,
    /// Names in the graph that look nearly the same as the new subject or object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    similar_names: Vec<String>,
}

impl Tool for Relate {
    const NAME: &'static str = "relate";
    const ABOUT: &'static str = "Link two things in the graph: subject, predicate, object (\"api\", \"depends on\", \"auth\"). \
        Use for relations you will walk or look up. Do not use for prose (`store`). \
        Returns the triple, tx_id, `conflicts` with another object, `similar_names`; an identical triple is not written again.";
    const EFFECT: Effect = Effect::WritesOnce;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let scope = ctx.scope_in(&snapshot, input.scope.as_ref().map(|scope| scope.0.as_str()))?;
        // The similar names are only a hint, so an error while searching them does not fail the write.
        let similar_names =
            similar_names(&snapshot, scope, [&input.subject.0, &input.object.0]).unwrap_or_default();
        drop(snapshot);
        let triple = NewTriple {
            scope,
            subject: input.subject.0,
            predicate: input.predicate.0,
            object: input.object.0,
            source: input.source.map(|source| source.0),
            confidence: input.confidence.map(|confidence| confidence.0),
        };
        let on_conflict = match input.on_conflict {
            None | Some(Choice::KeepBoth) => OnConflict::KeepBoth,
            Some(Choice::Replace) => OnConflict::Replace,
            Some(Choice::Reject) => OnConflict::Reject,
        };
        let replaces = on_conflict == OnConflict::Replace;
        Ok(Answer::text(
            ctx.commit(Write::Relate { triple, on_conflict }, move |done| {
                let triple = match &done.existing {
                    // With `replace`, the triple may exist already while conflicting triples are closed; then
                    // the reply names the transaction that closed them, because an undo needs it. If nothing
                    // was changed, it names the transaction of the triple.
                    Some(existing) => TripleItem::of(existing, &done.names)
                        .map(|triple| TripleItem { tx_id: done.tx.id.0, ..triple }),
                    None => done.tx.changes.iter().find_map(|change| match &change.after {
                        Some(Record::Triple(triple)) => {
                            Some(TripleItem::new(change.id.to_string(), done.tx.id.0, triple, &done.names))
                        }
                        _ => None,
                    }),
                };
                // Half of the room is left for the triple itself.
                let rows =
                    done.conflicts.iter().filter_map(|stored| TripleItem::of(stored, &done.names)).collect();
                let conflicts = take_rows(rows, ROWS_BYTES_MAX / 2, |row| row);
                let left_out = done.conflict_count - conflicts.len() as u64;
                Output {
                    triple: triple.expect("relating leaves a triple, old or new"),
                    written: done.existing.is_none(),
                    // Conflicting triples in inherited scopes are not replaced, because they belong to those
                    // scopes.
                    replaced: replaces && done.tx.changes.iter().any(|change| change.after.is_none()),
                    conflicts,
                    conflicts_left_out: Some(left_out).filter(|left_out| *left_out > 0),
                    similar_names: similar_names.clone(),
                }
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { triple, conflicts, .. } = output;
    let written = match (output.written, output.replaced) {
        (true, _) => {
            let TripleItem { id, tx_id, scope, .. } = triple;
            format!("Wrote triple `{id}`{} in transaction {tx_id}.", in_scope(scope))
        }
        (false, false) => {
            let TripleItem { id, tx_id, scope, .. } = triple;
            format!("Triple `{id}` was there already{}, since transaction {tx_id}.", in_scope(scope))
        }
        (false, true) => {
            format!(
                "Triple `{}` was there already{}; transaction {} took the others of its scope away.",
                triple.id,
                in_scope(&triple.scope),
                triple.tx_id
            )
        }
    };
    let alike = match output.similar_names.is_empty() {
        true => String::new(),
        false => format!(
            " These names look nearly the same; if one is meant, `undo` and use it. {}",
            as_data(&output.similar_names.join("\n"))
        ),
    };
    if conflicts.is_empty() {
        return format!("{written}{alike}");
    }
    let many = conflicts.len() as u64 + output.conflicts_left_out.unwrap_or(0);
    let about = match (output.replaced, many) {
        (true, 1) => "It replaced 1 other object".to_owned(),
        (true, many) => format!("It replaced those of {many} other objects that were in its scope"),
        (false, 1) => "Subject and predicate have 1 other object too".to_owned(),
        (false, many) => format!("Subject and predicate have {many} other objects too"),
    };
    let newest = if output.conflicts_left_out.is_some() { ", the newest of which are" } else { "" };
    let lines: Vec<String> =
        conflicts.iter().map(|triple| format!("{} {}", triple.id, triple.line(300))).collect();
    format!("{written} {about}{newest}. {}{alike}", as_data(&lines.join("\n")))
}

/// Names in sight that may be another spelling of those names which are new.
fn similar_names(snapshot: &Snapshot<'_>, scope: ScopeId, names: [&str; 2]) -> Result<Vec<String>, Stop> {
    let sight = snapshot.sight(scope)?;
    let mut new = Vec::new();
    for name in names {
        if !snapshot.is_named(&sight, &fold(name))? {
            new.push(name);
        }
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    let known = snapshot.names_in_triples(&sight)?;
    let mut similar: Vec<String> = new.into_iter().flat_map(|name| respelt(&known, name)).collect();
    similar.sort();
    similar.dedup();
    Ok(similar)
}

#[cfg(test)]
mod tests {
    use kenning_testkit::TempStore;
    use serde_json::{Value, json};

    use crate::{Access, Caller, dispatch, find};

    #[test]
    fn a_replacement_by_a_triple_that_is_there_can_be_undone() {
        let store = TempStore::new();
        let engine = store.engine();
        let [actor, origin] = ["test"; 2].map(str::to_owned);
        let caller = Caller::new(Some(&actor), origin, "global:default".to_owned());
        let call = |tool: &str, arguments: Value| {
            let tool = find(tool).expect("a tool of this name");
            let arguments = arguments.as_object().expect("arguments are an object").clone();
            dispatch(&engine, &caller, Access::ReadWrite, tool, arguments).structured
        };
        let relate = |object: &str, on_conflict: &str| {
            let (subject, predicate) = ("checkout", "owned by");
            call(
                "relate",
                json!({"subject": subject, "predicate": predicate, "object": object, "on_conflict": on_conflict}),
            )
        };
        let red = relate("team red", "keep_both");
        relate("team blue", "keep_both");
        assert_eq!(relate("team red", "keep_both")["tx_id"], red["tx_id"], "it is not written again");
        let replaced = relate("team red", "replace");
        assert_eq!((&replaced["id"], &replaced["tx_id"]), (&red["id"], &json!(3)), "blue gave way in 3");
        let undone = call("undo", json!({"tx_id": replaced["tx_id"]}));
        assert_eq!(undone["undone"], json!([3]));
        assert_eq!(call("query_graph", json!({}))["total_count"], 2, "and is back");
    }
}
