//! The differences between two versions, and the version that each part of a text is from.

use kenning_engine::sentences;
use kenning_model::{Record, clean};
use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};

use crate::request::PageContext;
use crate::show::moment;

/// The title of a field of a version, and its value as text for people.
pub(crate) type Field = (&'static str, String);

/// The fields of a record that are not empty. The text comes first.
pub(crate) fn fields(ctx: &PageContext<'_>, record: &Record) -> Vec<Field> {
    let list = |values: &[String]| values.join(", ");
    let mut fields: Vec<Field> = match record {
        Record::Entry(entry) => {
            let sizes: Vec<String> = entry.task_sizes.iter().map(|size| format!("{size:?}")).collect();
            vec![
                ("Topic", entry.topic.clone()),
                ("Text", entry.content.clone()),
                ("Search words", entry.context.clone().unwrap_or_default()),
                ("Tags", list(&entry.tags)),
                ("Task sizes", list(&sizes)),
                ("Source", entry.source.clone().unwrap_or_default()),
                ("Confidence", entry.confidence.map(|sure| sure.to_string()).unwrap_or_default()),
                ("Valid from", entry.valid_from.map(moment).unwrap_or_default()),
                ("Valid to", entry.valid_to.map(moment).unwrap_or_default()),
                ("Status", format!("{:?}", entry.status).to_lowercase()),
                ("Pinned", if entry.pinned { "yes".to_owned() } else { String::new() }),
                ("Follows", entry.follows.map(|id| id.to_string()).unwrap_or_default()),
            ]
        }
        Record::Triple(triple) => vec![
            ("Subject", triple.subject.clone()),
            ("Predicate", triple.predicate.clone()),
            ("Object", triple.object.clone()),
            ("Source", triple.source.clone().unwrap_or_default()),
            ("Confidence", triple.confidence.map(|sure| sure.to_string()).unwrap_or_default()),
        ],
        Record::Namespace(namespace) => {
            vec![("Name", namespace.name.clone()), ("Description", namespace.description.clone())]
        }
        Record::Scope(scope) => {
            let parents: Vec<String> = scope.parents.iter().map(|parent| ctx.scope_name(*parent)).collect();
            vec![
                ("Name", scope.name.clone()),
                ("Description", scope.description.clone()),
                ("Parents", list(&parents)),
            ]
        }
        Record::Document(document) => vec![
            ("Title", document.title.clone()),
            ("Path", document.path.clone()),
            ("Source", document.source.clone()),
            ("Tag", document.doc_tag.clone()),
            ("Tags", list(&document.tags)),
        ],
        Record::Section(section) => vec![("Heading", section.title()), ("Text", section.text.clone())],
    };
    if let Some(scope) = record.scope() {
        fields.push(("Scope", ctx.scope_name(scope)));
    }
    fields.iter_mut().for_each(|(_, value)| *value = clean(value));
    fields
}

/// The changes from one version to the next, field by field; for a new or deleted record all its fields.
pub(crate) fn shown(ctx: &PageContext<'_>, before: Option<&Record>, after: Option<&Record>) -> Markup {
    let read = |record: Option<&Record>| record.map(|record| fields(ctx, record)).unwrap_or_default();
    let (old, new) = (read(before), read(after));
    // In a new or deleted record every word would be marked, which says nothing, so none is.
    let is_whole = before.is_none() || after.is_none();
    let names = if new.is_empty() { &old } else { &new };
    let value = |fields: &[Field], name: &str| {
        fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let changed: Vec<(&str, String, String)> = names
        .iter()
        .map(|(name, _)| (*name, value(&old, name), value(&new, name)))
        .filter(|(_, old, new)| old != new)
        .collect();
    html! {
        @if changed.is_empty() {
            p.quiet { "The same text again." }
        } @else {
            dl.diff {
                @for (name, old, new) in &changed {
                    dt { (name) }
                    dd { @if is_whole { (old) (new) } @else { (words(old, new)) } }
                }
            }
        }
    }
}

/// Shows two texts as one, with the deleted and the inserted words marked. Blanks between changed words
/// belong to the change:
///
/// `use red paint`, `use a green door` are shown as `use`, then `red paint` struck out, then `a green door`.
pub(crate) fn words(old: &str, new: &str) -> Markup {
    let mut pieces: Vec<(ChangeTag, String)> = Vec::new();
    let (mut went, mut came, mut blank) = (String::new(), String::new(), String::new());
    for change in TextDiff::from_words(old, new).iter_all_changes() {
        let value = change.value();
        let is_changing = !went.is_empty() || !came.is_empty();
        match change.tag() {
            ChangeTag::Equal if is_changing && value.trim().is_empty() => blank.push_str(value),
            ChangeTag::Equal => {
                pieces.push((ChangeTag::Delete, std::mem::take(&mut went)));
                pieces.push((ChangeTag::Insert, std::mem::take(&mut came)));
                pieces.push((ChangeTag::Equal, std::mem::take(&mut blank) + value));
            }
            tag => {
                let between = std::mem::take(&mut blank);
                went.push_str(&between);
                came.push_str(&between);
                if tag == ChangeTag::Delete { &mut went } else { &mut came }.push_str(value);
            }
        }
    }
    pieces.extend([(ChangeTag::Delete, went), (ChangeTag::Insert, came), (ChangeTag::Equal, blank)]);
    html! {
        @for (tag, text) in pieces.iter().filter(|(_, text)| !text.is_empty()) {
            @match tag {
                ChangeTag::Delete => del { (text) },
                ChangeTag::Insert => ins { (text) },
                ChangeTag::Equal => (text),
            }
        }
    }
}

/// The lines of a text; a line with several sentences is split into these.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let mut start = 0;
        for sentence in sentences(line) {
            if sentence.end > start {
                lines.push(&line[start..sentence.end]);
                start = sentence.end;
            }
        }
        if start < line.len() {
            lines.push(&line[start..]);
        }
    }
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// For each line of the last text, the number of the text that introduced it; texts are counted in the given
/// order.
///
/// Texts `a b`, `a c`, `d a c` (one letter a line): the lines of the last are from 2, 0 and 1.
pub(crate) fn blame(texts: &[String]) -> Vec<(usize, String)> {
    let mut blamed: Vec<(usize, String)> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let text = text.trim_end();
        let new = lines(text);
        let known: Vec<&str> = blamed.iter().map(|(_, line)| line.trim()).collect();
        let trimmed: Vec<&str> = new.iter().map(|line| line.trim()).collect();
        let difference = TextDiff::from_slices(&known, &trimmed);
        let mut next = Vec::with_capacity(new.len());
        for change in difference.iter_all_changes() {
            match (change.tag(), change.old_index(), change.new_index()) {
                (ChangeTag::Equal, Some(old), Some(at)) => next.push((blamed[old].0, new[at].to_owned())),
                (ChangeTag::Insert, _, Some(at)) => next.push((number, new[at].to_owned())),
                _ => {}
            }
        }
        blamed = next;
    }
    blamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_from_the_version_that_brought_it() {
        let texts = [
            "Use blue.\nNever on Friday.",
            "Use green.\nNever on Friday.",
            "First.\nUse green.\nNever on Friday.",
        ];
        let texts = texts.map(str::to_owned);
        let from: Vec<usize> = blame(&texts).into_iter().map(|(from, _)| from).collect();
        assert_eq!(from, [2, 1, 0]);
    }

    #[test]
    fn what_went_and_what_came_is_marked_and_escaped() {
        let markup = words("use <b> here", "use <i> here").into_string();
        assert_eq!(markup, "use <del>&lt;b&gt;</del><ins>&lt;i&gt;</ins> here");
        let markup = words("use red paint", "use a green door").into_string();
        assert_eq!(markup, "use <del>red paint</del><ins>a green door</ins>");
    }
}
