//! The front matter of a file: YAML between two lines of three dashes, TOML between two lines of `+++`, or
//! the fields at the beginning of a reStructuredText file. Malformed front matter does not prevent ingesting
//! the file; it is then read line by line.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::Error;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontMatter {
    pub title: Option<String>,
    pub doc_tag: Option<String>,
    pub tags: Vec<String>,
    pub repository: Option<String>,
    pub environment: Option<String>,
    pub updated: Option<Timestamp>,
}

/// The front matter as written; the names of fields differ between tools.
#[derive(Deserialize)]
struct RawFrontMatter {
    title: Option<Scalar>,
    doc_tag: Option<Scalar>,
    #[serde(alias = "tag")]
    tags: Option<OneOrMany>,
    #[serde(alias = "repo")]
    repository: Option<Scalar>,
    #[serde(alias = "env")]
    environment: Option<Scalar>,
    #[serde(alias = "last_updated", alias = "lastmod", alias = "last_update", alias = "date")]
    updated: Option<Scalar>,
}

/// A value as its text: `0001` and `no` are not converted to a number or a boolean.
#[derive(Deserialize)]
pub(crate) struct Scalar(String);

pub(crate) enum OneOrMany {
    List(Vec<Scalar>),
    One(Scalar),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany, D::Error> {
        struct ListOrOne;

        impl<'de> Visitor<'de> for ListOrOne {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMany, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Option<Scalar>>()? {
                    list.extend(item);
                }
                Ok(OneOrMany::List(list))
            }

            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Scalar(text.to_owned())))
            }

            fn visit_bool<E>(self, truth: bool) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Scalar(truth.to_string())))
            }

            fn visit_i64<E>(self, number: i64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Scalar(number.to_string())))
            }

            fn visit_u64<E>(self, number: u64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Scalar(number.to_string())))
            }

            fn visit_f64<E>(self, number: f64) -> Result<OneOrMany, E> {
                Ok(OneOrMany::One(Scalar(number.to_string())))
            }
        }

        deserializer.deserialize_any(ListOrOne)
    }
}

impl OneOrMany {
    pub(crate) fn texts(self) -> Vec<String> {
        match self {
            OneOrMany::List(texts) => texts.into_iter().filter_map(Scalar::text).collect(),
            OneOrMany::One(text) => list(&text.text().unwrap_or_default()),
        }
    }
}

impl Scalar {
    pub(crate) fn text(self) -> Option<String> {
        Some(self.0.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

/// The front matter, and the text after it. A file without front matter is all text.
pub(crate) fn split(text: &str) -> Result<(FrontMatter, &str), Error> {
    let none = (FrontMatter::default(), text);
    if let Some((toml, body)) = toml(text) {
        return if is_mapping(toml, '=') { Ok((by_line(toml, '=')?, body)) } else { Ok(none) };
    }
    let Some((yaml, body)) = yaml(text) else { return Ok(none) };
    if yaml.trim().is_empty() {
        return Ok((FrontMatter::default(), body));
    }
    // A file may begin with a horizontal rule and have another one later, which is not front matter.
    if !is_mapping(yaml, ':') {
        return Ok(none);
    }
    match serde_saphyr::from_str::<RawFrontMatter>(yaml) {
        Ok(raw) => Ok((raw.read(), body)),
        Err(_) => Ok((by_line(yaml, ':')?, body)),
    }
}

impl RawFrontMatter {
    fn read(self) -> FrontMatter {
        FrontMatter {
            title: self.title.and_then(Scalar::text),
            doc_tag: self.doc_tag.and_then(Scalar::text),
            tags: self.tags.map(OneOrMany::texts).unwrap_or_default(),
            repository: self.repository.and_then(Scalar::text),
            environment: self.environment.and_then(Scalar::text),
            updated: self.updated.and_then(Scalar::text).as_deref().and_then(moment),
        }
    }
}

/// The YAML, and the text after it, if the file has any.
pub(crate) fn yaml(text: &str) -> Option<(&str, &str)> {
    parts(text, "---", &["---", "..."])
}

pub(crate) fn toml(text: &str) -> Option<(&str, &str)> {
    parts(text, "+++", &["+++"])
}

fn parts<'a>(text: &'a str, opening: &str, closing: &[&str]) -> Option<(&'a str, &'a str)> {
    let rest = text.strip_prefix(opening)?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if closing.contains(&line.trim_end()) {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// Whether the text begins with a key, and most of its unindented lines are keys.
pub(crate) fn is_mapping(text: &str, sign: char) -> bool {
    let is_of_it = |line: &&str| line.starts_with(|c: char| c.is_alphanumeric() || "\"'_*>".contains(c));
    let is_key = |line: &&str| key_and_value(line, sign).is_some();
    let at_margin: Vec<&str> = text.lines().filter(is_of_it).collect();
    let keys = at_margin.iter().filter(|line| is_key(line)).count();
    at_margin.first().is_some_and(is_key) && keys * 2 > at_margin.len()
}

/// The key and the value of an unindented line; the key consists of one to three words.
fn key_and_value(line: &str, sign: char) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(sign)?;
    let key = key.trim_end().trim_matches(['"', '\'']);
    let is_word = (1..=3).contains(&key.split(' ').count())
        && !key.is_empty()
        && key.chars().all(|c| c.is_alphanumeric() || "_-. ".contains(c));
    // In `https://…` the part before the colon is not a key.
    let is_apart = sign == '=' || value.is_empty() || value.starts_with(char::is_whitespace);
    (is_word && is_apart).then(|| (key, value.trim()))
}

/// The known fields, as far as they can be read without a parser for the language.
fn by_line(text: &str, sign: char) -> Result<FrontMatter, Error> {
    let mut about = FrontMatter::default();
    for (key, value) in pairs(text, sign)? {
        about.set(key, &value);
    }
    Ok(about)
}

/// Each key with the text up to the next key.
pub(crate) fn pairs(text: &str, sign: char) -> Result<Vec<(&str, String)>, Error> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = key_and_value(line, sign) else { continue };
        let mut value = value.to_owned();
        // A list continues below its key, up to its closing bracket or the next key.
        let is_open = |value: &str| value.starts_with('[') && !value.contains(']');
        while let Some(next) = lines.next_if(|next| is_open(&value) || next.starts_with([' ', '-'])) {
            value.push('\n');
            value.push_str(next.trim());
        }
        // A value of nothing but opening brackets is an error, since the brackets were never closed.
        if !value.is_empty() && value.chars().all(|c| "[{".contains(c) || c.is_whitespace()) {
            return Err(Error::FrontMatter(format!("`{key}` opens a bracket that nothing closes")));
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

impl FrontMatter {
    /// Sets a field of a file without front matter; a value that can't be read is ignored.
    pub(crate) fn field(&mut self, key: &str, value: &str) {
        self.set(key, value);
    }

    /// Sets a field, given by one of its names. The first value is kept, and unknown names are ignored.
    fn set(&mut self, key: &str, value: &str) {
        let slot = match key.to_lowercase().as_str() {
            "title" => &mut self.title,
            "doc_tag" => &mut self.doc_tag,
            "repository" | "repo" => &mut self.repository,
            "environment" | "env" => &mut self.environment,
            "tags" | "tag" if self.tags.is_empty() => {
                self.tags = list(value);
                return;
            }
            "updated" | "last_updated" | "lastmod" | "last_update" | "date" => {
                self.updated = self.updated.or_else(|| moment(unquoted(value)));
                return;
            }
            _ => return,
        };
        *slot = slot.take().or_else(|| one_line(value));
    }
}

/// The words of a text of several lines, without the YAML signs for such a text.
pub(crate) fn one_line(value: &str) -> Option<String> {
    let value = value.trim();
    let value = value.strip_prefix(['>', '|']).map_or(value, |rest| rest.trim_start_matches(['-', '+']));
    let value = unquoted(value).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(value).filter(|value| !value.is_empty())
}

/// The items of `a, b`, `[a, 'b']`, or of lines that begin with a dash.
pub(crate) fn list(text: &str) -> Vec<String> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let parts = text.split([',', '\n']).map(|part| {
        let part = part.trim();
        unquoted(part.strip_prefix("- ").unwrap_or(part)).to_owned()
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// A time, or the beginning of a day; in UTC if no offset is given.
fn moment(text: &str) -> Option<Timestamp> {
    let utc = |date: DateTime| date.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    text.parse::<Timestamp>()
        .ok()
        .or_else(|| utc(text.parse::<DateTime>().ok()?))
        .or_else(|| utc(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_however_they_are_written() {
        let text = "---\ntitle: 'Deleting: a snapshot'\ntags: ops, storage\nrepo: core\ndate: 2026-02-10\nother: [1]\n---\nText";
        let (about, body) = split(text).expect("good front matter");
        assert_eq!(about.title.as_deref(), Some("Deleting: a snapshot"));
        assert_eq!(about.tags, ["ops", "storage"]);
        assert_eq!(about.repository.as_deref(), Some("core"));
        assert_eq!(about.updated.map(|at| at.to_string()).as_deref(), Some("2026-02-10T00:00:00Z"));
        assert_eq!(body, "Text");
    }

    #[test]
    fn what_is_not_good_yaml_is_read_by_line() {
        for (yaml, title) in [
            ("title: Foo: bar baz", "Foo: bar baz"),
            ("title: [a, b]", "[a, b]"),
            ("title: {{ page.title }}", "{{ page.title }}"),
            ("title: @scope/package", "@scope/package"),
            ("layout: %x\ntitle: \"Quoted: yes\"", "Quoted: yes"),
        ] {
            let text = format!("---\n{yaml}\ntags:\n  - one\n  - 'two'\ndate: 2026-02-10\n---\nText");
            let (about, body) = split(&text).expect("it is harmless");
            assert_eq!((about.title.as_deref(), body), (Some(title), "Text"), "{yaml}");
            assert_eq!(about.tags, ["one", "two"], "{yaml}");
            assert!(about.updated.is_some(), "{yaml}");
        }
    }

    #[test]
    fn toml_is_read_by_line() {
        let text = "+++\ntitle = \"A = b\"\ndate = 2026-02-10T08:00:00Z\n\n[taxonomies]\ntags = [\n  \"one\",\n  \"two\",\n]\n+++\nText";
        let (about, body) = split(text).expect("good front matter");
        assert_eq!((about.title.as_deref(), body), (Some("A = b"), "Text"));
        assert_eq!(about.tags, ["one", "two"]);
        assert!(about.updated.is_some());
    }

    #[test]
    fn what_is_none_is_text_and_what_is_broken_is_said() {
        for text in [
            "",
            "---",
            "--- \n",
            "---\nnever ends",
            "# Title\n---\n",
            "---\n\n# Title\n\nSome words.\n\n---\n\nMore.",
            "---\nNote: this is a sentence\nthat goes on\nfor some lines.\n---\nMore.",
            "---\n- a\n- b\n---\nText",
            "+++\nplus\n+++\n",
        ] {
            assert_eq!(split(text).ok(), Some((FrontMatter::default(), text)), "{text}");
        }
        let broken = split("---\ntitle: [\n---\n").expect_err("it is broken").to_string();
        assert_eq!(broken, "the front matter can't be read: `title` opens a bracket that nothing closes");
        assert_eq!(split("---\n---\nx").expect("empty").1, "x");
    }
}
