//! `store_many`: store many entries in one transaction, all or none.

use std::borrow::Cow;
use std::fmt;

use kenning_model::EntityType;
use kenning_presentation::Answer;
use kenning_storage::{Follows, Write};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::item::{as_data, in_scope, moment};
use super::similar::SimilarEntry;
use super::store;
use crate::arguments::{NAME_BYTES_MAX, Text, parse_id};
use crate::code::counted;
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct StoreMany;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// Each with the fields of `store`.
    entries: Entries,
    /// For entries that name none.
    scope: Option<Text<NAME_BYTES_MAX>>,
}

const ENTRIES_MAX: usize = 100;
/// The text of the reply lists at most this many ids; the first is enough to find the others in `history`.
const IDS_SHOWN_MAX: usize = 20;

struct Entries(Vec<store::Input<Before>>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<store::Input<Before>>::deserialize(deserializer)?;
        match entries.len() {
            0 => Err(de::Error::custom("must have at least 1")),
            many if many > ENTRIES_MAX => {
                Err(de::Error::custom(format!("{many} are more than the cap of {ENTRIES_MAX}")))
            }
            _ => Ok(Entries(entries)),
        }
    }
}

impl JsonSchema for Entries {
    fn schema_name() -> Cow<'static, str> {
        "Entries".into()
    }

    /// The schema without the descriptions of the fields: the schema of `store` has them, and a model reads
    /// every byte of both.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut entry = store::Input::<Before>::json_schema(generator).to_value();
        if let Value::Object(entry) = &mut entry {
            entry.shift_remove("description");
        }
        if let Some(Value::Object(fields)) = entry.get_mut("properties") {
            for (name, field) in fields {
                match (name.as_str(), field) {
                    ("follows", field) => *field = Before::json_schema(generator).to_value(),
                    (_, Value::Object(field)) => {
                        field.shift_remove("description");
                    }
                    _ => {}
                }
            }
        }
        json_schema!({"type": "array", "minItems": 1, "maxItems": ENTRIES_MAX, "items": entry})
    }
}

/// The entry that an entry of the list follows: an earlier one in the list, or a stored one.
enum Before {
    Index(usize),
    Id(String),
}

impl<'de> Deserialize<'de> for Before {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IndexOrId;

        impl Visitor<'_> for IndexOrId {
            type Value = Before;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the index of an earlier entry of the list, or an id")
            }

            fn visit_u64<E: de::Error>(self, index: u64) -> Result<Before, E> {
                Ok(Before::Index(usize::try_from(index).unwrap_or(usize::MAX)))
            }

            // Some clients write every number as a float.
            fn visit_f64<E: de::Error>(self, index: f64) -> Result<Before, E> {
                match index.fract() == 0.0 && (0.0..=ENTRIES_MAX as f64).contains(&index) {
                    true => Ok(Before::Index(index as usize)),
                    false => Err(E::custom(format!("{index} is not the index of an earlier entry"))),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Before, E> {
                // An id has ten characters, so a shorter number is an index.
                Ok(match text.parse() {
                    Ok(index) if index < ENTRIES_MAX => Before::Index(index),
                    _ => Before::Id(text.to_owned()),
                })
            }
        }

        deserializer.deserialize_any(IndexOrId)
    }
}

impl JsonSchema for Before {
    fn schema_name() -> Cow<'static, str> {
        "Before".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // The schema has one type only, because some clients accept no other; a number is accepted too.
        json_schema!({"type": "string", "description": "Index of an earlier entry of this list, or an id."})
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Output {
    /// In the order of `entries`.
    ids: Vec<String>,
    /// Where all of them are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    scope: Option<String>,
    /// Where each of them is, if not all are in one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
    tx_id: u64,
    recorded_at: String,
    similar: Vec<SimilarTo>,
}

/// What one of the new entries is like.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct SimilarTo {
    /// Of the new entry in `entries`.
    index: usize,
    entries: Vec<SimilarEntry>,
}

impl Tool for StoreMany {
    const NAME: &'static str = "store_many";
    const ABOUT: &'static str = "As `store`, for 1 to 100 entries in one transaction, all or none. \
        Use for the rules of a file or the parts of a talk; with `follows` each names the one before it. Do not use for a single fact (`store`). \
        Returns ids in order, scope, tx_id, and by index what is `similar`; `undo` takes all of it back.";
    const EFFECT: Effect = Effect::Writes;
    const HAS_NOTE: bool = true;
    type Input = Input;
    type Output = Output;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<Output>, Stop> {
        let snapshot = ctx.snapshot()?;
        let common = input.scope.as_ref().map(|scope| scope.0.as_str());
        let (mut entries, mut alike) = (Vec::new(), Vec::new());
        for (index, entry) in input.entries.0.into_iter().enumerate() {
            let named =
                |stop: Stop| Stop { message: format!("`entries[{index}]`: {}", stop.message), ..stop };
            let own = entry.scope.as_ref().map(|scope| scope.0.as_str());
            let scope = ctx.scope_in(&snapshot, own.or(common)).map_err(named)?;
            let follows = match &entry.follows {
                None => None,
                Some(Before::Index(earlier)) => Some(Follows::Earlier(*earlier)),
                Some(Before::Id(id)) => Some(Follows::Entry(parse_id(EntityType::Entry, id).map_err(named)?)),
            };
            let (new, similar) = entry.prepare(ctx, &snapshot, scope, follows);
            if !similar.is_empty() {
                alike.push(SimilarTo { index, entries: similar });
            }
            entries.push(new);
        }
        drop(snapshot);
        let written: Vec<_> = entries.iter().map(|entry| entry.scope).collect();
        Ok(Answer::text(
            ctx.commit(Write::StoreAll(entries), move |done| {
                let is_one = written.iter().all(|scope| *scope == written[0]);
                Output {
                    ids: done.tx.changes.iter().map(|change| change.id.to_string()).collect(),
                    scope: is_one.then(|| done.names.of(written[0])),
                    scopes: match is_one {
                        true => Vec::new(),
                        false => written.iter().map(|scope| done.names.of(*scope)).collect(),
                    },
                    tx_id: done.tx.id.0,
                    recorded_at: moment(done.tx.at),
                    similar: alike.clone(),
                }
            })?,
            text,
        ))
    }
}

fn text(output: &Output) -> String {
    let Output { ids, tx_id, .. } = output;
    let place = match &output.scope {
        Some(scope) => in_scope(scope),
        None => {
            let mut names: Vec<String> = output.scopes.iter().map(|scope| format!("`{scope}`")).collect();
            names.sort();
            names.dedup();
            format!(" in scopes {}", names.join(", "))
        }
    };
    let mut shown = ids[..ids.len().min(IDS_SHOWN_MAX)].join(", ");
    if ids.len() > IDS_SHOWN_MAX {
        shown.push_str(&format!(" and {} more, in order", ids.len() - IDS_SHOWN_MAX));
    }
    let stored = format!("Stored {}{place} in transaction {tx_id}: {shown}.", counted(ids.len(), "entry"));
    if output.similar.is_empty() {
        return stored;
    }
    let line = |alike: &SimilarTo| {
        let lines: Vec<String> = alike.entries.iter().map(SimilarEntry::line).collect();
        format!("entries[{}] is like {}", alike.index, lines.join("\n  and "))
    };
    let lines: Vec<String> = output.similar.iter().map(line).collect();
    format!(
        "{stored} Similar entries were there before. {}\nWhere one says the same, `delete` the new one and `update` the old.",
        as_data(&lines.join("\n"))
    )
}
