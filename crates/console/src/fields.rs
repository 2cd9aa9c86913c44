//! The fields of a form or of an address, in their order.

/// Names and decoded values. A name may occur more than once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Fields {
        Fields(form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value with this name that is not blank.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.0.iter().filter(move |(known, _)| known == name);
        values.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// The first value with this name as it was sent, also if it is empty.
    pub(crate) fn sent(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }
}

/// An address with these query fields, without those that are empty.
pub(crate) fn address<'a>(path: &str, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        if !value.is_empty() {
            query.append_pair(name, value);
        }
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}
