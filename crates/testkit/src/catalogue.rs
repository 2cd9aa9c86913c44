//! A catalogue of patterns as people write them: every field under every name that it may have; some files
//! lack fields and some are broken. The expected result for each file is generated with it, not found by
//! parsing it.

use crate::corpus::{Chance, text};

pub struct PatternFile {
    /// The path within the catalogue.
    pub path: String,
    pub bytes: Vec<u8>,
    pub fate: Fate,
}

/// The expected result of ingesting a file.
pub enum Fate {
    Pattern(Box<Expected>),
    /// The file is ingested, but it is not a pattern.
    Document,
    /// The file can't be read.
    Refused,
}

pub struct Expected {
    pub id: String,
    pub title: String,
    pub category: String,
    pub difficulty: Option<&'static str>,
    pub summary: Option<String>,
    pub tags: Vec<String>,
    pub related: Vec<String>,
    pub use_when: Option<String>,
    pub avoid_when: Option<String>,
    /// The languages of the code fences.
    pub examples: Vec<Option<&'static str>>,
    pub warnings: Vec<String>,
}

const CATEGORIES: [&str; 12] = [
    "error-handling",
    "streams",
    "concurrency",
    "services",
    "validation",
    "scheduling",
    "testing",
    "resources",
    "composition",
    "observability",
    "security",
    "storage",
];
const LANGUAGES: [Option<&str>; 5] = [Some("ts"), Some("rust"), Some("python"), Some("c++"), None];
/// One file in this many is unusual or broken.
const ODD_ONE_IN: usize = 25;

/// The files of a catalogue with this many files.
pub fn catalogue(many: usize) -> impl Iterator<Item = PatternFile> {
    (0..many).map(file)
}

fn file(number: usize) -> PatternFile {
    match (number % ODD_ONE_IN, number / ODD_ONE_IN % 6) {
        (0, 0) => odd(number, "no-front-matter", b"# Read me\n\nThis is a catalogue.\n", Fate::Document),
        (0, 1) => odd(number, "rule-first", b"---\nA text between rules.\n\n---\n", Fate::Document),
        (0, 2) => odd(number, "bracket", b"---\nid: [\n---\nText.\n", Fate::Refused),
        (0, 3) => odd(number, "binary", b"---\nid: a\n---\nText\0.\n", Fate::Refused),
        (0, 4) => odd(number, "no-text", b"---\nid: a\n---\n\xff\xfe\n", Fate::Refused),
        (0, _) => {
            let text = format!("---\nid: {}\n---\nText.\n", "long".repeat(100));
            odd(number, "long-id", text.as_bytes(), Fate::Refused)
        }
        _ => pattern(number),
    }
}

fn odd(number: usize, name: &str, bytes: &[u8], fate: Fate) -> PatternFile {
    PatternFile { path: format!("odd/{name}-{number}.md"), bytes: bytes.to_vec(), fate }
}

/// A file that is being generated.
struct Draft {
    chance: Chance,
    front: Vec<String>,
    body: String,
    expected: Expected,
}

fn pattern(number: usize) -> PatternFile {
    let said = text(number);
    let category = CATEGORIES[number % CATEGORIES.len()];
    let name = format!("pattern-{number}");
    let mut draft = Draft {
        chance: Chance::new("pattern", number),
        front: Vec::new(),
        body: String::new(),
        expected: Expected {
            id: name.clone(),
            title: name.clone(),
            category: category.to_owned(),
            difficulty: None,
            summary: None,
            tags: Vec::new(),
            related: Vec::new(),
            use_when: None,
            avoid_when: None,
            examples: Vec::new(),
            warnings: Vec::new(),
        },
    };
    let folder = draft.named(number, &name, category);
    draft.titled(&said.title);
    draft.described(&said.body);
    draft.labelled(number, category);
    draft.guided(&said.title);
    draft.shown();
    let is_mdx = draft.chance.between((0, 3)) == 0;
    if is_mdx {
        draft.body =
            format!("import {{ Note }} from \"../note\"\n\nexport const level = 2\n\n{}", draft.body);
    }
    let mut text = format!("---\n{}\n---\n{}", draft.front.join("\n"), draft.body);
    match draft.chance.between((0, 9)) {
        0 => text = text.replace('\n', "\r\n"),
        1 => text.insert(0, '\u{feff}'),
        _ => {}
    }
    let ending = if is_mdx { "mdx" } else { "md" };
    PatternFile {
        path: format!("{folder}{name}.{ending}"),
        bytes: text.into_bytes(),
        fate: Fate::Pattern(Box::new(draft.expected)),
    }
}

impl Draft {
    fn set(&mut self, field: &str, value: &str) {
        self.front.push(format!("{field}: {value}"));
    }

    /// Sets the id and the category, which the file name and the folder may replace. Returns the folder.
    fn named(&mut self, number: usize, name: &str, category: &str) -> String {
        match self.chance.between((0, 9)) {
            0 => self.expected.warnings.push(format!("it has no id; `{name}` stands in for it")),
            1 => {
                self.set("id", &number.to_string());
                self.expected.id = number.to_string();
            }
            _ => self.set("id", name),
        }
        match self.chance.between((0, 9)) {
            0 => {
                self.expected.category = "uncategorized".to_owned();
                let warning = "it has no category and no folder; it is `uncategorized`";
                self.expected.warnings.push(warning.to_owned());
                String::new()
            }
            1..=3 => format!("{category}/"),
            4 | 5 => format!("published/{category}/"),
            6 | 7 => {
                self.set("applicationPatternId", category);
                "all/".to_owned()
            }
            _ => {
                self.set("category", &format!("\"{category}\""));
                "all/of/them/".to_owned()
            }
        }
    }

    fn titled(&mut self, title: &str) {
        match self.chance.between((0, 9)) {
            0 => {
                self.expected.title = self.expected.id.clone();
                self.expected.warnings.push("it has no title; its id stands in for it".to_owned());
            }
            1 | 2 => {
                self.body.push_str(&format!("# {title}\n\n"));
                self.expected.title = title.to_owned();
            }
            3 => {
                // This is not valid YAML, but its meaning is clear.
                self.expected.title = format!("Note: {title}");
                let line = self.front.iter().map(|field| field.lines().count()).sum::<usize>() + 2;
                self.set("title", &format!("Note: {title}"));
                let warning =
                    format!("its front matter is no good YAML (line {line}); it was read line by line");
                self.expected.warnings.push(warning);
            }
            _ => {
                self.set("title", &format!("'{title}'"));
                self.expected.title = title.to_owned();
                if self.chance.between((0, 1)) == 0 {
                    self.body.push_str(&format!("# {title}\n\n"));
                }
            }
        }
    }

    fn described(&mut self, text: &str) {
        let (first, rest) = text.split_once(". ").unwrap_or((text, ""));
        let first = format!("{first}.");
        let is_short = first.chars().count() <= 200;
        match self.chance.between((0, 9)) {
            0 => self.body.push_str(&format!("{text}\n\n")),
            1..=3 => {
                self.set("description", &first);
                self.expected.summary = is_short.then_some(first);
                self.body.push_str(&format!("{rest}\n\n"));
            }
            4 => {
                self.set("summary", &first);
                self.front.push(format!("description: >-\n  {rest} To the end."));
                self.expected.summary = is_short.then_some(first);
            }
            _ => {
                self.set("summary", &first);
                self.expected.summary = is_short.then_some(first);
                self.body.push_str(&format!("{rest}\n\n"));
            }
        }
    }

    fn labelled(&mut self, number: usize, category: &str) {
        match self.chance.between((0, 9)) {
            0 => {
                self.set("difficulty", "expert");
                let warning = "difficulty `expert` is none of beginner, intermediate, advanced";
                self.expected.warnings.push(warning.to_owned());
            }
            1 | 2 => {}
            3..=5 => {
                self.set("skillLevel", "Beginner");
                self.expected.difficulty = Some("beginner");
            }
            6 | 7 => {
                self.set("difficulty", "advanced");
                self.expected.difficulty = Some("advanced");
            }
            _ => {
                self.set("skill_level", "\"Intermediate\"");
                self.expected.difficulty = Some("intermediate");
            }
        }
        let tags = vec![category.to_owned(), format!("group-{}", number % 40), "catalogue".to_owned()];
        match self.chance.between((0, 3)) {
            0 => {}
            1 => {
                self.set("tags", &tags.join(", "));
                self.expected.tags = tags;
            }
            2 => {
                self.front.push(format!("tags:\n  - {}", tags.join("\n  - ")));
                self.expected.tags = tags;
            }
            _ => {
                self.set("tags", &format!("[{}]", tags.join(", ")));
                self.expected.tags = tags;
            }
        }
        let related = vec![format!("pattern-{}", number + 1), format!("pattern-{}", number + 2)];
        let field = ["related", "relatedPatterns", "related_patterns"].get(self.chance.between((0, 4)));
        if let Some(field) = field {
            self.set(field, &format!("[{}]", related.join(", ")));
            self.expected.related = related;
        }
    }

    fn guided(&mut self, title: &str) {
        let told = [format!("You have {title} at hand"), format!("There is no {title}")];
        let [use_when, avoid_when] = told;
        match self.chance.between((0, 5)) {
            0 => self.set("useWhen", &use_when),
            1 => self.set("use_when", &format!("'{use_when}'")),
            2 => self.front.push(format!("useWhen:\n  - {use_when}")),
            3 => self.body.push_str(&format!("## When to use\n\n{use_when}\n\n")),
            _ => return,
        }
        self.expected.use_when = Some(use_when);
        match self.chance.between((0, 4)) {
            0 => self.set("avoidWhen", &avoid_when),
            1 => self.set("avoid_when", &format!("\"{avoid_when}\"")),
            2 => self.body.push_str(&format!("## Avoid when\n\n{avoid_when}\n\n")),
            _ => return,
        }
        self.expected.avoid_when = Some(avoid_when);
    }

    fn shown(&mut self) {
        for heading in
            ["Good Example", "Anti-Pattern", "Use Cases"].into_iter().take(self.chance.between((0, 3)))
        {
            let language = LANGUAGES[self.chance.between((0, LANGUAGES.len() - 1))];
            let fence = if self.chance.between((0, 3)) == 0 { "~~~~" } else { "```" };
            self.body.push_str(&format!(
                "## {heading}\n\nLike this:\n\n{fence}{}\nrun(\"{heading}\")\n{fence}\n\n",
                language.unwrap_or_default()
            ));
            self.expected.examples.push(language);
        }
        if self.chance.between((0, 2)) == 0 {
            self.body.push_str("## See also\n\n- another pattern\n");
        }
    }
}
