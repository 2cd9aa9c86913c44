//! `get_pattern`: one whole pattern.

use std::collections::BTreeSet;

use kenning_engine::{PatternQuestion, Piece, SectionKind, Sight, Snapshot, pieces};
use kenning_model::{Section, fold};
use kenning_presentation::budget::json_bytes;
use kenning_presentation::card::{card, passage, short_value, value};
use kenning_presentation::text::{clean, cut, quote};
use kenning_presentation::{Answer, Body, Format};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::needs_input::{InputRequest, Needs};
use super::provenance::Provenance;
use super::{AnswerOrRequest, NO_CATALOGUE, Named, PATTERN, PatternRecord, SUGGESTIONS, Shape, named, sight};
use crate::arguments::{NAME_BYTES_MAX, OptionalText};
use crate::tool::{Effect, Tool};
use crate::{Context, Stop};

pub(crate) struct GetPattern;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[schemars(required)]
    id: Option<OptionalText<NAME_BYTES_MAX>>,
    #[serde(default)]
    format: Option<Shape>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Details {
    #[schemars(extend("const" = "patternDetails:v1"))]
    kind: &'static str,
    id: String,
    title: String,
    category: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    difficulty: Option<String>,
    /// A sentence or two.
    summary: String,
    description: String,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Guidance")]
    use_guidance: Option<Guidance>,
    sections: Vec<Part>,
    examples: Vec<Example>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_patterns: Vec<String>,
    provenance: Provenance,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Truncated")]
    truncated: Option<Truncated>,
    /// The first related pattern that exists in the catalogue.
    #[serde(skip)]
    known_related: Option<String>,
    #[serde(skip)]
    section_ids: Vec<String>,
}

/// What is not whole here, since the pattern is larger than a reply.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Truncated {
    /// These end in `...`, or lack items.
    fields: Vec<String>,
    /// So many there are.
    sections: usize,
    examples: usize,
    /// Where the rest begins, for `kb.read_excerpt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    next_section_id: Option<String>,
}

#[derive(Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Guidance {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    use_when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    avoid_when: Option<String>,
}

#[derive(Clone, Serialize, JsonSchema)]
struct Part {
    title: String,
    content: String,
    r#type: PartType,
}

#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum PartType {
    Description,
    Example,
    UseCase,
    Related,
}

impl Part {
    /// The section as Markdown: prose and code are separate pieces, each in its own fence.
    fn markdown(&self) -> String {
        let of_it = pieces(&self.content).into_iter().map(|piece| match piece {
            Piece::Prose(text) => passage(&text, None),
            Piece::Code { code, language } => passage(&code, language.as_deref()),
        });
        format!("## {}\n\n{}", short_value(&self.title, 300), of_it.collect::<Vec<_>>().join("\n\n"))
    }
}

impl From<SectionKind> for PartType {
    fn from(kind: SectionKind) -> PartType {
        match kind {
            SectionKind::Description => PartType::Description,
            SectionKind::Example => PartType::Example,
            SectionKind::UseCase => PartType::UseCase,
            SectionKind::Related => PartType::Related,
        }
    }
}

#[derive(Clone, Serialize, JsonSchema)]
struct Example {
    code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    language: Option<String>,
    /// The heading that it stands below.
    description: String,
    #[serde(skip)]
    section: usize,
}

/// The smallest similarity at which the id of a pattern is suggested for an unknown id.
const ALIKE_MIN: f64 = 0.25;
/// In a pattern that is too large, longer examples are cut first.
const EXAMPLE_BYTES_MAX: usize = 10 * 1024;
const DETAILS_BYTES_MAX: usize = 40 * 1024;
/// The largest number of tags and of related patterns in a pattern that is too large.
const LIST_MAX: usize = 100;
const LIST_ITEM_BYTES_MAX: usize = 64;
/// The size to which the description of a pattern that is too large is cut; other fields are cut to less.
const FIELD_BYTES_MAX: usize = 8 * 1024;
/// The largest number of items of a list in the Markdown.
const SHOWN_MAX: usize = 20;
/// The largest size of the Markdown, alone and together with JSON.
const MARKDOWN_BYTES_MAX: usize = 48 * 1024;
const MARKDOWN_BESIDE_BYTES_MAX: usize = 20 * 1024;
/// The title of the text before the first heading.
const LEAD: &str = "Description";

impl Tool for GetPattern {
    const NAME: &'static str = "get_pattern";
    const ABOUT: &'static str = "Read one pattern of the catalogue: description, when to use it, sections, examples. \
        Use with an `id` from `search_patterns`. Do not use to search. Returns it whole, or for an unknown id at most 5 like it.";
    const EFFECT: Effect = Effect::Reads;
    type Input = Input;
    type Output = AnswerOrRequest<Details>;

    fn call(ctx: &Context<'_>, input: Input) -> Result<Answer<AnswerOrRequest<Details>>, Stop> {
        let format = Format::from(input.format.unwrap_or_default());
        let id = input.id.map(|id| id.0.trim().to_owned()).unwrap_or_default();
        let snapshot = ctx.snapshot()?;
        let sight = sight(ctx, &snapshot)?;
        let stored = if id.is_empty() { None } else { snapshot.pattern(&sight, &id)? };
        let Some(record) = stored.as_ref().and_then(PatternRecord::of) else {
            return Ok(unknown_id(&snapshot, &sight, &id)?.into_answer(format));
        };
        let details = Details::read(&snapshot, &record, &sight)?.fitted();
        let body = Body::Formatted { format, markdown: details.markdown(format), hint: details.hint() };
        Ok(AnswerOrRequest::answer(details, body))
    }
}

impl Details {
    fn read(snapshot: &Snapshot<'_>, record: &PatternRecord<'_>, sight: &Sight) -> Result<Details, Stop> {
        let PatternRecord { stored, document, pattern } = record;
        let (mut sections, mut examples, mut section_ids) = (Vec::new(), Vec::new(), Vec::new());
        for of_it in snapshot.sections_of(stored.id)? {
            let Some(section) = of_it.record.as_section().filter(|section| !section.text.trim().is_empty())
            else {
                continue;
            };
            let title = title_of(section);
            let content = clean(&section.text);
            let at = sections.len();
            examples.extend(pieces(&content).into_iter().filter_map(|piece| match piece {
                Piece::Code { code, language } => {
                    Some(Example { code, language, description: title.clone(), section: at })
                }
                Piece::Prose(_) => None,
            }));
            sections.push(Part { r#type: SectionKind::of(&title).into(), title, content });
            section_ids.push(of_it.id.to_string());
        }
        let mut known_related = None;
        for id in pattern.related.iter().filter(|id| **id != pattern.id) {
            if snapshot.pattern(sight, id)?.is_some() {
                known_related = Some(clean(id));
                break;
            }
        }
        let guidance = Guidance {
            use_when: pattern.use_when.as_deref().map(clean),
            avoid_when: pattern.avoid_when.as_deref().map(clean),
        };
        let has_guidance = guidance.use_when.is_some() || guidance.avoid_when.is_some();
        Ok(Details {
            kind: "patternDetails:v1",
            id: clean(&pattern.id),
            title: clean(&document.title),
            category: clean(&pattern.category),
            difficulty: pattern.difficulty.clone(),
            summary: clean(&pattern.summary),
            description: clean(&pattern.description),
            tags: document.tags.iter().map(|tag| clean(tag)).collect(),
            use_guidance: has_guidance.then_some(guidance),
            sections,
            examples,
            related_patterns: pattern.related.iter().map(|id| clean(id)).collect(),
            provenance: Provenance::new(snapshot, record)?,
            truncated: None,
            known_related,
            section_ids,
        })
    }

    /// Makes a pattern fit into a reply: long texts are cut, and of the sections only the first ones are
    /// kept, whole.
    fn fitted(mut self) -> Details {
        if json_bytes(&self) <= DETAILS_BYTES_MAX {
            return self;
        }
        let [sections, examples] = [self.sections.len(), self.examples.len()];
        let mut fields = self.cut_fields();
        let mut room = DETAILS_BYTES_MAX.saturating_sub(json_bytes(&Details {
            sections: Vec::new(),
            examples: Vec::new(),
            ..self.clone()
        }));
        let mut shown = 0;
        for part in &mut self.sections {
            let of_it = |example: &Example| example.section == shown;
            let with_examples = |part: &Part, of: &[Example]| {
                json_bytes(part) + of.iter().filter(|example| of_it(example)).map(json_bytes).sum::<usize>()
            };
            let mut bytes = with_examples(part, &self.examples);
            if bytes > room && shown == 0 {
                // The first section is always shown, at least its beginning.
                shorten(&mut part.content, room / 8);
                for example in self.examples.iter_mut().filter(|example| of_it(example)) {
                    shorten(&mut example.code, room / 8);
                }
                fields.extend(["sections[0].content", "examples"]);
                bytes = with_examples(part, &self.examples);
            }
            if bytes > room {
                break;
            }
            room -= bytes;
            shown += 1;
        }
        self.sections.truncate(shown);
        self.examples.retain(|example| example.section < shown);
        let is_whole = fields.is_empty() && shown == sections;
        self.truncated = (!is_whole).then(|| Truncated {
            fields: fields.into_iter().map(str::to_owned).collect(),
            sections,
            examples,
            next_section_id: self.section_ids.get(shown).cloned(),
        });
        self
    }

    /// Cuts the fields that are far too long, and returns their names.
    fn cut_fields(&mut self) -> BTreeSet<&'static str> {
        let mut cut = BTreeSet::new();
        let mut check = |name, text: &mut String, bytes_max| {
            if shorten(text, bytes_max) {
                cut.insert(name);
            }
        };
        check("title", &mut self.title, FIELD_BYTES_MAX / 8);
        check("category", &mut self.category, FIELD_BYTES_MAX / 8);
        check("description", &mut self.description, FIELD_BYTES_MAX);
        if let Some(Guidance { use_when, avoid_when }) = &mut self.use_guidance {
            use_when.iter_mut().for_each(|text| check("useGuidance.useWhen", text, FIELD_BYTES_MAX / 4));
            avoid_when.iter_mut().for_each(|text| check("useGuidance.avoidWhen", text, FIELD_BYTES_MAX / 4));
        }
        for example in &mut self.examples {
            check("examples", &mut example.code, EXAMPLE_BYTES_MAX);
        }
        for (name, list) in [("tags", &mut self.tags), ("relatedPatterns", &mut self.related_patterns)] {
            list.iter_mut().for_each(|text| check(name, text, LIST_ITEM_BYTES_MAX));
        }
        for (name, list) in [("tags", &mut self.tags), ("relatedPatterns", &mut self.related_patterns)] {
            if list.len() > LIST_MAX {
                list.truncate(LIST_MAX);
                cut.insert(name);
            }
        }
        cut
    }
}

/// Cuts a text; returns whether it was too long.
fn shorten(text: &mut String, bytes_max: usize) -> bool {
    let is_long = text.len() > bytes_max;
    if is_long {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str("...");
    }
    is_long
}

impl Details {
    fn markdown(&self, format: Format) -> Vec<String> {
        let bytes_max = match format {
            Format::Both => MARKDOWN_BESIDE_BYTES_MAX,
            Format::Markdown | Format::Json => MARKDOWN_BYTES_MAX,
        };
        let mut parts = Vec::new();
        // Most descriptions are also a section, and then they are shown there.
        if !self.sections.iter().any(|part| part.content == self.description) && !self.description.is_empty()
        {
            parts.push(passage(&self.description, None));
        }
        let guidance = self
            .use_guidance
            .iter()
            .flat_map(|guidance| [("Use when", &guidance.use_when), ("Avoid when", &guidance.avoid_when)]);
        for (heading, text) in guidance.filter_map(|(heading, text)| Some((heading, text.as_ref()?))) {
            if !self.sections.iter().any(|part| part.content == *text) {
                parts.push(format!("## {heading}\n\n{}", passage(text, None)));
            }
        }
        let card = card(PATTERN, 1, &cut(&self.title, 300), &self.facts(), &[]);
        let mut left = bytes_max.saturating_sub(card.len() + parts.iter().map(String::len).sum::<usize>());
        let mut shown = 0;
        for part in &self.sections {
            let part = part.markdown();
            let Some(less) = left.checked_sub(part.len() + 2) else { break };
            left = less;
            parts.push(part);
            shown += 1;
        }
        let total = self.truncated.as_ref().map_or(self.sections.len(), |truncated| truncated.sections);
        if shown < total {
            parts.push(format!(
                "{shown} of {total} sections are shown here; the pattern is longer than a reply."
            ));
        } else if let Some(truncated) = &self.truncated {
            parts.push(format!("Longer than a reply, so cut: {}.", truncated.fields.join(", ")));
        }
        let text = parts.join("\n\n");
        let blocks = [card, text, format!("Source: {}", self.provenance.line())];
        let blocks: Vec<String> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
        let markers = PATTERN.count(&blocks);
        if markers.cards != 1 {
            tracing::warn!("get_pattern: {} markers of cards for one card", markers.cards);
        }
        blocks
    }

    fn hint(&self) -> Option<String> {
        let rest = self.truncated.as_ref().and_then(|truncated| truncated.next_section_id.as_ref());
        let rest = rest.map(|id| format!("The next section: `kb_read_excerpt` with `passage_id` {id}."));
        let related = self.known_related.as_ref();
        let related =
            related.map(|id| format!("`get_pattern` gives related ones too, such as {}.", value(id)));
        let hints: Vec<String> = rest.into_iter().chain(related).collect();
        (!hints.is_empty()).then(|| hints.join(" "))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let values = |list: &[String]| {
            list.iter().take(SHOWN_MAX).map(|text| short_value(text, 120)).collect::<Vec<_>>().join(", ")
        };
        let mut facts = vec![("id", value(&self.id)), ("category", short_value(&self.category, 120))];
        facts.extend(self.difficulty.iter().map(|difficulty| ("difficulty", difficulty.clone())));
        facts.push(("summary", short_value(&self.summary, 1_000)));
        facts.extend((!self.tags.is_empty()).then(|| ("tags", values(&self.tags))));
        facts
            .extend((!self.related_patterns.is_empty()).then(|| ("related", values(&self.related_patterns))));
        facts
    }
}

fn title_of(section: &Section) -> String {
    // The first heading of the path is the title of the document.
    match section.heading_path.as_slice() {
        [] | [_] => LEAD.to_owned(),
        [.., heading] => clean(heading),
    }
}

fn unknown_id(snapshot: &Snapshot<'_>, sight: &Sight, id: &str) -> Result<InputRequest, Stop> {
    let values = similar(snapshot, sight, id)?;
    let (heading, message, reason) = match id {
        "" => (
            "Pattern ID Needed",
            "Which pattern do you want to see? Please provide its ID.".to_owned(),
            "Pattern ID is required".to_owned(),
        ),
        id => {
            let id = quote(id, 130);
            (
                "Pattern Not Found",
                format!("Pattern {id} not found. Please provide a valid pattern ID."),
                format!("Pattern ID {id} is invalid or does not exist"),
            )
        }
    };
    // Without a suggestion to choose from, any id may be the right one.
    let (is_closed, has_any) = (!values.is_empty() && !id.is_empty(), !values.is_empty());
    let needs = Needs { field: "id", about: "The ID of a pattern.", values, is_required: true, is_closed };
    let needs = InputRequest::new(heading, message, reason, vec![needs]);
    let is_empty = !has_any && snapshot.catalogue(sight, None)?.patterns == 0;
    Ok(match (is_empty, id.is_empty()) {
        (true, _) => needs.in_vain(NO_CATALOGUE),
        (false, true) => needs,
        (false, false) => needs.for_the_model(),
    })
}

/// The ids that look like this id, then those of the patterns that its words find, each with its title.
fn similar(snapshot: &Snapshot<'_>, sight: &Sight, id: &str) -> Result<Vec<(String, Option<String>)>, Stop> {
    let names = snapshot.catalogue(sight, None)?.names;
    let asked = trigrams(id);
    let mut alike: Vec<(f64, &(String, String))> = names
        .iter()
        .map(|name| (likeness(&asked, &trigrams(&name.0)), name))
        .filter(|(likeness, _)| *likeness >= ALIKE_MIN)
        .collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    let mut found: Vec<Named> =
        alike.iter().take(SUGGESTIONS).map(|(_, (id, title))| Named::new(id, title)).collect();
    let words = id.replace(|c: char| !c.is_alphanumeric(), " ");
    let question = PatternQuestion { sight, text: &words, category: None, difficulty: None, loosely: true };
    if !words.trim().is_empty() {
        for one in named(snapshot, &snapshot.search_patterns(&question)?.ids, SUGGESTIONS)? {
            if found.len() < SUGGESTIONS && !found.iter().any(|known| known.id == one.id) {
                found.push(one);
            }
        }
    }
    // A call without an id gets the first ids of the catalogue.
    if id.is_empty() {
        found = names.iter().take(SUGGESTIONS).map(|(id, title)| Named::new(id, title)).collect();
    }
    Ok(found.into_iter().map(|one| (one.id, Some(one.title))).collect())
}

fn trigrams(text: &str) -> BTreeSet<[char; 3]> {
    let padded: Vec<char> = format!("  {} ", fold(text)).chars().collect();
    padded.windows(3).map(|three| [three[0], three[1], three[2]]).collect()
}

fn likeness(one: &BTreeSet<[char; 3]>, other: &BTreeSet<[char; 3]>) -> f64 {
    let shared = one.intersection(other).count();
    shared as f64 / (one.len() + other.len() - shared).max(1) as f64
}
