//! reStructuredText, cut at titles: a line that is underlined (and perhaps overlined) with one mark of punctuation. Marks
//! rank by the order in which they first come. There is no well-kept parser of the whole language; its text is kept as it
//! stands.

use crate::section::{Section, anchor};

const MARKS: &str = "=-`:'\"~^_*+#<>.";

pub(crate) fn sections(text: &str) -> Vec<Section> {
    let lines: Vec<&str> = text.lines().collect();
    let mut ranks: Vec<(char, bool)> = Vec::new();
    let mut above: Vec<(u8, String)> = Vec::new();
    let mut sections = vec![Section::default()];
    let mut body: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some((title, style, many)) = title(&lines[at..], at > 0 && !lines[at - 1].trim().is_empty())
        else {
            body.push(lines[at]);
            at += 1;
            continue;
        };
        close(&mut sections, &mut body);
        let rank = ranks.iter().position(|known| *known == style).unwrap_or_else(|| {
            ranks.push(style);
            ranks.len() - 1
        });
        let level = u8::try_from(rank + 1).unwrap_or(u8::MAX);
        above.retain(|(other, _)| *other < level);
        above.push((level, title.to_owned()));
        sections.push(Section {
            heading_path: above.iter().map(|(_, title)| title.clone()).collect(),
            level,
            anchor: anchor(title),
            ..Section::default()
        });
        at += many;
    }
    close(&mut sections, &mut body);
    sections
}

fn close(sections: &mut [Section], body: &mut Vec<&str>) {
    if let Some(open) = sections.last_mut() {
        open.text = body.join("\n").trim().to_owned();
    }
    body.clear();
}

/// The title that these lines begin with, its style, and how many lines it takes.
fn title<'a>(lines: &[&'a str], is_in_text: bool) -> Option<(&'a str, (char, bool), usize)> {
    if is_in_text {
        return None;
    }
    if let (Some(over), [_, title, under, ..]) = (lines.first().and_then(|line| mark(line)), lines)
        && mark(under) == Some(over)
        && is_title(title.trim(), under)
    {
        return Some((title.trim(), (over, true), 3));
    }
    let [title, under, ..] = lines else { return None };
    let under_mark = mark(under)?;
    (mark(title).is_none() && !title.starts_with(' ') && is_title(title.trim(), under))
        .then(|| (title.trim(), (under_mark, false), 2))
}

fn is_title(title: &str, under: &str) -> bool {
    !title.is_empty() && under.trim_end().chars().count() >= title.chars().count()
}

/// The mark that a line consists of.
fn mark(line: &str) -> Option<char> {
    let line = line.trim_end();
    let first = line.chars().next().filter(|c| MARKS.contains(*c))?;
    (line.chars().count() >= 2 && line.chars().all(|c| c == first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_rank_by_the_order_of_their_marks() {
        let text = "=====\nGuide\n=====\n\nIntro.\n\nSetup\n-----\nRun it::\n\n  make\n\nDeeper\n~~~~~~\nMore.\n\nUse\n---\nEnd.\n\n----\n\nAfter a line.";
        let shown: Vec<(u8, String, String)> = sections(text)
            .into_iter()
            .map(|section| (section.level, section.heading_path.join(" > "), section.text))
            .collect();
        assert_eq!(
            shown,
            [
                (0, String::new(), String::new()),
                (1, "Guide".into(), "Intro.".into()),
                (2, "Guide > Setup".into(), "Run it::\n\n  make".into()),
                (3, "Guide > Setup > Deeper".into(), "More.".into()),
                (2, "Guide > Use".into(), "End.\n\n----\n\nAfter a line.".into()),
            ]
        );
    }
}
