//! Scopes, which contain entries and documents: `namespace:scope`. A scope inherits from its parents, and
//! every scope from the `default` of its namespace and from `global:default`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Id, Timestamp};

/// The built-in namespace.
pub const GLOBAL: &str = "global";
/// The name of the scope that every namespace has, and that its other scopes inherit from.
pub const DEFAULT: &str = "default";
/// The description of the built-in namespace and its scope.
pub const GLOBAL_ABOUT: &str = "Universal knowledge accessible everywhere";

/// The name of a scope as people write it. It is parsed once, when a call arrives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeName {
    pub namespace: String,
    pub name: String,
}

impl ScopeName {
    /// `None` unless both parts are valid names.
    pub fn parse(text: &str) -> Option<ScopeName> {
        let (namespace, name) = text.split_once(':')?;
        (is_name(namespace) && is_name(name)).then(|| ScopeName::new(namespace, name))
    }

    pub fn new(namespace: &str, name: &str) -> ScopeName {
        ScopeName { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn global_default() -> ScopeName {
        ScopeName::new(GLOBAL, DEFAULT)
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.name)
    }
}

/// Whether the text is 2 to 64 characters of `[a-z0-9-]`, as the names of namespaces and scopes must be.
pub fn is_name(text: &str) -> bool {
    (2..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The number that the log stores in place of a scope's name, so that a rename never rewrites an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScopeId(pub u32);

impl ScopeId {
    pub const GLOBAL_DEFAULT: ScopeId = ScopeId(1);
}

/// One version of a namespace, as the log holds it. `global` is not in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    pub name: String,
    pub description: String,
    pub actor: String,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

impl Namespace {
    /// The id of `global`, which is never given to another namespace.
    pub const GLOBAL_ID: Id = Id::SMALLEST;
}

/// One version of a scope, as the log holds it. `global:default` is not in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    pub number: ScopeId,
    /// The id of the namespace.
    pub namespace: Id,
    pub name: String,
    pub description: String,
    /// In the given order, without the namespace's `default`, which always comes last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<ScopeId>,
    pub actor: String,
    pub version: u32,
    pub recorded_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

/// The names of scopes as of some transaction; a deleted scope has its last name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScopeNames(pub BTreeMap<ScopeId, ScopeName>);

impl ScopeNames {
    pub fn of(&self, scope: ScopeId) -> String {
        match (scope, self.0.get(&scope)) {
            (ScopeId::GLOBAL_DEFAULT, _) => ScopeName::global_default().to_string(),
            (_, Some(name)) => name.to_string(),
            // Names are always looked up together with the ids, so this happens only if the store is damaged.
            (ScopeId(number), None) => format!("unknown:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ScopeName;

    #[test]
    fn a_scope_is_two_names_and_a_colon() {
        let printed = |text| ScopeName::parse(text).map(|scope| scope.to_string());
        assert_eq!(printed("acme:petshop-storefront").as_deref(), Some("acme:petshop-storefront"));
        for text in ["", "acme", "acme:", "a:web", "Acme:web", "acme:web:x", "acme:we b", "acme:wéb"] {
            assert_eq!(printed(text), None, "{text}");
        }
    }
}
