//! Converts HTML to Markdown, from which sections are cut. Headings keep their ids as `{#id}`.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use htmd::element_handler::{HandlerResult, Handlers};
use htmd::{Element, HtmlToMarkdown, Node};
use pulldown_cmark::{Event, Parser};

use crate::Error;
use crate::fence::fenced;

/// Elements around the text of a page, such as navigation, or that a reader operates. A `form` or an `aside`
/// is kept, since it may contain the text or a note.
const SKIPPED: [&str; 10] =
    ["head", "button", "svg", "nav", "footer", "script", "style", "noscript", "template", "iframe"];

const HEADINGS: [&str; 6] = ["h1", "h2", "h3", "h4", "h5", "h6"];

/// The characters of links from a heading to itself.
const PERMALINKS: &str = "#¶§∞🔗\u{200b}\u{fe0f}\u{f0c1}";

/// Far deeper than real pages. The converter recurses for each element, and must not overflow its stack.
const DEPTH_MAX: usize = 200;

/// The most elements without an end tag: for each new element the parser searches all that are open.
const OPEN_MAX: usize = 10_000;

/// The most attributes of one element: the parser compares each with all before it.
const ATTRIBUTES_MAX: usize = 2000;

/// Elements that have no end tag, or need none.
const ENDLESS: &str = " a area base body br col dd dt embed head hr html img input li link meta option p param path \
                       source tbody td tfoot th thead tr track wbr ";

pub(crate) fn markdown(html: &str) -> Result<String, Error> {
    if is_open_without_end(html) {
        return Err(Error::Html(format!("more than {OPEN_MAX} of its elements have no end")));
    }
    if has_many_attributes(html) {
        return Err(Error::Html(format!("one of its elements has more than {ATTRIBUTES_MAX} attributes")));
    }
    let converter = converter();
    let tree = converter.html_to_tree(html).map_err(|error| Error::Html(error.to_string()))?;
    if is_deeper(&tree, DEPTH_MAX) {
        return Err(Error::Html(format!("its elements are more than {DEPTH_MAX} deep in each other")));
    }
    Ok(converter.tree_to_markdown(&tree))
}

fn is_open_without_end(html: &str) -> bool {
    let mut open = 0_usize;
    html.split('<').skip(1).any(|tag| {
        let (name, is_end) = tag.strip_prefix('/').map_or((tag, false), |name| (name, true));
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
        // Self-closing tags, as for the shapes of a drawing.
        let ends_itself = name.split('>').next().is_some_and(|tag| tag.ends_with('/'));
        let name = name[..end].to_ascii_lowercase();
        let is_counted = !ends_itself
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !ENDLESS.split(' ').any(|endless| endless == name);
        match is_end {
            _ if !is_counted => {}
            true => open = open.saturating_sub(1),
            false => open += 1,
        }
        open > OPEN_MAX
    })
}

/// Whether a tag has too many attributes. Tags are read as the parser reads them: a quoted value belongs to
/// one attribute, whatever it contains. Scripts and styles contain no tags.
fn has_many_attributes(html: &str) -> bool {
    let bytes = html.as_bytes();
    let mut at = 0;
    while let Some(start) = bytes[at..].iter().position(|byte| *byte == b'<').map(|found| at + found) {
        at = start + 1;
        if !bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let name = &bytes[at..];
        let (mut many, mut is_between, mut after_equals) = (0, false, false);
        while at < bytes.len() && bytes[at] != b'>' {
            let byte = bytes[at];
            at += 1;
            if after_equals && matches!(byte, b'"' | b'\'') {
                let end = bytes[at..].iter().position(|end| *end == byte);
                at = end.map_or(bytes.len(), |end| at + end + 1);
                (after_equals, is_between) = (false, true);
            } else if byte.is_ascii_whitespace() || byte == b'/' {
                is_between |= !after_equals;
            } else {
                many += usize::from(is_between);
                is_between = false;
                after_equals = byte == b'=';
            }
            if many > ATTRIBUTES_MAX {
                return true;
            }
        }
        for (raw, end) in [("script", "</script"), ("style", "</style")] {
            if name.len() > raw.len() && name[..raw.len()].eq_ignore_ascii_case(raw.as_bytes()) {
                let is_end = |here: &[u8]| here.eq_ignore_ascii_case(end.as_bytes());
                at = bytes[at..].windows(end.len()).position(is_end).map_or(bytes.len(), |found| at + found);
            }
        }
    }
    false
}

fn is_deeper(tree: &Rc<Node>, depth_max: usize) -> bool {
    let mut open = vec![(Rc::clone(tree), 0)];
    while let Some((node, depth)) = open.pop() {
        if depth > depth_max {
            return true;
        }
        open.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    false
}

/// The text of `<title>`; the converter leaves the head out.
pub(crate) fn title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let start = lower.find("<title")?;
    let start = start + lower[start..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let markdown = markdown(&html[start..end]).ok()?;
    let words = Parser::new(&markdown).map(|event| match event {
        Event::Text(words) | Event::Code(words) | Event::InlineHtml(words) | Event::Html(words) => {
            words.to_string()
        }
        _ => " ".to_owned(),
    });
    let title = words.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    Some(title).filter(|title| !title.is_empty())
}

/// The position of the conversion, because a handler is given its element but not the elements around it.
#[derive(Default)]
struct ConversionState {
    preformatted: AtomicUsize,
    language: Mutex<Option<String>>,
    heading: AtomicUsize,
    id: Mutex<Option<String>>,
}

fn converter() -> HtmlToMarkdown {
    let state = Arc::new(ConversionState::default());
    let [in_heading, in_pre, in_link, in_code, in_term, in_other] = [0; 6].map(|_| Arc::clone(&state));
    HtmlToMarkdown::builder()
        .skip_tags(SKIPPED.to_vec())
        .add_handler(HEADINGS.to_vec(), move |handlers: &dyn Handlers, element: Element| {
            heading(&in_heading, handlers, &element)
        })
        .add_handler(vec!["pre"], move |handlers: &dyn Handlers, element: Element| {
            preformatted(&in_pre, handlers, &element)
        })
        .add_handler(vec!["a"], move |handlers: &dyn Handlers, element: Element| {
            link(&in_link, handlers, element)
        })
        .add_handler(vec!["code"], move |handlers: &dyn Handlers, element: Element| {
            code(&in_code, handlers, element)
        })
        .add_handler(vec!["dt", "dd"], move |handlers: &dyn Handlers, element: Element| {
            definition(&in_term, handlers, &element)
        })
        .add_handler(
            vec!["strong", "b", "em", "i", "br"],
            move |handlers: &dyn Handlers, element: Element| match within(&in_other.preformatted) {
                true if element.tag == "br" => Some("\n".into()),
                true => Some(handlers.walk_children(element.node)),
                false => handlers.fallback(element),
            },
        )
        .build()
}

/// A heading on one line, with its id at the end.
fn heading(state: &ConversionState, handlers: &dyn Handlers, element: &Element) -> Option<HandlerResult> {
    keep(&state.id, attribute(element, "id"));
    let content = inside(&state.heading, || handlers.walk_children(element.node).content);
    let title = content.split_whitespace().collect::<Vec<_>>().join(" ");
    let id = take(&state.id).map(|id| format!(" {{#{id}}}")).unwrap_or_default();
    if title.is_empty() {
        return None;
    }
    let level = HEADINGS.iter().position(|tag| *tag == element.tag).map_or(1, |at| at + 1);
    Some(format!("\n\n{} {title}{id}\n\n", "#".repeat(level)).into())
}

/// A definition is indented below its term, so that both are read together.
fn definition(state: &ConversionState, handlers: &dyn Handlers, element: &Element) -> Option<HandlerResult> {
    let content = handlers.walk_children(element.node).content;
    if within(&state.preformatted) {
        return Some(content.into());
    }
    if element.tag == "dt" {
        let term = content.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_plain = !term.contains(['`', '*', '[']);
        let term = if is_plain { format!("**{term}**") } else { term };
        return Some(format!("\n\n{term}").into());
    }
    let lines = content.trim().lines();
    let lines: Vec<String> =
        lines.map(|line| if line.trim().is_empty() { String::new() } else { format!("   {line}") }).collect();
    Some(format!("\n{}\n\n", lines.join("\n")).into())
}

/// Preformatted text becomes a separate block, with its fences on lines of their own.
fn preformatted(
    state: &ConversionState,
    handlers: &dyn Handlers,
    element: &Element,
) -> Option<HandlerResult> {
    keep(&state.language, language(element));
    let content = inside(&state.preformatted, || handlers.walk_children(element.node).content);
    let language = take(&state.language).unwrap_or_default();
    let code = content.trim_end().trim_start_matches(['\r', '\n']);
    (!code.is_empty()).then(|| format!("\n\n{}\n\n", fenced(&language, code)).into())
}

fn code(state: &ConversionState, handlers: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    if !within(&state.preformatted) {
        return handlers.fallback(element);
    }
    keep(&state.language, language(&element));
    let mut content = handlers.walk_children(element.node).content;
    // A page may have the same code in two languages, one directly after the other.
    if content.contains('\n') && !content.ends_with('\n') {
        content.push('\n');
    }
    Some(content.into())
}

fn link(state: &ConversionState, handlers: &dyn Handlers, element: Element) -> Option<HandlerResult> {
    if within(&state.preformatted) {
        return Some(handlers.walk_children(element.node));
    }
    if !within(&state.heading) {
        return handlers.fallback(element);
    }
    let content = handlers.walk_children(element.node).content;
    let target = attribute(&element, "href");
    let own = target.as_deref().and_then(|target| target.strip_prefix('#')).map(str::to_owned);
    let is_mark = |c: char| PERMALINKS.contains(c) || c.is_whitespace() || c == '\\';
    if content.chars().all(is_mark) {
        let is_legacy = attribute(&element, "aria-hidden").is_some() && own.is_none();
        keep(&state.id, own.or_else(|| attribute(&element, "id").filter(|_| !is_legacy)));
        return None;
    }
    if own.is_some() {
        keep(&state.id, own);
        return Some(content.into());
    }
    handlers.fallback(element)
}

fn inside<T>(depth: &AtomicUsize, work: impl FnOnce() -> T) -> T {
    depth.fetch_add(1, Ordering::Relaxed);
    let done = work();
    depth.fetch_sub(1, Ordering::Relaxed);
    done
}

fn within(depth: &AtomicUsize) -> bool {
    depth.load(Ordering::Relaxed) > 0
}

/// Keeps the first value.
fn keep(slot: &Mutex<Option<String>>, said: Option<String>) {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    if slot.is_none() {
        *slot = said.filter(|said| !said.is_empty() && !said.contains(['{', '}', ' ']));
    }
}

fn take(slot: &Mutex<Option<String>>) -> Option<String> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn attribute(element: &Element, name: &str) -> Option<String> {
    let found = element.attrs.iter().find(|attribute| &*attribute.name.local == name)?;
    Some(found.value.to_string())
}

fn language(element: &Element) -> Option<String> {
    let class = attribute(element, "class")?;
    let name = |class: &str| {
        class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")).map(str::to_owned)
    };
    class.split_whitespace().find_map(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_button_behind_code_leaves_the_fence_alone() {
        let html = "<h2>One</h2><pre><code class=\"language-js\">let a = `x`;\n</code><button>copy</button></pre>\
                    <h2>Two</h2><pre># <b>no</b> heading\n```\n</pre><button>copy</button><p>After.</p><h2>Three</h2>";
        assert_eq!(
            markdown(html).expect("good HTML"),
            "## One\n\n```js\nlet a = `x`;\n```\n\n## Two\n\n````\n# no heading\n```\n````\n\nAfter.\n\n## Three"
        );
    }

    #[test]
    fn headings_lose_their_permalinks_and_keep_their_ids() {
        for (html, wanted) in [
            ("<h2>Title<a class=\"mark\" href=\"#x\">#</a></h2>", "## Title {#x}"),
            ("<h2 id=own>Title<a href=\"#x\">¶</a></h2>", "## Title {#own}"),
            (
                "<h2>A<span><a href='#a' id=a>#</a></span><a aria-hidden=true class=legacy id=old></a></h2>",
                "## A {#a}",
            ),
            ("<h2><a href='#a'>A<br>b</a></h2>", "## A b {#a}"),
            ("<h2><a href='b.html'>A</a></h2>", "## [A](b.html)"),
        ] {
            assert_eq!(markdown(html).expect("good HTML"), wanted);
        }
    }

    #[test]
    fn what_is_too_deep_is_said_and_does_not_end_the_process() {
        let nested = |many: usize| format!("{}x", "<div>".repeat(many));
        assert_eq!(markdown(&nested(190)).expect("it is not too deep"), "x");
        assert_eq!(markdown(&"<b><i>".repeat(95)).expect("it is not too deep"), "");
        assert!(markdown(&nested(1000)).is_err());
        assert!(markdown(&nested(1_000_000)).is_err());
        assert!(markdown(&"<p><a name=x><li><br><div></div><rect x=1 />".repeat(11_000)).is_ok());
    }

    #[test]
    fn attributes_are_bounded_and_long_values_are_not_attributes() {
        let attributes = |many: usize| (0..many).map(|number| format!(" a{number}=x")).collect::<String>();
        assert!(markdown(&format!("<p{}>x</p>", attributes(1900))).is_ok());
        assert!(markdown(&format!("<p{}>x</p>", attributes(1_000_000))).is_err());
        assert!(markdown(&format!("<p{}", " a".repeat(1_000_000))).is_err());
        assert!(markdown(&format!("<p x = '{}' y>x</p>", "> M 0 0 ".repeat(10_000))).is_ok());
        assert!(markdown(&format!("<script>if(a<b){}</script><p>x</p>", " c d".repeat(10_000))).is_ok());
    }

    #[test]
    fn a_title_is_as_it_is_read() {
        let html = "<html><head><title>RefCell&lt;T&gt; in\n std_cell</title></head></html>";
        assert_eq!(title(html).as_deref(), Some("RefCell<T> in std_cell"));
    }

    #[test]
    fn a_term_stands_above_what_explains_it() {
        let html = "<p>Options:</p><dl><dt>size</dt><dd>How many. <p>Default: 5</p></dd><dt><code>-v</code></dt><dd>Say more.</dd></dl><p>End.</p>";
        assert_eq!(
            markdown(html).expect("good HTML"),
            "Options:\n\n**size**\n   How many.\n\n   Default: 5\n\n`-v`\n   Say more.\n\nEnd."
        );
    }
}
