//! Measures whether facts from long conversations are found, and are in the text that a model reads.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::library::{Library, text_of};

#[derive(Deserialize)]
pub struct Conversations {
    conversations: Vec<Conversation>,
}

#[derive(Deserialize)]
struct Conversation {
    name: String,
    sessions: Vec<Session>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Session {
    date: String,
    turns: Vec<String>,
}

#[derive(Deserialize)]
struct Question {
    question: String,
    answer: String,
    #[serde(default)]
    unseen: bool,
}

/// The part of a conversation that becomes one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// This many turns make an entry; each entry but the first of a session follows the one before it.
    Turns(usize),
    Session,
}

/// The share of questions whose answer is in the text of `query`, at two limits.
#[derive(Debug, Serialize)]
pub struct ShownScores {
    pub questions: usize,
    pub shown_at_10: f64,
    pub shown_at_20: f64,
    pub text_tokens_p50_at_10: usize,
}

impl Conversations {
    pub fn read(path: &Path) -> anyhow::Result<Conversations> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }
}

pub fn evaluate_conversations(
    set: &Conversations,
    unit: Unit,
    follows: bool,
    unseen: bool,
) -> anyhow::Result<ShownScores> {
    let mut shown = [0; 2];
    let (mut questions, mut tokens) = (0, Vec::new());
    for conversation in &set.conversations {
        let library = Library::default();
        store(&library, conversation, unit, follows)?;
        for asked in conversation.questions.iter().filter(|asked| asked.unseen == unseen) {
            questions += 1;
            for (at, limit) in [10, 20].into_iter().enumerate() {
                let reply = library.call("query", json!({"content": asked.question, "limit": limit}))?;
                let text = text_of(&reply);
                shown[at] += usize::from(text.to_lowercase().contains(&asked.answer.to_lowercase()));
                if limit == 10 {
                    tokens.push(text.len() / 4);
                }
            }
        }
    }
    tokens.sort_unstable();
    let share = |many: usize| many as f64 / questions.max(1) as f64;
    Ok(ShownScores {
        questions,
        shown_at_10: share(shown[0]),
        shown_at_20: share(shown[1]),
        text_tokens_p50_at_10: tokens.get(tokens.len() / 2).copied().unwrap_or(0),
    })
}

fn store(library: &Library, conversation: &Conversation, unit: Unit, follows: bool) -> anyhow::Result<()> {
    for session in &conversation.sessions {
        let many = match unit {
            Unit::Turns(many) => many,
            Unit::Session => session.turns.len(),
        };
        let topic = format!("{} {}", conversation.name, session.date);
        let mut entries: Vec<Value> = Vec::new();
        for (number, turns) in session.turns.chunks(many).enumerate() {
            let mut entry = json!({"topic": topic, "content": turns.join("\n")});
            if follows && number > 0 {
                entry["follows"] = json!(number - 1);
            }
            entries.push(entry);
        }
        library.call("store_many", json!({"entries": entries}))?;
    }
    Ok(())
}
