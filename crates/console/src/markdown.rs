//! Stored text as Markdown. HTML in it is shown as text; links lead only to web pages and send no referrer;
//! images become links, so showing a page fetches nothing from elsewhere.

use kenning_model::clean;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html as writer};

/// Headings of a text are this many levels below those of the page.
const LEVELS_DOWN: usize = 2;

pub(crate) fn rendered(text: &str) -> Markup {
    let text = clean(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    // For each open link, whether it is shown as a link.
    let mut open = Vec::new();
    let events = Parser::new_ext(&text, options).map(|event| match event {
        Event::Html(markup) | Event::InlineHtml(markup) => Event::Text(markup),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        // Aligned columns would need inline styles, which the policy forbids.
        Event::Start(Tag::Table(columns)) => {
            Event::Start(Tag::Table(vec![pulldown_cmark::Alignment::None; columns.len()]))
        }
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: lower(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            let is_link = leads_to_web(&dest_url);
            open.push(is_link);
            if is_link { own_markup(opening(&dest_url)) } else { own_markup(String::new()) }
        }
        Event::End(TagEnd::Link | TagEnd::Image) => match open.pop() {
            Some(true) => own_markup("</a>".to_owned()),
            _ => own_markup(String::new()),
        },
        Event::TaskListMarker(done) => Event::Text(CowStr::Borrowed(if done { "☑ " } else { "☐ " })),
        Event::Start(Tag::CodeBlock(_)) => {
            Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Indented))
        }
        event => event,
    });
    let mut written = String::new();
    writer::push_html(&mut written, events);
    // A screen reader would announce an empty column heading as a heading. Text of the document is escaped,
    // so this element is from the writer.
    let written = written.replace("<th></th>", "<td></td>");
    // A link inside of a link, or a table that is too wide for a small screen, is left to the style sheet.
    html! { div.markdown { (PreEscaped(written)) } }
}

fn own_markup(markup: String) -> Event<'static> {
    Event::InlineHtml(CowStr::from(markup))
}

fn leads_to_web(address: &str) -> bool {
    let lower = address.trim_start().to_ascii_lowercase();
    lower.starts_with("https://") || lower.starts_with("http://")
}

fn opening(address: &str) -> String {
    let mut markup = html! { a href=(address) rel="noopener noreferrer nofollow" {} }.into_string();
    // The event at the end of the link closes the element.
    markup.truncate(markup.len() - "</a>".len());
    markup
}

fn lower(level: HeadingLevel) -> HeadingLevel {
    HeadingLevel::try_from(level as usize + LEVELS_DOWN).unwrap_or(HeadingLevel::H6)
}

#[cfg(test)]
mod tests {
    use super::rendered;

    #[test]
    fn text_is_markdown_and_never_markup() {
        let cases = [
            ("a *b*", "<p>a <em>b</em></p>\n"),
            ("# a", "<h3>a</h3>\n"),
            ("<b>a</b>", "<p>&lt;b&gt;a&lt;/b&gt;</p>\n"),
            ("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n"),
            ("[a](javascript:alert(1))", "<p>a</p>\n"),
            (
                "[a](https://x.example/?a=1&b=\"2\")",
                "<p><a href=\"https://x.example/?a=1&amp;b=&quot;2&quot;\" rel=\"noopener noreferrer nofollow\">a</a></p>\n",
            ),
            ("![a](data:text/html,x)", "<p>a</p>\n"),
            ("```html onload=x\n<i>\n```", "<pre><code>&lt;i&gt;\n</code></pre>\n"),
            (
                "|a|\n|-:|\n|b|",
                "<table><thead><tr><th>a</th></tr></thead><tbody>\n<tr><td>b</td></tr>\n</tbody></table>\n",
            ),
        ];
        for (text, expected) in cases {
            let markup = rendered(text).into_string();
            assert_eq!(markup, format!("<div class=\"markdown\">{expected}</div>"), "{text}");
        }
    }
}
