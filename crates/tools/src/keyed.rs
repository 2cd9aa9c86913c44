//! Objects whose keys are data, in the order in which a reader should see them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Keyed<T, K: Key>(pub Vec<(String, T)>, PhantomData<K>);

/// The form of the keys.
pub(crate) trait Key {
    const NAME: &'static str;
    const PATTERN: &'static str;
}

/// `acme`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ByName;

impl Key for ByName {
    const NAME: &'static str = "Name";
    const PATTERN: &'static str = "^[a-z0-9-]{2,64}$";
}

/// `acme:web`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ByScope;

impl Key for ByScope {
    const NAME: &'static str = "Scope";
    const PATTERN: &'static str = "^[a-z0-9-]{2,64}:[a-z0-9-]{2,64}$";
}

/// `K7H9M2PQX8`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ById;

impl Key for ById {
    const NAME: &'static str = "Id";
    const PATTERN: &'static str = "^[2-9A-HJ-NP-Z]{10}$";
}

impl<T, K: Key> Keyed<T, K> {
    pub(crate) fn new(pairs: Vec<(String, T)>) -> Keyed<T, K> {
        Keyed(pairs, PhantomData)
    }
}

impl<T: Serialize, K: Key> Serialize for Keyed<T, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>, K: Key> Deserialize<'de> for Keyed<T, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pairs<T> {
            type Value = Vec<(String, T)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData)).map(Keyed::new)
    }
}

impl<T: JsonSchema, K: Key> JsonSchema for Keyed<T, K> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}By{}", T::schema_name(), K::NAME).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({
            "type": "object",
            "patternProperties": {K::PATTERN: value},
            "additionalProperties": false,
        })
    }
}
