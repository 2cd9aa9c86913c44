//! The briefing beside a prompt: entries that match the prompt's queries, and sentences from documents if the
//! prompt is a question.

use std::collections::HashMap;

use kenning_engine::{Engine, Error, QueryMatches, Sight, Snapshot, excerpt};
use kenning_model::{EntityType, Id, ScopeId, ScopeName, Timestamp};

use super::queries::queries;
use super::{
    AlreadyGiven, Briefing, chars, context, cut_chars, enclosed, gist, hash, hash_of, place, plain, scope_of,
};
use crate::code::counted;
use crate::kb::brief_evidence;
use crate::{Caller, Context, Stop};

/// Hosts keep the output of a hook in the conversation, so this is small.
pub const PROMPT_CHARS_MAX: usize = 1_500;
/// With more entries than this, each line would be cut so short that it says nothing.
const ENTRIES_MAX: usize = 12;
/// No line is cut to fewer characters than this; the number of entries is reduced instead.
const LINE_CHARS_MIN: usize = 100;
const QUOTES_MAX: usize = 2;
const QUOTE_CHARS_MAX: usize = 300;

// The numbers below were fitted on the part of `crates/eval/recall` that may be looked at.

/// The relevance of a query is the share of its words that the best entry has, weighted by how rare the words
/// are, plus the cosine of the nearest entry. A prompt is relevant if its best query reaches this value,
const ABOUT_ONE_MIN: f32 = 0.55;
/// or its two best queries reach this value together,
const ABOUT_TWO_MIN: f32 = 0.9;
/// or its three best do.
const ABOUT_THREE_MIN: f32 = 1.1;
/// Stands for the cosine if meaning can't be compared because the table of vectors does not know the
/// language.
const COSINE_UNKNOWN: f32 = 0.25;
/// Each rank within the results of a query lowers the score of an entry by this much.
const RANK_COST: f32 = 0.05;

/// An entry that a query found, with its score.
struct ScoredEntry {
    score: f32,
    id: Id,
}

/// The briefing beside a prompt. It is empty if nothing is known about the prompt, or everything was given
/// before.
pub fn prompt(
    engine: &Engine,
    caller: &Caller,
    prompt: &str,
    given: &AlreadyGiven,
) -> Result<Briefing, Stop> {
    let queries = queries(prompt);
    let ctx = context(engine, caller);
    let snapshot = ctx.snapshot()?;
    let mut briefing = Briefing { at: snapshot.at(), scope: caller.scope.clone(), ..Briefing::default() };
    let Some((scope, number)) = scope_of(&ctx, &snapshot)? else { return Ok(briefing) };
    briefing.scope = scope.to_string();
    let sight = snapshot.sight(number)?;
    let now = engine.now();
    let mut page = PromptBriefing {
        ctx: &ctx,
        snapshot: &snapshot,
        sight: &sight,
        scope: &scope,
        given,
        queries: &queries,
    };
    let found = page.found(now)?;
    let entries = page.entries(&found, now)?;
    let quotes = if is_question(prompt) { page.quotes(&mut briefing.said)? } else { Vec::new() };
    page.write(&mut briefing, entries, quotes)?;
    Ok(briefing)
}

/// Whether the prompt asks for information. Only such prompts get sentences from documents.
fn is_question(prompt: &str) -> bool {
    const ASKING: [&str; 28] = [
        "how", "what", "where", "which", "why", "when", "who", "does", "is", "are", "can", "should",
        "explain", "describe", "wie", "was", "wo", "welche", "welcher", "welches", "warum", "wann", "wer",
        "kann", "darf", "muss", "ist", "erkläre",
    ];
    let first = prompt.split_whitespace().next().unwrap_or_default();
    let first = first.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    prompt.contains('?') || ASKING.contains(&first.as_str())
}

/// An entry that may become part of the briefing.
struct BriefingEntry {
    id: Id,
    hash: u64,
    scope: ScopeId,
    text: String,
}

struct PromptBriefing<'a> {
    ctx: &'a Context<'a>,
    snapshot: &'a Snapshot<'a>,
    sight: &'a Sight,
    scope: &'a ScopeName,
    given: &'a AlreadyGiven,
    queries: &'a [String],
}

impl PromptBriefing<'_> {
    /// The entries that the queries found, best first; none if nothing in the store is relevant to the
    /// prompt.
    fn found(&self, now: Timestamp) -> Result<Vec<ScoredEntry>, Stop> {
        let mut best: HashMap<Id, f32> = HashMap::new();
        let mut abouts = Vec::new();
        for query in self.queries {
            let matches = match self.snapshot.query_matches(self.sight, query, now) {
                Ok(matches) => matches,
                // The matches found before the time ran out are better than none.
                Err(Error::OutOfTime) => break,
                Err(error) => return Err(error.into()),
            };
            abouts.push(about(&matches));
            for found in scored(&matches) {
                let known = best.entry(found.id).or_insert(found.score);
                *known = known.max(found.score);
            }
        }
        if !is_about(abouts) {
            return Ok(Vec::new());
        }
        let mut found: Vec<ScoredEntry> =
            best.into_iter().map(|(id, score)| ScoredEntry { score, id }).collect();
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.id.cmp(&other.id)));
        Ok(found)
    }

    /// The found entries that the session was not given yet, at most `ENTRIES_MAX`. Pinned entries are left
    /// out because the briefing at the start of a session has them.
    fn entries(&self, found: &[ScoredEntry], now: Timestamp) -> Result<Vec<BriefingEntry>, Stop> {
        let ids: Vec<Id> = found.iter().map(|found| found.id).collect();
        let mut entries = Vec::new();
        for stored in self.snapshot.records(EntityType::Entry, &ids)?.into_iter().flatten() {
            let Some(entry) = stored.record.as_entry() else { continue };
            let is_over = entry.valid_to.is_some_and(|end| end <= now);
            let hash = hash_of(entry);
            if entry.pinned || is_over || self.given.contains(&(stored.id, hash)) {
                continue;
            }
            entries.push(BriefingEntry { id: stored.id, hash, scope: entry.scope, text: gist(entry) });
            if entries.len() == ENTRIES_MAX {
                break;
            }
        }
        Ok(entries)
    }

    /// Sentences from documents, one per line.
    fn quotes(&self, said: &mut Vec<(Id, u64)>) -> Result<Vec<String>, Stop> {
        if !self.snapshot.content()?.documents {
            return Ok(Vec::new());
        }
        let question = self.queries.join("\n");
        if question.is_empty() {
            return Ok(Vec::new());
        }
        let quotes = match brief_evidence(self.ctx, self.snapshot, &question, QUOTES_MAX) {
            Ok(quotes) => quotes,
            Err(stop) if stop.code == crate::Code::Timeout => return Ok(Vec::new()),
            Err(stop) => return Err(stop),
        };
        let mut lines = Vec::new();
        for quote in quotes {
            let text = plain(&quote.quote);
            let Some(id) = Id::parse(&quote.section_id) else { continue };
            let key = (id, hash(&[&text]));
            if self.given.contains(&key) || said.contains(&key) {
                continue;
            }
            said.push(key);
            let [title, path] = [&quote.title, &quote.path].map(|text| cut_chars(&plain(text), 80));
            lines.push(format!("{id} {title} ({path}): {}", cut_chars(&text, QUOTE_CHARS_MAX)));
        }
        Ok(lines)
    }

    fn write(
        &mut self,
        briefing: &mut Briefing,
        entries: Vec<BriefingEntry>,
        quotes: Vec<String>,
    ) -> Result<(), Stop> {
        if entries.is_empty() && quotes.is_empty() {
            return Ok(());
        }
        let scopes: Vec<ScopeId> = entries.iter().map(|entry| entry.scope).collect();
        let names = self.snapshot.scope_names(&scopes)?;
        let texts: Vec<&str> = self.queries.iter().map(String::as_str).collect();
        let words = self.snapshot.rarities(self.sight, &texts)?;
        let (scope, at) = (self.scope, self.snapshot.at());
        let sections = briefing.said.len();
        let mut entries = entries;
        loop {
            let mut what = Vec::new();
            if !entries.is_empty() {
                what.push(counted(entries.len(), "stored entry"));
            }
            if !quotes.is_empty() {
                what.push(format!("{} of documents", counted(quotes.len(), "sentence")));
            }
            let what = what.join(" and ");
            let head =
                format!("Kenning: {what} in what `{scope}` sees may concern this prompt (transaction {at}).");
            let around = chars(&enclosed(&head, &[String::new()], "")) + 1;
            let fixed: usize = quotes.iter().map(|line| chars(line) + 1).sum();
            let room = PROMPT_CHARS_MAX.saturating_sub(around + fixed);
            let leads: Vec<String> = entries
                .iter()
                .map(|entry| format!("{}{} ", entry.id, place(&names, scope, entry.scope)))
                .collect();
            let lines: Vec<String> = shares(&leads, &entries, room)
                .into_iter()
                .zip(leads.iter().zip(&entries))
                .map(|(share, (lead, entry))| {
                    let shown = match chars(&entry.text) > share {
                        true => cut_chars(&plain(&excerpt(&words, &entry.text, share)), share),
                        false => entry.text.clone(),
                    };
                    format!("{lead}{shown}")
                })
                .chain(quotes.iter().cloned())
                .collect();
            briefing.text = enclosed(&head, &lines, "");
            let is_cramped = entries.len() > 1 && room < entries.len() * LINE_CHARS_MIN;
            if chars(&briefing.text) <= PROMPT_CHARS_MAX && !is_cramped {
                break;
            }
            // The fence has become longer because of the text inside it, or there are too many lines: drop
            // the last entry and try again.
            if entries.pop().is_none() {
                briefing.text.clear();
                briefing.said.clear();
                return Ok(());
            }
        }
        briefing.said.truncate(sections);
        briefing.said.splice(0..0, entries.iter().map(|entry| (entry.id, entry.hash)));
        Ok(())
    }
}

/// How many characters of each entry are shown. Short texts are shown whole, and the room that they leave is
/// shared by the longer ones.
fn shares(leads: &[String], entries: &[BriefingEntry], room: usize) -> Vec<usize> {
    let mut left = room.saturating_sub(leads.iter().map(|lead| chars(lead) + 1).sum());
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|at| chars(&entries[*at].text));
    let mut shares = vec![0; entries.len()];
    for (done, at) in order.iter().enumerate() {
        let fair = left / (entries.len() - done);
        shares[*at] = chars(&entries[*at].text).min(fair);
        left -= shares[*at];
    }
    shares
}

/// The relevance of a query to the stored entries, from 0 to 2.
fn about(matches: &QueryMatches) -> f32 {
    let covered = matches.best.iter().map(|it| it.covered).fold(0.0, f32::max);
    let nearest = matches.nearest.iter().map(|it| it.cosine).fold(0.0, f32::max);
    covered + if matches.is_meaningful { nearest } else { COSINE_UNKNOWN }
}

/// Whether a prompt with queries of these relevances is about something stored. A long prompt has many
/// topics, so several weak queries count as much as one strong query.
fn is_about(mut abouts: Vec<f32>) -> bool {
    abouts.sort_by(|one, other| other.total_cmp(one));
    let of = |many: usize| abouts.iter().take(many).sum::<f32>();
    of(1) >= ABOUT_ONE_MIN || of(2) >= ABOUT_TWO_MIN || of(3) >= ABOUT_THREE_MIN
}

/// The entries that `get_task_context` would choose for this query, with their scores.
fn scored(matches: &QueryMatches) -> Vec<ScoredEntry> {
    let of = |id: &Id| matches.best.iter().chain(&matches.nearest).find(|found| found.id == *id);
    let scored = |(rank, id): (usize, &Id)| {
        let found = of(id)?;
        let score = found.covered + found.cosine.max(0.0) - RANK_COST * rank as f32;
        Some(ScoredEntry { id: *id, score })
    };
    matches.chosen.iter().enumerate().filter_map(scored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_that_is_about_much_is_as_good_as_three_that_are_about_little() {
        for (abouts, expected) in [
            (vec![], false),
            (vec![0.5], false),
            (vec![0.6], true),
            (vec![0.4, 0.0, 0.45], false),
            (vec![0.5, 0.0, 0.45], true),
            (vec![0.35, 0.35, 0.35], false),
            (vec![0.1, 0.38, 0.38, 0.38], true),
        ] {
            assert_eq!(is_about(abouts.clone()), expected, "{abouts:?}");
        }
    }

    #[test]
    fn short_texts_are_shown_whole_and_long_ones_share_what_is_left() {
        let entry = |text: &str| BriefingEntry {
            id: Id::from_bits(1),
            hash: 0,
            scope: ScopeId(1),
            text: text.to_owned(),
        };
        let entries = [entry(&"x".repeat(500)), entry("short"), entry(&"y".repeat(400))];
        let leads: Vec<String> = entries.iter().map(|_| "ID ".to_owned()).collect();
        assert_eq!(shares(&leads, &entries, 5 + 200 + 3 * 4), [100, 5, 100]);
        assert_eq!(shares(&leads, &entries, 5_000), [500, 5, 400]);
        assert_eq!(shares(&leads, &entries, 3), [0, 0, 0]);
    }

    #[test]
    fn who_asks_is_told_from_who_orders() {
        for (prompt, expected) in [
            ("How do we deploy", true),
            ("wie wird das gebaut", true),
            ("fix it, will you?", true),
            ("fix the build", false),
            ("", false),
        ] {
            assert_eq!(is_question(prompt), expected, "{prompt}");
        }
    }
}
