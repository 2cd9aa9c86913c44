//! The appearance of times, names, records and changes, the same on every page. Stored text is cleaned here
//! and escaped by the templates.

use jiff::Timestamp;
use kenning_model::{Change, EntityType, Entry, Op, Record, Status, Transaction, clean};
use maud::{Markup, html};

use crate::request::PageContext;

/// The length of a text in a list.
pub(crate) const EXCERPT_BYTES: usize = 280;
const LABEL_BYTES: usize = 90;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The beginning of a text, on one line.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() <= bytes_max {
        return line;
    }
    let end = line.floor_char_boundary(bytes_max);
    // A word is cut only if there is no space in the second half of the line.
    let end = line[..end].rfind(' ').filter(|at| *at > bytes_max / 2).unwrap_or(end);
    format!("{}…", &line[..end])
}

/// A number with separators: `1,234`
pub(crate) fn number(many: u64) -> String {
    let digits = many.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 entry`, `2 entries`
pub(crate) fn counted(many: u64, one: &str) -> String {
    let noun = match (many, one.strip_suffix('y')) {
        (1, _) => one.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) => format!("{one}s"),
    };
    format!("{} {noun}", number(many))
}

/// A time as its distance from now: `3 h ago`; the whole time is in the title.
pub(crate) fn ago(ctx: &PageContext<'_>, time: Timestamp) -> Markup {
    let seconds = ctx.now.as_second() - time.as_second();
    let text = match seconds {
        ..0 => moment(time),
        0..MINUTE => "just now".to_owned(),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        _ if seconds < 30 * DAY => format!("{} d ago", seconds / DAY),
        _ => moment(time).chars().take("2026-01-01".len()).collect(),
    };
    html! { time datetime=(time.to_string()) title=(moment(time)) { (text) } }
}

/// A time as `2026-01-01 12:00 UTC`
pub(crate) fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

pub(crate) fn scope(ctx: &PageContext<'_>, scope: kenning_model::ScopeId) -> Markup {
    let name = ctx.scope_name(scope);
    html! { a.scope href=(ctx.link("/search", [("scope", name.as_str())])) { (name) } }
}

pub(crate) fn actor(ctx: &PageContext<'_>, actor: &str) -> Markup {
    html! { a.actor href=(ctx.link("/history", [("actor", actor)])) { (clean(actor)) } }
}

pub(crate) fn transaction_link(ctx: &PageContext<'_>, tx: kenning_model::TxId) -> Markup {
    html! { a.tx href=(ctx.to(&format!("/tx/{tx}"))) { "#" (tx) } }
}

/// The label of an entry: its topic, or else its first words.
pub(crate) fn entry_label(entry: &Entry) -> String {
    let topic = cut(&entry.topic, LABEL_BYTES);
    if topic.is_empty() { cut(&entry.content, LABEL_BYTES) } else { topic }
}

pub(crate) fn label(record: &Record) -> String {
    match record {
        Record::Entry(entry) => entry_label(entry),
        Record::Triple(triple) => {
            cut(&format!("{} {} {}", triple.subject, triple.predicate, triple.object), LABEL_BYTES)
        }
        Record::Namespace(namespace) => cut(&namespace.name, LABEL_BYTES),
        Record::Scope(scope) => cut(&scope.name, LABEL_BYTES),
        Record::Document(document) => cut(&document.title, LABEL_BYTES),
        Record::Section(section) => cut(&section.title(), LABEL_BYTES),
    }
}

/// The path of a record's page, if it has one.
pub(crate) fn record_path(entity_type: EntityType, id: kenning_model::Id, record: &Record) -> Option<String> {
    match entity_type {
        EntityType::Entry => Some(format!("/entry/{id}")),
        EntityType::Document => Some(format!("/document/{id}")),
        EntityType::Section => {
            record.as_section().map(|section| format!("/document/{}#{id}", section.document))
        }
        EntityType::Triple | EntityType::Namespace | EntityType::Scope => None,
    }
}

/// The address of a record, which keeps the chosen transaction.
pub(crate) fn record_link(
    ctx: &PageContext<'_>,
    entity_type: EntityType,
    id: kenning_model::Id,
    record: &Record,
) -> Option<String> {
    if let Some(triple) = record.as_triple() {
        return Some(ctx.link("/graph", [("name", triple.subject.as_str())]));
    }
    let path = record_path(entity_type, id, record)?;
    Some(match path.split_once('#') {
        Some((path, place)) => format!("{}#{place}", ctx.to(path)),
        None => ctx.to(&path),
    })
}

/// The verb for a change: `created`, `changed`, `deleted`
pub(crate) fn verb(op: Op) -> &'static str {
    match op {
        Op::Create => "created",
        Op::Update => "changed",
        Op::Delete => "deleted",
    }
}

pub(crate) fn badge(op: Op) -> Markup {
    let sign = match op {
        Op::Create => "+",
        Op::Update => "~",
        Op::Delete => "−",
    };
    html! { span class=(format!("op {}", op.as_str())) title=(verb(op)) { span aria-hidden="true" { (sign) } span.hidden { (verb(op)) } } }
}

/// One line for a change: the operation and the record.
pub(crate) fn change_line(ctx: &PageContext<'_>, change: &Change) -> Markup {
    let record = change.after.as_ref().or(change.before.as_ref().map(|before| &before.record));
    html! {
        (badge(change.op())) " "
        @if let Some(record) = record {
            @match record_link(ctx, change.entity_type, change.id, record) {
                Some(address) => a href=(address) { (label(record)) },
                None => span { (label(record)) },
            }
            @if change.entity_type != EntityType::Entry { " " span.kind { (change.entity_type.as_str()) } }
            @if let Some(scope_id) = record.scope() { " " (scope(ctx, scope_id)) }
        }
    }
}

/// One transaction as an item of a list.
pub(crate) fn transaction_item(ctx: &PageContext<'_>, tx: &Transaction, can_select: bool) -> Markup {
    let more = tx.left_out;
    html! {
        li.item.tx-item data-item class=[tx.undone_by.map(|_| "undone")] {
            p.meta {
                @if can_select && tx.undone_by.is_none() {
                    input type="checkbox" name="tx" value=(tx.id) aria-label=(format!("Select transaction {}", tx.id));
                    " "
                }
                a.tx data-open href=(ctx.to(&format!("/tx/{}", tx.id))) { "#" (tx.id) } " "
                (actor(ctx, &tx.actor)) " " code.tool { (clean(&tx.tool)) } " " (ago(ctx, tx.at))
                @for undone in &tx.undoes { " " span.kind { "undoes " (transaction_link(ctx, *undone)) } }
                @if let Some(by) = tx.undone_by { " " span.kind { "undone by " (transaction_link(ctx, by)) } }
            }
            @if tx.changes.is_empty() && more == 0 { p.quiet { "Nothing that you may see." } }
            @if !tx.changes.is_empty() {
                ul.changes { @for change in &tx.changes { li { (change_line(ctx, change)) } } }
            }
            @if more > 0 { p.quiet { "and " (counted(more as u64, "more change")) } }
        }
    }
}

/// The reason why an entry is hidden from agents at a given time; `None` if it is not.
pub(crate) fn hidden_why(entry: &Entry, at: Timestamp) -> Option<String> {
    if entry.status == Status::Suppressed {
        return Some("suppressed".to_owned());
    }
    if let Some(from) = entry.valid_from.filter(|from| *from > at) {
        return Some(format!("valid from {}", moment(from)));
    }
    let to = entry.valid_to.filter(|to| *to <= at)?;
    Some(format!("hidden since {}", moment(to)))
}

pub(crate) fn tags(ctx: &PageContext<'_>, tags: &[String]) -> Markup {
    html! { @for tag in tags { " " a.tag href=(ctx.link("/search", [("tag", tag.as_str())])) { (clean(tag)) } } }
}

/// An entry as an item of a list. `terms` are marked in the text.
pub(crate) fn entry_item(
    ctx: &PageContext<'_>,
    id: kenning_model::Id,
    entry: &Entry,
    text: &str,
    terms: &[String],
    why: Markup,
) -> Markup {
    html! {
        li.item data-item {
            h3 {
                a data-open href=(ctx.to(&format!("/entry/{id}"))) { (entry_label(entry)) }
                @if entry.pinned { " " span.mark { "pinned" } }
                @if let Some(why) = hidden_why(entry, ctx.judged_at) { " " span.mark.off { (why) } }
            }
            @if !entry.topic.is_empty() || text.len() > LABEL_BYTES { p.text { (marked(text, terms)) } }
            p.meta {
                (scope(ctx, entry.scope)) (tags(ctx, &entry.tags)) " " (actor(ctx, &entry.actor)) " "
                (ago(ctx, entry.updated_at.unwrap_or(entry.recorded_at)))
            }
            (why)
        }
    }
}

/// A text in which the words with these terms are marked. A term is the stem of a word.
pub(crate) fn marked(text: &str, terms: &[String]) -> Markup {
    // `policies` has the stem `polici`, but `policy` does not begin with it, so a final `i` is dropped.
    let stems: Vec<&str> = terms.iter().map(|term| term.strip_suffix('i').unwrap_or(term)).collect();
    let is_meant = |word: &str| {
        let word = word.to_lowercase();
        stems.iter().any(|stem| !stem.is_empty() && word.starts_with(stem))
    };
    let mut pieces: Vec<(&str, bool)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let in_word = rest.chars().next().is_some_and(char::is_alphanumeric);
        let end = rest.find(|c: char| c.is_alphanumeric() != in_word).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        pieces.push((piece, in_word && is_meant(piece)));
        rest = after;
    }
    html! { @for (piece, is_meant) in pieces { @if is_meant { mark { (piece) } } @else { (piece) } } }
}

/// Links to the pages of a list before and after this one.
pub(crate) fn pager(
    ctx: &PageContext<'_>,
    path: &str,
    kept: &[(&str, &str)],
    page: u64,
    has_more: bool,
) -> Markup {
    let to = |page: u64| {
        let number = page.to_string();
        let fields = kept.iter().copied().chain([("page", number.as_str())]);
        ctx.link(path, fields.collect::<Vec<_>>())
    };
    html! {
        @if page > 0 || has_more {
            nav.pager aria-label="Pages of the list" {
                @if page > 0 { a rel="prev" href=(to(page - 1)) { "← Newer" } }
                @if has_more { a rel="next" href=(to(page + 1)) { "Older →" } }
            }
        }
    }
}

/// A form with a single button that performs an action.
pub(crate) fn button(
    ctx: &PageContext<'_>,
    action: &str,
    label: &str,
    fields: &[(&str, &str)],
    class: &str,
) -> Markup {
    html! {
        form.inline method="post" action=(format!("{}/do/{action}", crate::BASE)) {
            (form_fields(ctx))
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            button class=(class) type="submit" { (label) }
        }
    }
}

/// The fields of every form: the token that other sites do not know, and the address to return to.
pub(crate) fn form_fields(ctx: &PageContext<'_>) -> Markup {
    html! {
        input type="hidden" name="token" value=(ctx.visitor.form_token);
        input type="hidden" name="back" value=(ctx.here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_words_and_numbers_grouped() {
        assert_eq!(cut("one  two\nthree", 80), "one two three");
        assert_eq!(cut("one two three", 9), "one two…");
        assert_eq!(cut("onetwothree", 5), "onetw…");
        assert_eq!(
            [number(0), number(999), number(1000), number(1234567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([counted(1, "entry"), counted(2, "entry")], ["1 entry", "2 entries"]);
    }

    #[test]
    fn words_are_marked_by_their_stems_and_text_stays_escaped() {
        let terms = ["deploi".to_owned(), "polici".to_owned()];
        assert_eq!(
            marked("Deploy <b> policies", &terms).into_string(),
            "<mark>Deploy</mark> &lt;b&gt; <mark>policies</mark>"
        );
    }
}
