//! The briefing at the start of a session: the pinned entries, a summary of the scope, and the latest
//! changes.

use std::collections::HashSet;

use kenning_engine::{By, DocumentSource, Engine, Question, Sight, Snapshot};
use kenning_model::{EntityType, Id, Record, ScopeId, ScopeName, ScopeNames, Timestamp, TxId};
use kenning_storage::View;

use super::{
    AlreadyGiven, Briefing, chars, context, cut_chars, enclosed, gist, hash_of, place, plain, scope_of,
};
use crate::code::counted;
use crate::{Caller, Stop};

pub const START_CHARS_MAX: usize = 6_000;
/// Pinned entries may take this many characters; the latest changes get what is left of `START_CHARS_MAX`.
const PINNED_CHARS_MAX: usize = 3_600;
const PINNED_MAX: usize = 40;
/// A pinned entry is cut after this many characters; the model can read the rest with a tool.
const PINNED_LINE_CHARS: usize = 700;
/// If all entries together take at most this many characters (300 tokens), the start lists all of them. So a new store is
/// of use from its first entry on, whatever the first prompt is about.
const LITTLE_CHARS_MAX: usize = 1_200;
/// With more entries than this their texts are not even read, because so many are never that short.
const LITTLE_ENTRIES_MAX: u64 = 30;
const CHANGED_MAX: usize = 20;
const CHANGED_LINE_CHARS: usize = 220;
const TRANSACTIONS_MAX: u64 = 40;
const CHANGES_OF_ONE_MAX: usize = 40;
const SOURCES_MAX: usize = 5;
const DESCRIPTION_CHARS_MAX: usize = 200;
/// If the last session had at least this many prompts and stored nothing, the briefing mentions it.
const LONG_PROMPTS: u64 = 8;

/// The facts about the session that starts.
pub struct Start<'a> {
    pub given: &'a AlreadyGiven,
    /// Whether the session is resumed with its conversation intact. Then the briefing has only what is new.
    pub is_again: bool,
    /// For a session that has lost its conversation, the transaction at which it began: the briefing lists
    /// what was written since then.
    pub began: Option<TxId>,
    /// The session before this one in the same project.
    pub last: Option<LastSession>,
}

#[derive(Clone, Copy, Debug)]
pub struct LastSession {
    pub began: TxId,
    /// The newest transaction that this session can know of.
    pub seen: TxId,
    pub at: Timestamp,
    pub prompts: u64,
}

/// The briefing at the start of a session; empty if nothing is stored.
pub fn start(engine: &Engine, caller: &Caller, start: &Start<'_>) -> Result<Briefing, Stop> {
    let ctx = context(engine, caller);
    let snapshot = ctx.snapshot()?;
    let mut briefing = Briefing { at: snapshot.at(), scope: caller.scope.clone(), ..Briefing::default() };
    let Some((scope, number)) = scope_of(&ctx, &snapshot)? else { return Ok(briefing) };
    briefing.scope = scope.to_string();
    let sight = snapshot.sight(number)?;
    let names = snapshot.scope_names(sight.scopes())?;
    let page = StartBriefing {
        snapshot: &snapshot,
        sight: &sight,
        scope: &scope,
        names: &names,
        start,
        now: engine.now(),
    };
    let held = page.held()?;
    if held.entries == 0 && held.sources.is_empty() {
        return Ok(briefing);
    }
    let mut head = match start.is_again {
        true => format!(
            "Kenning, memory of `{scope}`, as of transaction {}: new since this session was told last.",
            snapshot.at()
        ),
        false => page.head(&held, number)?,
    };
    if let Some(refusal) = caller.refusal.as_ref().filter(|_| !start.is_again) {
        head.push_str(&format!(" {}", cut_chars(&plain(&refusal.message), 500)));
    }
    let tail = if start.is_again { None } else { page.wrote_nothing()? };
    let tail = tail.unwrap_or_default();
    let room = START_CHARS_MAX.saturating_sub(chars(&enclosed(&head, &[String::new()], &tail)));
    let mut lines = Lines { lines: Vec::new(), said: Vec::new(), left: room };
    page.pinned(&mut lines)?;
    if !start.is_again {
        page.all_if_little(&mut lines, held.entries)?;
    }
    page.changed(&mut lines)?;
    if start.is_again && lines.said.is_empty() {
        return Ok(briefing);
    }
    loop {
        briefing.text = enclosed(&head, &lines.lines, &tail);
        if chars(&briefing.text) <= START_CHARS_MAX || lines.lines.pop().is_none() {
            break;
        }
        // The fence has become longer because of the text inside it, so a line is dropped.
        lines.said.pop();
    }
    briefing.said = lines.said;
    Ok(briefing)
}

/// The stored lines of a briefing, and the room that is left for more.
struct Lines {
    lines: Vec<String>,
    said: Vec<(Id, u64)>,
    left: usize,
}

impl Lines {
    /// Adds a line if there is room for it.
    fn push(&mut self, line: String) -> bool {
        let cost = chars(&line) + 1;
        if cost > self.left {
            return false;
        }
        self.left -= cost;
        self.lines.push(line);
        true
    }
}

/// The amount of content that a scope sees.
struct Held {
    entries: u64,
    sources: Vec<DocumentSource>,
}

struct StartBriefing<'a> {
    snapshot: &'a Snapshot<'a>,
    sight: &'a Sight,
    scope: &'a ScopeName,
    names: &'a ScopeNames,
    start: &'a Start<'a>,
    now: Timestamp,
}

impl StartBriefing<'_> {
    fn held(&self) -> Result<Held, Stop> {
        let entries = self.snapshot.search(&self.everything(), 0..0)?.total;
        let mut sources = Vec::new();
        for scope in self.sight.scopes() {
            sources.extend(self.snapshot.document_sources(*scope)?);
        }
        Ok(Held { entries, sources })
    }

    /// The question that every entry answers, newest first.
    fn everything(&self) -> Question<'_> {
        Question {
            sight: self.sight,
            topic: None,
            content: None,
            tags: &[],
            visible_at: Some(self.now),
            by: By::Words,
            known_words_only: false,
            explain: false,
        }
    }

    /// The first lines of the briefing: the scope, its description, and how much it holds.
    fn head(&self, held: &Held, number: ScopeId) -> Result<String, Stop> {
        let (scope, at) = (self.scope, self.snapshot.at());
        let mut head =
            format!("Kenning, long-term memory, as of transaction {at}. This project's scope is `{scope}`");
        let tree = self.snapshot.tree()?;
        let description = tree.get(number).map(|scope| plain(&scope.description)).unwrap_or_default();
        if !description.is_empty() {
            head.push_str(&format!(
                " (\"{}\")",
                cut_chars(&description, DESCRIPTION_CHARS_MAX).replace('"', "'")
            ));
        }
        let others: Vec<String> =
            self.sight.scopes().iter().filter(|it| **it != number).map(|it| self.names.of(*it)).collect();
        let others = if others.is_empty() { String::new() } else { format!(", with {}", others.join(", ")) };
        head.push_str(&format!("{others}: {}", counted(held.entries as usize, "entry")));
        if !held.sources.is_empty() {
            let shown = held.sources.iter().take(SOURCES_MAX);
            let shown: Vec<String> = shown
                .map(|source| {
                    format!(
                        "`{}` ({})",
                        cut_chars(&plain(&source.name).replace('`', "'"), 40),
                        source.documents
                    )
                })
                .collect();
            let more = if held.sources.len() > SOURCES_MAX { ", …" } else { "" };
            head.push_str(&format!(", documents from {}{more}", shown.join(", ")));
        }
        head.push_str(". `get_task_context` has what a task needs, `query` what an id stands for.");
        Ok(head)
    }

    fn pinned(&self, lines: &mut Lines) -> Result<(), Stop> {
        let pinned = self.snapshot.pinned(self.sight, self.now, PINNED_MAX)?;
        let (mut spent, mut left_out, mut has_heading) = (0, 0, false);
        for stored in &pinned {
            let Some(entry) = stored.record.as_entry() else { continue };
            let key = (stored.id, hash_of(entry));
            if self.start.given.contains(&key) {
                continue;
            }
            let place = place(self.names, self.scope, entry.scope);
            let line = format!("{}{place} {}", stored.id, cut_chars(&gist(entry), PINNED_LINE_CHARS));
            if !has_heading {
                has_heading = lines.push("Pinned:".to_owned());
            }
            let cost = chars(&line) + 1;
            if spent + cost > PINNED_CHARS_MAX || !lines.push(line) {
                left_out += 1;
                continue;
            }
            spent += cost;
            lines.said.push(key);
        }
        if left_out > 0 {
            lines.push(format!("({left_out} more pinned)"));
        }
        Ok(())
    }

    /// Lists all entries that are not pinned, if they are few and short.
    fn all_if_little(&self, lines: &mut Lines, entries: u64) -> Result<(), Stop> {
        if entries > LITTLE_ENTRIES_MAX {
            return Ok(());
        }
        let found = self.snapshot.search(&self.everything(), 0..LITTLE_ENTRIES_MAX)?;
        let mut shown = Vec::new();
        for hit in &found.hits {
            let Some(entry) = hit.stored.record.as_entry() else { continue };
            let key = (hit.stored.id, hash_of(entry));
            if self.start.given.contains(&key) || lines.said.contains(&key) {
                continue;
            }
            let place = place(self.names, self.scope, entry.scope);
            shown.push((format!("{}{place} {}", hit.stored.id, gist(entry)), key));
        }
        let cost: usize = shown.iter().map(|(line, _)| chars(line) + 1).sum();
        if shown.is_empty() || cost > LITTLE_CHARS_MAX.min(lines.left) {
            return Ok(());
        }
        let heading = if lines.said.is_empty() { "All entries:" } else { "All other entries:" };
        lines.push(heading.to_owned());
        for (line, key) in shown {
            if lines.push(line) {
                lines.said.push(key);
            }
        }
        Ok(())
    }

    /// Lists what was written since this session began if it has lost its conversation, or else since the
    /// last session of the project.
    fn changed(&self, lines: &mut Lines) -> Result<(), Stop> {
        let (since, heading) = match (self.start.began, &self.start.last) {
            (Some(began), _) => (began, "Written since this session began:".to_owned()),
            (None, Some(last)) if self.start.is_again => (last.seen, "Written since:".to_owned()),
            (None, Some(last)) => {
                (last.seen, format!("Written since the last session here ({}):", day(last.at)))
            }
            (None, None) => return Ok(()),
        };
        let view = View { scopes: Some(self.sight.scopes()), changes_max: CHANGES_OF_ONE_MAX, ..View::WHOLE };
        let (transactions, total) =
            self.snapshot.history(None, Some(EntityType::Entry), since, view, 0..TRANSACTIONS_MAX)?;
        let mut known: HashSet<Id> = HashSet::new();
        let mut has_heading = false;
        let mut left_out = total.saturating_sub(TRANSACTIONS_MAX) as usize;
        for transaction in &transactions {
            left_out += transaction.left_out;
            let entries = transaction.changes.iter().filter(|change| change.entity_type == EntityType::Entry);
            for change in entries {
                if !known.insert(change.id) {
                    continue;
                }
                let (line, key) = match &change.after {
                    Some(Record::Entry(entry)) => {
                        let key = (change.id, hash_of(entry));
                        if self.start.given.contains(&key) || lines.said.contains(&key) {
                            continue;
                        }
                        let what = if change.before.is_none() { "new" } else { "changed" };
                        let place = place(self.names, self.scope, entry.scope);
                        let gist = cut_chars(&gist(entry), CHANGED_LINE_CHARS);
                        (format!("{} {what}{place} {gist}", change.id), Some(key))
                    }
                    _ if change.before.is_some() => (format!("{} deleted", change.id), None),
                    _ => continue,
                };
                if !has_heading {
                    has_heading = lines.push(heading.clone());
                }
                if known.len() > CHANGED_MAX || !lines.push(line) {
                    left_out += 1;
                    continue;
                }
                lines.said.extend(key);
            }
        }
        if left_out > 0 {
            lines.push(format!("(and more; `history` with `since_tx_id` {since} has all)"));
        }
        Ok(())
    }

    /// A remark if the last session was long and stored nothing.
    fn wrote_nothing(&self) -> Result<Option<String>, Stop> {
        let Some(last) = self.start.last.as_ref().filter(|last| last.prompts >= LONG_PROMPTS) else {
            return Ok(None);
        };
        let view = View { scopes: Some(self.sight.scopes()), ..View::HEADER };
        let (_, written) = self.snapshot.history(None, Some(EntityType::Entry), last.began, view, 0..0)?;
        let (prompts, day) = (last.prompts, day(last.at));
        Ok((written == 0)
            .then(|| format!("The last session here ({prompts} prompts, {day}) has stored nothing.")))
    }
}

/// The date alone.
fn day(at: Timestamp) -> String {
    at.to_string().split('T').next().unwrap_or_default().to_owned()
}
