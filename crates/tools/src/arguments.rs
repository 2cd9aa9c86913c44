//! The types of tool arguments, which have bounds and state them in the schema, and error messages for wrong
//! arguments that a model can act on.

use std::borrow::Cow;
use std::fmt;

use kenning_model::{EntityType, Id, TaskSize, Timestamp, clean, is_name};
use kenning_presentation::text::{cut, quote};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde_json::{Map, Value, json};

use crate::memory::item::Size;
use crate::{Code, Stop};

pub const TOPIC_BYTES_MAX: usize = 512;
pub const CONTENT_BYTES_MAX: usize = 32 * 1024;
pub const CONTEXT_BYTES_MAX: usize = 4 * 1024;
pub const TAG_BYTES_MAX: usize = 64;
pub const TAGS_MAX: usize = 32;
const SIZES_MAX: usize = 5;
pub const TERM_BYTES_MAX: usize = 1024;
pub const NAME_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 500;

/// A text of at most `BYTES_MAX` bytes that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<const BYTES_MAX: usize>(pub String);

impl<'de, const BYTES_MAX: usize> Deserialize<'de> for Text<BYTES_MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OptionalText(text) = OptionalText::<BYTES_MAX>::deserialize(deserializer)?;
        // A text that shows nothing (spaces, control characters) counts as empty.
        if clean(&text).trim().is_empty() {
            return Err(de::Error::custom("must not be empty"));
        }
        Ok(Text(text))
    }
}

impl<const BYTES_MAX: usize> JsonSchema for Text<BYTES_MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Text{BYTES_MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": BYTES_MAX})
    }
}

/// A text of at most `BYTES_MAX` bytes; an empty text means the same as an absent argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalText<const BYTES_MAX: usize>(pub String);

impl<'de, const BYTES_MAX: usize> Deserialize<'de> for OptionalText<BYTES_MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() > BYTES_MAX {
            let message = format!("{} bytes are more than the cap of {BYTES_MAX}", text.len());
            return Err(de::Error::custom(message));
        }
        Ok(OptionalText(text))
    }
}

impl<const BYTES_MAX: usize> JsonSchema for OptionalText<BYTES_MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("OptionalText{BYTES_MAX}").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Text::<BYTES_MAX>::json_schema(generator)
    }
}

/// A list of `MIN` to `MAX` texts, each of at most `BYTES_MAX` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts<const MIN: usize, const MAX: usize, const BYTES_MAX: usize>(pub Vec<String>);

pub type Tags = Texts<0, TAGS_MAX, TAG_BYTES_MAX>;
pub type Ids = Texts<1, 50, NAME_BYTES_MAX>;
pub type Parents = Texts<0, 32, NAME_BYTES_MAX>;
pub type Queries = Texts<1, 15, TERM_BYTES_MAX>;

/// The ids of entries.
pub type EntryIds = Texts<1, 50, NAME_BYTES_MAX>;

impl<'de, const MIN: usize, const MAX: usize, const BYTES_MAX: usize> Deserialize<'de>
    for Texts<MIN, MAX, BYTES_MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<Text<BYTES_MAX>>::deserialize(deserializer)?;
        match texts.len() {
            many if many > MAX => Err(de::Error::custom(format!("{many} are more than the cap of {MAX}"))),
            many if many < MIN => Err(de::Error::custom(format!("must have at least {MIN}"))),
            _ => Ok(Texts(texts.into_iter().map(|text| text.0).collect())),
        }
    }
}

impl<const MIN: usize, const MAX: usize, const BYTES_MAX: usize> JsonSchema for Texts<MIN, MAX, BYTES_MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("{MIN}To{MAX}Texts{BYTES_MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let items = json!({"type": "string", "maxLength": BYTES_MAX});
        match MIN {
            0 => json_schema!({"type": "array", "maxItems": MAX, "items": items}),
            _ => json_schema!({"type": "array", "minItems": MIN, "maxItems": MAX, "items": items}),
        }
    }
}

/// The sizes of task that an entry is meant for, without duplicates.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<TaskSize>);

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sizes: Vec<TaskSize> =
            Vec::<Size>::deserialize(deserializer)?.into_iter().map(TaskSize::from).collect();
        if sizes.len() > SIZES_MAX {
            return Err(de::Error::custom(format!(
                "{} sizes are more than the cap of {SIZES_MAX}",
                sizes.len()
            )));
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(Sizes(sizes))
    }
}

impl JsonSchema for Sizes {
    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "maxItems": SIZES_MAX,
            "items": {"type": "string", "enum": ["XS", "S", "M", "L", "XL"]},
        })
    }
}

/// The name of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match is_name(&name) {
            true => Ok(Name(name)),
            false => Err(de::Error::custom(format!(
                "{} is not a name: 2 to 64 of a-z, 0-9 and -",
                quote(&name, 64)
            ))),
        }
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[a-z0-9-]{2,64}$"})
    }
}

/// A whole number between two bounds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const MIN: u64, const MAX: u64>;

        impl<const MIN: u64, const MAX: u64> Visitor<'_> for Number<MIN, MAX> {
            type Value = Whole<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {MIN} to {MAX}")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                match (MIN..=MAX).contains(&number) {
                    true => Ok(Whole(number)),
                    false => Err(E::custom(format!("{number} is not a whole number from {MIN} to {MAX}"))),
                }
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Err(E::custom(format!("{number} is not a whole number from {MIN} to {MAX}")))
            }

            // Some clients write every number as a float, and JSON Schema accepts 20.0 as an integer.
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                match number.fract() == 0.0 && (0.0..=9e15).contains(&number) {
                    true => self.visit_u64(number as u64),
                    false => Err(E::custom(format!("{number} is not a whole number from {MIN} to {MAX}"))),
                }
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Whole<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MAX {
            TX_MAX => json_schema!({"type": "integer", "minimum": MIN}),
            _ => json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX}),
        }
    }
}

/// The largest number that the store can hold. No log gets that long.
pub const TX_MAX: u64 = i64::MAX as u64;
/// The number of a transaction.
pub type Tx = Whole<0, TX_MAX>;

/// How sure the author of an entry or a triple is, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence(pub f64);

impl<'de> Deserialize<'de> for Confidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        match (0.0..=1.0).contains(&number) {
            true => Ok(Confidence(number)),
            false => Err(de::Error::custom(format!("{number} is not between 0 and 1"))),
        }
    }
}

impl JsonSchema for Confidence {
    fn schema_name() -> Cow<'static, str> {
        "Confidence".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1})
    }
}

/// A point in time, given as a timestamp with its UTC offset or as a date alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = text
            .parse::<Timestamp>()
            .ok()
            .or_else(|| day(&text))
            .and_then(|moment| Timestamp::from_millisecond(moment.as_millisecond()).ok());
        moment
            .map(Moment)
            .ok_or_else(|| de::Error::custom("not a moment in RFC 3339 form, such as 2026-02-10T14:30:00Z"))
    }
}

/// Reads a date without a time as the beginning of that day in UTC.
fn day(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = text.parse().ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Parses an id. A text that is not in the form of an id is refused in the same way as an unknown id.
pub(crate) fn parse_id(entity_type: EntityType, text: &str) -> Result<Id, Stop> {
    Id::parse(text).ok_or_else(|| unknown_id(entity_type, text))
}

pub(crate) fn unknown_id(entity_type: EntityType, text: &str) -> Stop {
    let shown = cut(&clean(text), 130);
    let next = match entity_type {
        EntityType::Entry | EntityType::Triple => {
            "find ids with `query` or `query_graph`, or see in `history` whether it was deleted"
        }
        EntityType::Scope | EntityType::Namespace => "`get_namespaces` lists what there is",
        EntityType::Document | EntityType::Section => "find sections with `kb_search`",
    };
    Stop::new(Code::NotFound, format!("there is no {entity_type} `{shown}`; {next}"))
}

/// Parses the arguments of a call. `known` are the names in the tool's schema.
pub(crate) fn parse<T: DeserializeOwned>(
    mut arguments: Map<String, Value>,
    known: &[&str],
) -> Result<T, Stop> {
    arguments.retain(|_, value| !value.is_null());
    if let Some(unknown) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown_argument(unknown, known));
    }
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let path = error.path().to_string();
        // The error of serde may quote the argument, which can be any text of any length.
        let message = cut(&clean(&error.into_inner().to_string()), MESSAGE_BYTES_MAX);
        let message = message.replace("expected f64", "expected a number").replace("a sequence", "a list");
        // Serde names our Rust type here, which means nothing to a caller.
        let message = match message.split_once("expected struct ") {
            Some((before, _)) => format!("{before}expected an object"),
            None => message,
        };
        if let Some(name) = message.strip_prefix("missing field ") {
            return Stop::invalid(format!("{name} is required"));
        }
        match path.as_str() {
            "." => Stop::invalid(message),
            path => Stop::invalid(format!("`{path}`: {message}")),
        }
    })
}

fn unknown_argument(unknown: &str, known: &[&str]) -> Stop {
    let shown = kenning_presentation::text::quote(unknown, 64);
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(unknown.len()) / 2);
    match nearest {
        Some((_, name)) => Stop::invalid(format!("there is no argument {shown}; did you mean `{name}`?")),
        None => Stop::invalid(format!("there is no argument {shown}; known are: {}", known.join(", "))),
    }
}
