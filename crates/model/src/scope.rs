//! Where knowledge lives: `namespace:scope`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A scope's name as people write it. Parsed once at the edge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    namespace: String,
    name: String,
}

impl Scope {
    /// `None` unless both parts are 2 to 64 of `[a-z0-9-]`.
    pub fn parse(text: &str) -> Option<Scope> {
        let (namespace, name) = text.split_once(':')?;
        let fits = |part: &str| {
            (2..=64).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        (fits(namespace) && fits(name))
            .then(|| Scope { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    pub fn global_default() -> Scope {
        Scope { namespace: "global".to_owned(), name: "default".to_owned() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.name)
    }
}

/// What the log stores instead of the name, so that a rename never rewrites an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScopeId(pub u32);

impl ScopeId {
    pub const GLOBAL_DEFAULT: ScopeId = ScopeId(1);
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn a_scope_is_two_names_and_a_colon() {
        let printed = |text| Scope::parse(text).map(|scope| scope.to_string());
        assert_eq!(printed("acme:petshop-storefront").as_deref(), Some("acme:petshop-storefront"));
        for text in ["", "acme", "acme:", "a:web", "Acme:web", "acme:web:x", "acme:we b", "acme:wéb"] {
            assert_eq!(printed(text), None, "{text}");
        }
    }
}
