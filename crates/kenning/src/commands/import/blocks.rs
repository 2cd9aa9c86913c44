//! Cuts Markdown into separate statements: every bullet and every paragraph becomes one, with the headings
//! above it.

use super::writer::{FoundEntry, SourcePosition, Writer};

/// A statement: a bullet, a paragraph or a piece of code.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    pub(super) headings: Vec<String>,
    /// The sentence before a list that ends in a colon.
    pub(super) lead: Option<String>,
    pub(super) text: String,
    pub(super) line: u64,
    is_bullet: bool,
}

/// Reads a file with rules for agents. The headings above a statement become its topic.
pub(super) fn read_rules(text: &str, file: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    read_under(text, file, file, writer)
}

/// Reads the statements of a text. The topic of a statement is the headings above it, or `title` if there are
/// none.
pub(super) fn read_under(text: &str, title: &str, file: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    for block in blocks(text) {
        let place = SourcePosition { file, line: Some(block.line) };
        let words = block.text.trim();
        if is_scope_line(words) {
            writer.note(format!(
                "{file}:{}: `{words}` names the scope of the project and is no rule",
                block.line
            ));
            continue;
        }
        // Claude Code replaces a line `@path` by the content of that file, so the line itself is no rule.
        if words.starts_with('@') && !words.contains(char::is_whitespace) {
            writer.refuse(place, format!("`{words}` stands for another file; import that file by itself"));
            continue;
        }
        let topic = match block.headings.is_empty() {
            true => title.to_owned(),
            false => block.headings.join(" > "),
        };
        let entry = FoundEntry {
            topic,
            content: block.text,
            context: block.lead,
            source: Some(file.to_owned()),
            ..FoundEntry::default()
        };
        writer.entry(place, entry)?;
    }
    Ok(())
}

/// A list of memories as people copy it from a page: bullets if there are any, else paragraphs, else lines.
pub(super) fn read_list(text: &str, file: &str, writer: &mut Writer<'_>) -> anyhow::Result<()> {
    let all = blocks(text);
    let has_bullets = all.iter().any(|block| block.is_bullet);
    let is_one_paragraph = all.len() == 1 && text.trim().lines().count() > 1;
    let found: Vec<(u64, String, Vec<String>)> = match is_one_paragraph && !has_bullets {
        true => {
            (1..).zip(text.lines()).map(|(line, text)| (line, text.trim().to_owned(), Vec::new())).collect()
        }
        false => all.into_iter().map(|block| (block.line, block.text, block.headings)).collect(),
    };
    for (line, text, headings) in found.into_iter().filter(|(_, text, _)| !text.trim().is_empty()) {
        let (date, content) = dated(&text);
        let source = date.map_or_else(|| file.to_owned(), |date| format!("{file}, {date}"));
        let topic = headings.join(" > ");
        let entry =
            FoundEntry { topic, content: content.to_owned(), source: Some(source), ..FoundEntry::default() };
        writer.entry(SourcePosition { file, line: Some(line) }, entry)?;
    }
    Ok(())
}

/// Splits `[2026-03-01] - text`, the form in which Claude writes memories, into the date and the text.
fn dated(text: &str) -> (Option<&str>, &str) {
    let found = text.strip_prefix('[').and_then(|rest| rest.split_once(']')).and_then(|(date, rest)| {
        let is_date = date == "unknown" || date.parse::<jiff::civil::Date>().is_ok();
        is_date.then_some((date, rest.trim_start().trim_start_matches(['-', '–', ':']).trim_start()))
    });
    match found {
        Some((date, rest)) if !rest.is_empty() => (Some(date), rest),
        _ => (None, text),
    }
}

fn is_scope_line(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '*', ' ']);
    text.lines().count() == 1 && text.strip_prefix("scope:").is_some_and(|rest| rest.trim().contains(':'))
}

/// The statements of a text, in order. Front matter, comments and horizontal rules are left out.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut cutter = Cutter::default();
    let mut lines = (1..).zip(text.lines()).peekable();
    if lines.peek().is_some_and(|(_, line)| line.trim_end() == "---")
        && text.lines().skip(1).any(|line| line.trim_end() == "---")
    {
        lines.next();
        while lines.next().is_some_and(|(_, line)| line.trim_end() != "---") {}
    }
    let mut is_comment = false;
    for (number, line) in lines {
        let begins_comment = || line.trim_start().starts_with("<!--");
        if cutter.fence.is_none() && (is_comment || begins_comment()) {
            is_comment = !line.contains("-->");
            continue;
        }
        cutter.take(number, line);
    }
    cutter.end();
    cutter.found
}

#[derive(Default)]
struct Cutter {
    found: Vec<Block>,
    headings: Vec<(usize, String)>,
    open: Option<(u64, Vec<String>, bool)>,
    lead: Option<Lead>,
    /// The sign that closes the open code block.
    fence: Option<String>,
}

/// A sentence that ends in a colon, kept aside until it is known whether a list follows.
struct Lead {
    text: String,
    line: u64,
    has_list: bool,
}

impl Cutter {
    fn take(&mut self, number: u64, line: &str) {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if let Some(fence) = &self.fence {
            let is_end = bare.trim_end().starts_with(fence.as_str());
            self.push(line);
            if is_end {
                self.fence = None;
            }
            return;
        }
        if bare.starts_with("```") || bare.starts_with("~~~") {
            let sign: String = bare.chars().take_while(|c| bare.starts_with(*c)).collect();
            self.fence = Some(sign);
            // A code block belongs to the statement before it, which it illustrates.
            if self.open.is_none() && !self.reopen() {
                self.open = Some((number, Vec::new(), false));
            }
            self.push(line);
            return;
        }
        if bare.trim_end().is_empty() {
            match &self.open {
                // A bullet continues after a blank line if the next line is indented.
                Some((_, _, true)) => self.push(""),
                _ => self.close(),
            }
            return;
        }
        if let Some((level, title)) = heading(bare).filter(|_| indent < 4) {
            self.close();
            self.flush_lead();
            self.headings.retain(|(other, _)| *other < level);
            self.headings.push((level, title));
            return;
        }
        if indent < 2
            && let Some(text) = bullet(bare)
        {
            self.close();
            self.open = Some((number, vec![text.to_owned()], true));
            return;
        }
        let is_rule =
            bare.len() >= 3 && bare.trim_end().chars().all(|c| matches!(c, '-' | '*' | '_' | '=' | ' '));
        if is_rule {
            self.close();
            return;
        }
        let ends_bullet = matches!(&self.open, Some((_, lines, true)) if indent == 0 && lines.last().is_some_and(String::is_empty));
        if ends_bullet {
            self.close();
        }
        match &self.open {
            Some(_) => self.push(line),
            None => self.open = Some((number, vec![line.to_owned()], false)),
        }
    }

    fn push(&mut self, line: &str) {
        if let Some((_, lines, _)) = &mut self.open {
            lines.push(line.to_owned());
        }
    }

    /// Opens the last statement again if it is under the same headings. False if there is no such statement.
    fn reopen(&mut self) -> bool {
        let headings: Vec<String> = self.headings.iter().map(|(_, title)| title.clone()).collect();
        if let Some(lead) = self.lead.take_if(|lead| !lead.has_list) {
            self.open = Some((lead.line, vec![lead.text], false));
            return true;
        }
        match self.found.pop_if(|block| block.headings == headings) {
            Some(block) => {
                self.open =
                    Some((block.line, block.text.lines().map(str::to_owned).collect(), block.is_bullet));
                true
            }
            None => false,
        }
    }

    fn close(&mut self) {
        let Some((line, mut lines, is_bullet)) = self.open.take() else { return };
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        let text = lines.join("\n");
        if text.trim().is_empty() {
            return;
        }
        let headings: Vec<String> = self.headings.iter().map(|(_, title)| title.clone()).collect();
        if !is_bullet {
            self.flush_lead();
            if lines.len() == 1 && text.trim_end().ends_with(':') {
                self.lead = Some(Lead { text, line, has_list: false });
                return;
            }
        }
        let lead = self.lead.as_mut().filter(|_| is_bullet).map(|lead| {
            lead.has_list = true;
            lead.text.clone()
        });
        self.found.push(Block { headings, lead, text, line, is_bullet });
    }

    /// If no list follows a sentence that ends in a colon, the sentence becomes a statement of its own.
    fn flush_lead(&mut self) {
        if let Some(Lead { text, line, has_list: false }) = self.lead.take() {
            let headings = self.headings.iter().map(|(_, title)| title.clone()).collect();
            self.found.push(Block { headings, lead: None, text, line, is_bullet: false });
        }
    }

    fn end(&mut self) {
        self.close();
        self.flush_lead();
    }
}

/// The level and title of `## Title`, or of a line that is all bold: programs without headings write their
/// titles so.
fn heading(line: &str) -> Option<(usize, String)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let line = line.trim_end();
    if (1..=6).contains(&level) && line[level..].starts_with(' ') {
        let title = line[level..].trim().trim_end_matches('#').trim_end();
        return (!title.is_empty()).then(|| (level, title.to_owned()));
    }
    let bold = line.strip_prefix("**")?.strip_suffix("**")?;
    let is_title = !bold.is_empty() && !bold.contains("**") && !bold.ends_with('.');
    // A bold title counts as lower than every heading with `#`.
    is_title.then(|| (7, bold.trim_end_matches(':').to_owned()))
}

/// The text after `- `, `* `, `+ ` or `1. `.
fn bullet(line: &str) -> Option<&str> {
    let after_sign = line.strip_prefix(['-', '*', '+', '•']).and_then(|rest| rest.strip_prefix(' '));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let after_number = (1..=3).contains(&digits).then(|| &line[digits..]);
    let after_number =
        after_number.and_then(|rest| rest.strip_prefix(['.', ')'])).and_then(|rest| rest.strip_prefix(' '));
    after_sign.or(after_number).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found: Vec<(String, String)> =
            blocks(text).into_iter().map(|block| (block.headings.join(" > "), block.text)).collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(topic, text)| (&**topic, &**text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn bullets_and_paragraphs_are_statements_under_their_headings() {
        check(
            "---\nglobs: x\n---\n# Rules\n\nBe brief.\nAnd kind.\n\n## Git\n- Sign commits\n- Never push to main,\n  not even once\n\n  - really\n\n1. First\n\nAfter.\n",
            &[
                ("Rules", "Be brief.\nAnd kind."),
                ("Rules > Git", "Sign commits"),
                ("Rules > Git", "Never push to main,\n  not even once\n\n  - really"),
                ("Rules > Git", "First"),
                ("Rules > Git", "After."),
            ],
        );
    }

    #[test]
    fn code_belongs_to_what_it_explains_and_comments_go() {
        check(
            "Run the tests:\n```sh\n# all\nmake test\n```\n<!-- a\ncomment -->\n**Work**\n\nLikes Rust.\n",
            &[("", "Run the tests:\n```sh\n# all\nmake test\n```"), ("Work", "Likes Rust.")],
        );
        check("Note:\n\n# Next\n\nText.\n", &[("", "Note:"), ("Next", "Text.")]);
    }

    #[test]
    fn the_sentence_before_a_list_is_kept_with_its_items() {
        let found = blocks("When you commit:\n- sign\n- test\n");
        let leads: Vec<_> = found.iter().map(|block| block.lead.as_deref()).collect();
        assert_eq!(leads, [Some("When you commit:"), Some("When you commit:")]);
    }

    #[test]
    fn any_text_is_cut_without_a_panic_and_without_loss_of_words() {
        let samples =
            ["", "-", "- ", "```", "# ", "**", "****", "é\n- ü\n```\n", ":\n:\n- :", "<!--", "---\n---\n---"];
        for one in samples {
            for other in samples {
                for third in samples {
                    blocks(&format!("{one}\n{other}\n{third}"));
                }
            }
        }
    }
}
