//! Reads Markdown notes of Basic Memory and Obsidian. An observation (`- [category] text #tag`) becomes an
//! entry whose topic is the title of its note. A relation (`- type [[Target]]`) becomes a fact. The remaining
//! text of the note becomes one entry, and its links become facts. A file that `kenning export` wrote becomes
//! the entry that it was written from.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;
use ignore::WalkBuilder;
use serde::Deserialize;

use super::writer::{FoundEntry, FoundTriple, SourcePosition, Writer};
use crate::commands::entry_file::{EntryFile, front_matter};
use crate::commands::export::bar;

const FILE_BYTES_MAX: u64 = 16 << 20;

pub(super) fn read(path: &Path, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    if path.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return read_file(path, &name, writer);
    }
    let mut files = Vec::new();
    let mut others = 0;
    // Hidden directories, such as those of Obsidian and git, are skipped, and symbolic links are not
    // followed.
    for found in WalkBuilder::new(path).require_git(false).sort_by_file_path(Path::cmp).build() {
        let shown =
            |path: &Path, root: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        match found {
            Ok(found) if found.file_type().is_some_and(|of| of.is_file()) => {
                let ending = found.path().extension().and_then(|ending| ending.to_str()).unwrap_or_default();
                match ending.eq_ignore_ascii_case("md") || ending.eq_ignore_ascii_case("markdown") {
                    true => files.push((shown(found.path(), path), found.into_path())),
                    false => others += 1,
                }
            }
            Ok(found) if found.file_type().is_some_and(|of| of.is_symlink()) => {
                let place = shown(found.path(), path);
                writer.refuse(
                    SourcePosition { file: &place, line: None },
                    "it is a link, and links are not followed",
                );
            }
            Ok(_) => {}
            Err(error) => {
                writer.refuse(SourcePosition { file: &path.to_string_lossy(), line: None }, error.to_string())
            }
        }
    }
    let bar = bar(files.len() as u64);
    for (name, file) in &files {
        read_file(file, name, writer)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if others > 0 {
        writer.note(format!("{others} files are no Markdown and were passed over"));
    }
    Ok(())
}

fn read_file(path: &Path, name: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let place = SourcePosition { file: name, line: None };
    let bytes = fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?.len();
    if bytes > FILE_BYTES_MAX {
        writer.refuse(place, format!("its {bytes} bytes are more than the cap of {FILE_BYTES_MAX}"));
        return Ok(());
    }
    match fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => read_note(&text, name, writer),
        Ok(Err(_)) => {
            writer.refuse(place, "it is not UTF-8");
            Ok(())
        }
        Err(error) => {
            writer.refuse(place, format!("it can't be read: {}", error.kind()));
            Ok(())
        }
    }
}

/// The fields of a note's front matter that are used. All other fields are ignored.
#[derive(Default, Deserialize)]
struct NoteFrontMatter {
    title: Option<String>,
    tags: Option<Tags>,
    /// Only files that `kenning export` wrote have this field.
    recorded_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tags {
    Many(Vec<Option<String>>),
    One(String),
}

impl Tags {
    fn list(self) -> Vec<String> {
        let bare = |tag: &str| tag.trim().trim_start_matches('#').to_owned();
        match self {
            Tags::Many(tags) => tags.iter().flatten().map(|tag| bare(tag)).collect(),
            Tags::One(tags) => tags.split([',', ' ']).map(bare).collect(),
        }
    }
}

fn read_note(text: &str, name: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let whole = SourcePosition { file: name, line: None };
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (fields, body) = match front_matter(&text) {
        Some((yaml, body)) if !yaml.trim().is_empty() => {
            match serde_saphyr::from_str::<NoteFrontMatter>(yaml) {
                Ok(fields) => (fields, body),
                Err(_) => {
                    writer.note(format!(
                        "{name}: its front matter can't be read; the text is taken without it"
                    ));
                    (NoteFrontMatter::default(), body)
                }
            }
        }
        Some((_, body)) => (NoteFrontMatter::default(), body),
        None => (NoteFrontMatter::default(), &*text),
    };
    if fields.recorded_at.is_some()
        && let Ok(file) = EntryFile::read(&text, &stem)
        && file.id.is_some()
    {
        return writer.entry(whole, of_export(file));
    }
    let first_line = 1 + text[..text.len() - body.len()].lines().count() as u64;
    let title = fields.title.filter(|title| !title.trim().is_empty()).unwrap_or(stem);
    let tags = fields.tags.map(Tags::list).unwrap_or_default();
    let mut rest: Vec<&str> = Vec::new();
    let mut links: BTreeSet<String> = BTreeSet::new();
    let mut fence: Option<&str> = None;
    for (line, text) in (first_line..).zip(body.lines()) {
        let place = SourcePosition { file: name, line: Some(line) };
        let bare = text.trim_start();
        let sign = ["```", "~~~"].into_iter().find(|sign| bare.starts_with(sign));
        if fence.is_some() || sign.is_some() {
            fence = match (fence, sign) {
                (None, sign) => sign,
                (Some(open), Some(sign)) if open == sign => None,
                (open, _) => open,
            };
            rest.push(text);
            continue;
        }
        match bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* ")).map(read_bullet) {
            Some(Bullet::Observation { category, content }) => {
                let mut own = vec![category.to_owned()];
                own.extend(hash_tags(content));
                own.extend(tags.iter().cloned());
                let entry = FoundEntry {
                    topic: title.clone(),
                    content: content.to_owned(),
                    tags: own,
                    source: Some(name.to_owned()),
                    ..FoundEntry::default()
                };
                writer.entry(place, entry)?;
            }
            Some(Bullet::Relation { predicate, target }) => {
                let source = Some(name.to_owned());
                let [subject, predicate, object] = [&*title, predicate, target].map(str::to_owned);
                writer.triple(place, FoundTriple { subject, predicate, object, source, confidence: None })?;
            }
            _ => {
                links.extend(wiki_links(text).map(str::to_owned));
                rest.push(text);
            }
        }
    }
    for object in links {
        let source = Some(name.to_owned());
        let [subject, predicate] = [&*title, "links to"].map(str::to_owned);
        writer.triple(whole, FoundTriple { subject, predicate, object, source, confidence: None })?;
    }
    let rest = rest.join("\n");
    let has_words = rest.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if !has_words {
        return Ok(());
    }
    let mut all = tags;
    all.extend(hash_tags(&rest));
    let content = rest.trim().to_owned();
    writer.entry(
        whole,
        FoundEntry {
            topic: title,
            content,
            tags: all,
            source: Some(name.to_owned()),
            ..FoundEntry::default()
        },
    )
}

fn of_export(file: EntryFile) -> FoundEntry {
    FoundEntry {
        topic: file.topic,
        content: file.content,
        context: file.context,
        tags: file.tags,
        task_sizes: file.task_sizes,
        source: file.source,
        confidence: file.confidence,
        pinned: file.pinned,
        valid_from: file.valid_from,
        valid_to: file.valid_to,
    }
}

enum Bullet<'a> {
    Observation { category: &'a str, content: &'a str },
    Relation { predicate: &'a str, target: &'a str },
    Text,
}

/// Parses the text after the dash of a list item.
fn read_bullet(text: &str) -> Bullet<'_> {
    if let Some((category, content)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        // `[ ]` and `[x]` are tasks, `[text](address)` is a link, `[[…]]` a relation without a name.
        let is_category =
            category.chars().filter(|c| !c.is_whitespace()).count() > 1 && !category.contains(['[', '(']);
        if is_category && content.starts_with(' ') && !content.trim().is_empty() {
            return Bullet::Observation { category: category.trim(), content: content.trim() };
        }
    }
    let relation = text.split_once("[[").and_then(|(before, rest)| {
        let (target, after) = rest.split_once("]]")?;
        // A longer sentence with a link in it is not a relation.
        let is_name = before.split_whitespace().count() <= 4 && !before.contains(['.', ',', ':', '`', '[']);
        let is_end =
            after.trim().is_empty() || (after.trim().starts_with('(') && after.trim().ends_with(')'));
        (is_name && is_end).then_some((before.trim(), page(target)))
    });
    match relation {
        Some(("", target)) if !target.is_empty() => Bullet::Relation { predicate: "relates_to", target },
        Some((predicate, target)) if !target.is_empty() => Bullet::Relation { predicate, target },
        _ => Bullet::Text,
    }
}

/// The pages that a line links to, without embedded pictures (`![[…]]`).
fn wiki_links(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find("[[")?;
            let is_picture = rest[..at].ends_with('!');
            let (target, after) = rest[at + 2..].split_once("]]")?;
            rest = after;
            let target = page(target);
            if !is_picture && !target.is_empty() {
                return Some(target);
            }
        }
    })
}

/// The page of a link `Page#Heading|shown text`.
fn page(target: &str) -> &str {
    target.split(['|', '#', '^']).next().unwrap_or_default().trim()
}

fn hash_tags(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    let tags = words.filter_map(|word| {
        let end =
            word.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '/')).unwrap_or(word.len());
        word[..end].contains(char::is_alphabetic).then(|| word[..end].to_owned())
    });
    tags.collect()
}
