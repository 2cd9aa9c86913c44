//! A pattern of a catalogue: the fields that the front matter and the headings of its file give. The text
//! itself is in the document.

use kenning_model::clean;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use serde::Deserialize;

use crate::fence::Fences;
use crate::front_matter::{OneOrMany, Scalar, is_mapping, list, one_line, pairs, toml, yaml};
use crate::{Document, Error, Format, Section, markdown};

/// The fields that make a document a pattern.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    pub id: String,
    /// One or two sentences.
    pub summary: String,
    /// The description in full length.
    pub description: String,
    pub category: String,
    pub difficulty: Option<Difficulty>,
    pub related: Vec<String>,
    pub use_when: Option<String>,
    pub avoid_when: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub document: Document,
    /// `None` for a file without front matter.
    pub pattern: Option<Pattern>,
    /// Warnings for the author. The file is ingested in spite of them.
    pub warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difficulty {
    Beginner,
    Intermediate,
    Advanced,
}

impl Difficulty {
    pub fn parse(text: &str) -> Option<Difficulty> {
        match text.trim().to_lowercase().as_str() {
            "beginner" => Some(Difficulty::Beginner),
            "intermediate" => Some(Difficulty::Intermediate),
            "advanced" => Some(Difficulty::Advanced),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Difficulty::Beginner => "beginner",
            Difficulty::Intermediate => "intermediate",
            Difficulty::Advanced => "advanced",
        }
    }
}

/// The front matter as written; the names of fields differ between catalogues.
#[derive(Deserialize)]
struct RawPatternFields {
    id: Option<Scalar>,
    title: Option<Scalar>,
    summary: Option<OneOrMany>,
    description: Option<OneOrMany>,
    category: Option<Scalar>,
    #[serde(rename = "applicationPatternId", alias = "application_pattern_id")]
    application: Option<Scalar>,
    difficulty: Option<Scalar>,
    #[serde(rename = "skillLevel", alias = "skill_level")]
    skill_level: Option<Scalar>,
    #[serde(alias = "relatedPatterns", alias = "related_patterns")]
    related: Option<OneOrMany>,
    #[serde(rename = "useWhen", alias = "use_when")]
    use_when: Option<OneOrMany>,
    #[serde(rename = "avoidWhen", alias = "avoid_when")]
    avoid_when: Option<OneOrMany>,
}

/// The fields of a pattern that its file gives.
#[derive(Default)]
struct PatternFields {
    id: Option<String>,
    title: Option<String>,
    summary: Option<String>,
    description: Option<String>,
    category: Option<String>,
    difficulty: Option<String>,
    related: Vec<String>,
    use_when: Option<String>,
    avoid_when: Option<String>,
}

impl PatternFields {
    /// Reads the fields; `None` if the file has no front matter. Malformed front matter is read line by line.
    fn read(text: &str, warnings: &mut Vec<String>) -> Result<Option<PatternFields>, Error> {
        if let Some((toml, _)) = toml(text).filter(|(toml, _)| is_mapping(toml, '=')) {
            return PatternFields::by_line(toml, '=').map(Some);
        }
        let yaml = yaml(text).map(|(yaml, _)| yaml);
        let Some(yaml) = yaml.filter(|yaml| yaml.trim().is_empty() || is_mapping(yaml, ':')) else {
            return Ok(None);
        };
        if yaml.trim().is_empty() {
            return Ok(Some(PatternFields::default()));
        }
        match serde_saphyr::from_str::<RawPatternFields>(yaml) {
            Ok(raw) => Ok(Some(PatternFields::from(raw))),
            Err(error) => {
                let fields = PatternFields::by_line(yaml, ':')?;
                let place = line_of(&error).map(|line| format!(" (line {line})")).unwrap_or_default();
                warnings.push(format!("its front matter is no good YAML{place}; it was read line by line"));
                Ok(Some(fields))
            }
        }
    }

    fn by_line(text: &str, sign: char) -> Result<PatternFields, Error> {
        let mut fields = PatternFields::default();
        for (key, value) in pairs(text, sign)? {
            let slot = match key.to_lowercase().replace('_', "").as_str() {
                "id" => &mut fields.id,
                "title" => &mut fields.title,
                "summary" => &mut fields.summary,
                "description" => &mut fields.description,
                "category" | "applicationpatternid" => &mut fields.category,
                "difficulty" | "skilllevel" => &mut fields.difficulty,
                "usewhen" => &mut fields.use_when,
                "avoidwhen" => &mut fields.avoid_when,
                "related" | "relatedpatterns" if fields.related.is_empty() => {
                    fields.related = list(&value);
                    continue;
                }
                _ => continue,
            };
            let is_list = value.trim_start().starts_with(['-', '[']);
            let value = if is_list { list(&value).join("; ") } else { value };
            *slot = slot.take().or_else(|| one_line(&value));
        }
        Ok(fields)
    }
}

impl From<RawPatternFields> for PatternFields {
    fn from(raw: RawPatternFields) -> PatternFields {
        let line = |scalar: Option<Scalar>| scalar.and_then(Scalar::text).as_deref().and_then(one_line);
        PatternFields {
            id: line(raw.id),
            title: line(raw.title),
            summary: prose(raw.summary),
            description: prose(raw.description),
            category: line(raw.category).or_else(|| line(raw.application)),
            difficulty: line(raw.difficulty).or_else(|| line(raw.skill_level)),
            related: raw.related.map(OneOrMany::texts).unwrap_or_default(),
            use_when: prose(raw.use_when),
            avoid_when: prose(raw.avoid_when),
        }
    }
}

/// The line of an error in the file, which has one line before the YAML.
fn line_of(error: &serde_saphyr::Error) -> Option<u64> {
    let error = error.to_string();
    let (_, rest) = error.split_once("line ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse::<u64>().ok()? + 1)
}

const SUMMARY_CHARS_MAX: usize = 200;
/// The longest id that a call can name.
const ID_BYTES_MAX: usize = 256;
/// The category of a pattern without a category and a folder.
const UNCATEGORIZED: &str = "uncategorized";

const DESCRIBES: [&str; 5] = ["description", "overview", "intent", "guideline", "summary"];
const USE_WHEN: [&str; 4] = ["use when", "when to use", "usewhen", "use this when"];
const AVOID_WHEN: [&str; 6] =
    ["avoid when", "when to avoid", "avoidwhen", "when not to use", "do not use when", "don't use when"];

/// Reads a pattern. `path` is relative to the ingested directory; its name and folder replace a missing id
/// and category.
pub fn parse(format: Format, path: &str, text: &str) -> Result<Parsed, Error> {
    let mut document = crate::parse(format, path, text)?;
    let mut warnings = Vec::new();
    let Some(fields) = PatternFields::read(text.strip_prefix('\u{feff}').unwrap_or(text), &mut warnings)?
    else {
        warnings.push("it has no front matter, so it is a document and no pattern".to_owned());
        return Ok(Parsed { document, pattern: None, warnings });
    };
    let (folder, name) = place_of(path);
    // Invisible characters are removed, since they can't be typed in a call.
    let id = fields.id.map(|id| clean(&id).trim().to_owned()).filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| {
        warnings.push(format!("it has no id; `{name}` stands in for it"));
        name.to_owned()
    });
    if id.len() > ID_BYTES_MAX {
        return Err(Error::FrontMatter(format!("an id of {} bytes is more than {ID_BYTES_MAX}", id.len())));
    }
    // A heading of a lower level is the heading of a section, not a title.
    let heading = document.sections.iter().find(|section| section.level == 1).map(heading_of);
    document.title = fields.title.or_else(|| heading.map(str::to_owned)).unwrap_or_else(|| {
        warnings.push("it has no title; its id stands in for it".to_owned());
        id.clone()
    });
    let category = fields.category.unwrap_or_else(|| {
        let folder = folder.rsplit('/').next().unwrap_or_default();
        if folder.is_empty() {
            warnings.push(format!("it has no category and no folder; it is `{UNCATEGORIZED}`"));
            return UNCATEGORIZED.to_owned();
        }
        folder.to_owned()
    });
    let difficulty = fields.difficulty.and_then(|text| {
        let known = Difficulty::parse(&text);
        if known.is_none() {
            warnings.push(format!("difficulty `{text}` is none of beginner, intermediate, advanced"));
        }
        known
    });
    let sections = &document.sections;
    let (summary, described) = (fields.summary, fields.description);
    // Some headings continue: `When to Use the Abstract Factory`, `Intent of the Abstract Factory`.
    let of_section = |names: &[&str], beginnings: &[&str]| {
        let is_named = |section: &&Section| {
            let key = key(heading_of(section));
            names.contains(&key.as_str()) || beginnings.iter().any(|beginning| key.starts_with(beginning))
        };
        let named = sections.iter().find(is_named);
        named.map(|section| section.text.clone()).filter(|text| !text.is_empty())
    };
    // If the file gives both, the description is used in full, and the summary is separate.
    let description = described
        .clone()
        .filter(|_| summary.is_some())
        .or_else(|| of_section(&DESCRIBES, &["intent of "]))
        .or_else(|| {
            let is_lone = crate::lone_heading(sections).is_some();
            let lead = sections.iter().filter(|section| is_lead(section, is_lone));
            let lead = lead.map(|section| before_code(&section.text)).collect::<Vec<_>>().join("\n\n");
            Some(lead.trim().to_owned()).filter(|text| !text.is_empty())
        })
        .or_else(|| described.clone())
        .or_else(|| summary.clone())
        .or_else(|| {
            let texts = sections.iter().map(|section| before_code(&section.text).to_owned());
            texts.into_iter().find(|text| !text.is_empty())
        })
        .unwrap_or_default();
    if description.is_empty() {
        warnings.push("it has no summary and no text".to_owned());
    }
    let pattern = Pattern {
        summary: shortened(&summary.or(described).unwrap_or_else(|| description.clone())),
        use_when: fields.use_when.or_else(|| of_section(&[], &USE_WHEN)),
        avoid_when: fields.avoid_when.or_else(|| of_section(&[], &AVOID_WHEN)),
        related: fields.related,
        id,
        description,
        category,
        difficulty,
    };
    Ok(Parsed { document, pattern: Some(pattern), warnings })
}

/// The folder and the name of a pattern's file. Many catalogues have a folder for each pattern, with a page
/// called `index` or `readme` in it.
fn place_of(path: &str) -> (&str, &str) {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
    match ["readme", "index", "_index"].contains(&name.to_lowercase().as_str()) && !folder.is_empty() {
        true => folder.rsplit_once('/').unwrap_or(("", folder)),
        false => (folder, name),
    }
}

/// Whether a section is the text before the first real section: before any heading, or below the title if
/// that is the only heading of its level.
fn is_lead(section: &Section, is_lone: bool) -> bool {
    section.level == 0 || (is_lone && section.level == 1 && section.heading_path.len() == 1)
}

/// The prose at the beginning of a text. If the title is the only heading of a page, its text continues with
/// examples, which are not part of the description.
fn before_code(text: &str) -> &str {
    let mut fences = Fences::default();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        if fences.hold(line) {
            break;
        }
        end += line.len();
    }
    match text[..end].trim_end() {
        "" => text,
        prose => prose,
    }
}

fn heading_of(section: &Section) -> &str {
    section.heading_path.last().map_or("", String::as_str)
}

/// A text unchanged, or the items of a list joined by semicolons.
fn prose(many: Option<OneOrMany>) -> Option<String> {
    let text = match many? {
        OneOrMany::One(text) => text.text()?,
        OneOrMany::List(items) => items.into_iter().filter_map(Scalar::text).collect::<Vec<_>>().join("; "),
    };
    Some(text).filter(|text| !text.is_empty())
}

/// The purpose of a section of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    Description,
    Example,
    UseCase,
    Related,
}

impl SectionKind {
    /// The kind of a section, which only its heading shows.
    pub fn of(heading: &str) -> SectionKind {
        let key = key(heading);
        let has = |words: &[&str]| words.iter().any(|word| key.contains(word));
        if has(&["related", "see also"]) {
            SectionKind::Related
        } else if has(&["example", "anti-pattern", "antipattern"]) {
            SectionKind::Example
        } else if has(&["use case", "usecase"]) || has(&USE_WHEN) || has(&AVOID_WHEN) {
            SectionKind::UseCase
        } else {
            SectionKind::Description
        }
    }
}

fn key(heading: &str) -> String {
    heading.trim().trim_end_matches(':').to_lowercase()
}

/// A part of a text: prose, or the code between fences.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Prose(String),
    Code { code: String, language: Option<String> },
}

pub fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut prose_from = 0;
    let mut open: Option<(String, Option<String>)> = None;
    for (event, range) in Parser::new_ext(text, markdown::options()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                pieces.extend(prose_of(&text[prose_from..range.start]));
                prose_from = range.end;
                let language = info.split([' ', ',', '{']).next().filter(|word| !word.is_empty());
                open = Some((String::new(), language.map(str::to_owned)));
            }
            Event::Text(words) => {
                if let Some((code, _)) = &mut open {
                    code.push_str(&words);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                pieces.extend(open.take().map(|(code, language)| Piece::Code { code, language }));
            }
            _ => {}
        }
    }
    pieces.extend(prose_of(&text[prose_from..]));
    pieces
}

fn prose_of(text: &str) -> Option<Piece> {
    // A fence inside a quote has the sign of the quote before it.
    let text = text.trim().trim_end_matches('>').trim_end();
    (!text.is_empty()).then(|| Piece::Prose(text.to_owned()))
}

/// Cuts a text between words, and marks the cut with an ellipsis.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SUMMARY_CHARS_MAX {
        return line;
    }
    let end = line.char_indices().nth(SUMMARY_CHARS_MAX - 1).map_or(line.len(), |(at, _)| at);
    let end = line[..end].rfind(' ').unwrap_or(end);
    format!("{}…", line[..end].trim_end_matches([',', ';', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = "---\nid: effect-service\ntitle: Services\nsummary: Reusable services.\napplicationPatternId: service\n\
        skillLevel: Intermediate\ntags: [di, testing]\nrelated:\n  - layers\nuseWhen: You need it twice, or more.\n---\n\
        # Services\n\nA service is made once.\n\n## Good Example\n\n```ts\nclass A {}\n```\n\n## Avoid when\n\nIt is used once.\n\n\
        ## Related Patterns\n\n- layers\n";

    #[test]
    fn a_description_is_no_whole_page() {
        let of = |text: &str| pattern("a/b.md", &format!("---\nid: x\ntitle: X\n---\n{text}")).1.description;
        assert_eq!(of("# X\n\nCaches it.\n\n```ts\nlet a = 1;\n```\n\nAnd on."), "Caches it.");
        assert_eq!(of("Before.\n\n# One\n\nFirst.\n\n# Two\n\nSecond."), "Before.");
        assert_eq!(of("# One\n\nFirst.\n\n# Two\n\nSecond."), "First.");
        assert_eq!(of("# X\n\nLead.\n\n## Why\n\nBecause."), "Lead.");
    }

    fn pattern(path: &str, text: &str) -> (Document, Pattern, Vec<String>) {
        let parsed = parse(Format::Markdown, path, text).expect("it can be read");
        (parsed.document, parsed.pattern.expect("a pattern"), parsed.warnings)
    }

    #[test]
    fn aliases_and_sections_are_read() {
        let (document, found, warnings) = pattern("service/x.md", SERVICE);
        let wanted = Pattern {
            id: "effect-service".into(),
            summary: "Reusable services.".into(),
            description: "A service is made once.".into(),
            category: "service".into(),
            difficulty: Some(Difficulty::Intermediate),
            related: vec!["layers".into()],
            use_when: Some("You need it twice, or more.".into()),
            avoid_when: Some("It is used once.".into()),
        };
        assert_eq!(found, wanted);
        assert_eq!((document.title.as_str(), document.about.tags.len()), ("Services", 2));
        let kinds: Vec<SectionKind> =
            document.sections.iter().map(|section| SectionKind::of(heading_of(section))).collect();
        use SectionKind::*;
        assert_eq!(kinds, [Description, Example, UseCase, Related]);
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn the_description_is_what_the_author_calls_so() {
        for (front, body, wanted) in [
            ("summary: Short.\ndescription: Long.", "Lead.", "Long."),
            ("description: Told.", "Lead.", "Lead."),
            ("description: Told.", "", "Told."),
            ("summary: Short.", "# T\n\nLead.\n\n## Intent of T\n\nWhy.", "Why."),
            ("summary: Short.", "# T\n\n## Rationale\n\nWhy.", "Short."),
            ("title: T", "# T\n\n## Rationale\n\nWhy.", "Why."),
        ] {
            let (_, found, _) = pattern("c/x.md", &format!("---\nid: x\n{front}\n---\n{body}\n"));
            assert_eq!(found.description, wanted, "{front} {body}");
        }
        let lists = "---\nid: x\nuseWhen:\n  - one, or\n  - two\n---\n# T\n\n## When to avoid:\n\nNever.\n";
        let (_, found, _) = pattern("c/x.md", lists);
        assert_eq!(found.use_when.as_deref(), Some("one, or; two"));
        assert_eq!(found.avoid_when.as_deref(), Some("Never."));
    }

    #[test]
    fn what_is_missing_is_stood_in_for_and_said() {
        let (document, found, warnings) =
            pattern("errors/retry.md", "---\ndifficulty: expert\n---\nTry again.");
        assert_eq!((found.id.as_str(), document.title.as_str()), ("retry", "retry"));
        assert_eq!((found.category.as_str(), found.difficulty), ("errors", None));
        assert_eq!((found.summary.as_str(), found.description.as_str()), ("Try again.", "Try again."));
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        let (_, bare, warnings) = pattern("x.md", "---\n---\n");
        assert_eq!((bare.category.as_str(), warnings.len()), (UNCATEGORIZED, 4), "{warnings:?}");
        let (_, long, _) = pattern("x.md", &format!("---\nid: x\n---\n{}", "words and ".repeat(50)));
        assert!(long.summary.chars().count() <= SUMMARY_CHARS_MAX && long.summary.ends_with('…'));
        let (_, page, _) =
            pattern("gof/observer/README.md", "---\ntitle: Observer\ntag: [events]\n---\nTell others.");
        assert_eq!((page.id.as_str(), page.category.as_str()), ("observer", "gof"));
        let plain = parse(Format::Markdown, "README.md", "# The catalogue").expect("a document");
        assert_eq!((plain.pattern, plain.warnings.len()), (None, 1));
    }

    #[test]
    fn what_is_broken_is_said_in_a_line() {
        for yaml in ["id: [", &format!("id: {}", "x".repeat(300))] {
            let error = parse(Format::Markdown, "x.md", &format!("---\n{yaml}\n---\n")).expect_err(yaml);
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn values_are_taken_as_they_are_written() {
        for (written, id) in [
            ("0001", "0001"),
            ("no", "no"),
            ("1e3", "1e3"),
            ("1.10", "1.10"),
            ("\"zero\u{200b}width\"", "zerowidth"),
        ] {
            let (_, found, warnings) =
                pattern("c/x.md", &format!("---\nid: {written}\ntitle: N\n---\nText.\n"));
            assert_eq!((found.id.as_str(), warnings.len()), (id, 0), "{warnings:?}");
        }
        let (_, found, warnings) = pattern("c/x.md", "---\nid: \"\u{200b}\"\ntitle: N\n---\nText.\n");
        assert_eq!((found.id.as_str(), warnings.len()), ("x", 1));
    }

    #[test]
    fn what_is_no_good_yaml_is_read_by_line_and_said() {
        let text = "---\nid: x\ntitle: Retry: with a colon\ncategory: [a, b]\nrelated: [y, z]\nskillLevel: beginner\n---\nText.\n";
        let (document, found, warnings) = pattern("c/x.md", text);
        assert_eq!((document.title.as_str(), found.related.len()), ("Retry: with a colon", 2));
        assert_eq!(found.category, "a; b");
        assert_eq!(found.difficulty, Some(Difficulty::Beginner));
        assert_eq!(warnings, ["its front matter is no good YAML (line 3); it was read line by line"]);
        let toml = "+++\nid = \"x\"\ntitle = \"T\"\ncategory = \"c\"\n+++\nText.\n";
        let (document, found, warnings) = pattern("c/x.md", toml);
        assert_eq!((document.title.as_str(), found.id.as_str(), warnings.len()), ("T", "x", 0));
    }

    #[test]
    fn code_is_told_from_prose() {
        let text = "Do:\n\n```ts title=\"a.ts\"\nlet a = 1;\n```\n\n- so\n\n  ```\n  b\n  ```\n\nDone.\n";
        let code = |code: &str, language: Option<&str>| Piece::Code {
            code: code.into(),
            language: language.map(str::to_owned),
        };
        let prose = |text: &str| Piece::Prose(text.into());
        let wanted = [
            prose("Do:"),
            code("let a = 1;\n", Some("ts")),
            prose("- so"),
            code("b\n", None),
            prose("Done."),
        ];
        assert_eq!(pieces(text), wanted);
        assert_eq!(pieces(""), []);
    }
}
