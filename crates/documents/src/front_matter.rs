//! What a file says about itself before its text: YAML between two lines of three dashes.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use serde::Deserialize;

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

/// As it is written: names vary from tool to tool.
#[derive(Deserialize)]
struct Written {
    title: Option<Scalar>,
    doc_tag: Option<Scalar>,
    tags: Option<Many>,
    #[serde(alias = "repo")]
    repository: Option<Scalar>,
    #[serde(alias = "env")]
    environment: Option<Scalar>,
    #[serde(alias = "last_updated", alias = "lastmod", alias = "last_update", alias = "date")]
    updated: Option<Scalar>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Whole(i64),
    Number(f64),
    Truth(bool),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Many {
    List(Vec<Scalar>),
    One(Scalar),
}

impl Scalar {
    fn text(self) -> Option<String> {
        let text = match self {
            Scalar::Text(text) => text.trim().to_owned(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Truth(truth) => truth.to_string(),
        };
        Some(text).filter(|text| !text.is_empty())
    }
}

/// The front matter and what follows it. Without one, all of the text follows.
pub(crate) fn split(text: &str) -> Result<(FrontMatter, &str), Error> {
    let Some((yaml, body)) = parts(text) else { return Ok((FrontMatter::default(), text)) };
    if yaml.trim().is_empty() {
        return Ok((FrontMatter::default(), body));
    }
    let written: Written =
        serde_saphyr::from_str(yaml).map_err(|error| Error::FrontMatter(first_line(&error.to_string())))?;
    let tags = match written.tags {
        None => Vec::new(),
        Some(Many::List(tags)) => tags.into_iter().filter_map(Scalar::text).collect(),
        // `tags: a, b`
        Some(Many::One(tag)) => {
            let text = tag.text().unwrap_or_default();
            text.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
        }
    };
    let about = FrontMatter {
        title: written.title.and_then(Scalar::text),
        doc_tag: written.doc_tag.and_then(Scalar::text),
        tags,
        repository: written.repository.and_then(Scalar::text),
        environment: written.environment.and_then(Scalar::text),
        updated: written.updated.and_then(Scalar::text).as_deref().and_then(moment),
    };
    Ok((about, body))
}

fn parts(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// A moment, or the beginning of a day, in UTC where no offset is given.
fn moment(text: &str) -> Option<Timestamp> {
    let utc = |date: DateTime| date.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
    text.parse::<Timestamp>()
        .ok()
        .or_else(|| utc(text.parse::<DateTime>().ok()?))
        .or_else(|| utc(text.parse::<Date>().ok()?.at(0, 0, 0, 0)))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
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
    fn what_is_none_is_text_and_what_is_broken_is_said() {
        for text in ["", "---", "--- \n", "---\nnever ends", "# Title\n---\n"] {
            assert_eq!(split(text).ok(), Some((FrontMatter::default(), text)), "{text}");
        }
        assert!(split("---\ntitle: [\n---\n").is_err());
        assert_eq!(split("---\n---\nx").expect("empty").1, "x");
    }
}
