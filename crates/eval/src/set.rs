//! A labelled set in the common form of BEIR: `corpus.jsonl`, `queries.jsonl`, `qrels.tsv`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

pub struct Set {
    pub texts: Vec<Text>,
    pub questions: Vec<LabelledQuestion>,
}

#[derive(Clone, Deserialize)]
pub struct Text {
    #[serde(rename = "_id")]
    pub id: String,
    #[serde(default)]
    pub title: String,
    pub text: String,
    #[serde(default)]
    pub scope: String,
    /// The document that this text is a part of; all its parts are judged as one.
    #[serde(default)]
    pub doc: Option<String>,
}

impl Text {
    pub fn group(&self) -> &str {
        self.doc.as_deref().unwrap_or(&self.id)
    }
}

#[derive(Clone, Deserialize)]
pub struct LabelledQuestion {
    #[serde(rename = "_id")]
    pub id: String,
    pub text: String,
    /// The scope in which the question is asked; without one it is asked in all scopes.
    #[serde(default)]
    pub scope: Option<String>,
    /// The texts that a good answer quotes.
    #[serde(default)]
    pub answers: Vec<String>,
    /// The texts that should be found, with their grades.
    #[serde(skip)]
    pub relevant: HashMap<String, f64>,
}

impl Set {
    pub fn read(dir: &Path) -> anyhow::Result<Set> {
        let texts = lines(&dir.join("corpus.jsonl"))?;
        let mut questions: Vec<LabelledQuestion> = lines(&dir.join("queries.jsonl"))?;
        let path = dir.join("qrels.tsv");
        let labels =
            fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
        let mut relevant: HashMap<&str, HashMap<String, f64>> = HashMap::new();
        for line in labels.lines().skip(1).filter(|line| !line.is_empty()) {
            let mut fields = line.split('\t');
            let (Some(question), Some(text), Some(gain)) = (fields.next(), fields.next(), fields.next())
            else {
                anyhow::bail!("{}: `{line}` is not question, text and score", path.display());
            };
            let gain: f64 = gain.parse().with_context(|| format!("`{gain}` is not a score"))?;
            if gain > 0.0 {
                relevant.entry(question).or_default().insert(text.to_owned(), gain);
            }
        }
        for asked in &mut questions {
            asked.relevant = relevant.remove(asked.id.as_str()).unwrap_or_default();
        }
        Ok(Set { texts, questions })
    }
}

pub(crate) fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}, line {}", path.display(), number + 1))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}
