//! The targets of links: places in the same tree. Links to other places are ignored.

use percent_encoding::percent_decode_str;

/// A link to a document of the same tree, or to a section of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// The path relative to the ingested directory, in its original spelling; empty for the document itself.
    /// Labels have special paths (`kenning_model::Link`).
    pub path: String,
    /// The anchor in lower case.
    pub anchor: Option<String>,
}

impl Link {
    /// A link to the place of the tree that has this label.
    pub(crate) fn label(name: &str) -> Link {
        Link { path: kenning_model::Link::LABEL.to_owned(), anchor: Some(label(name)) }
    }

    /// Declares that the section it belongs to has this label.
    pub(crate) fn labelled(name: &str) -> Link {
        Link { path: kenning_model::Link::LABELLED.to_owned(), anchor: Some(label(name)) }
    }

    /// A link to the page with this name, in any directory of the tree.
    pub(crate) fn page_named(name: &str) -> Link {
        Link { path: kenning_model::Link::page_named(name), anchor: None }
    }

    /// Resolves a target relative to a page; `None` for a target outside of the tree.
    pub(crate) fn resolved(from: &str, target: &str) -> Option<Link> {
        let (target, anchor) = target.trim().split_once('#').unwrap_or((target.trim(), ""));
        let anchor = Some(decoded(anchor).to_lowercase()).filter(|anchor| !anchor.is_empty());
        let target = target.split('?').next().unwrap_or_default();
        if is_elsewhere(target) {
            return None;
        }
        if target.is_empty() {
            return anchor.map(|anchor| Link { path: String::new(), anchor: Some(anchor) });
        }
        let target = decoded(target);
        let mut parts: Vec<&str> = match (target.starts_with('/'), from.rsplit_once('/')) {
            (false, Some((directory, _))) => directory.split('/').collect(),
            _ => Vec::new(),
        };
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()?),
                part => parts.push(part),
            }
        }
        Some(Link { path: parts.join("/"), anchor })
    }
}

/// The normal form of a label, in which case and the number of blanks do not matter.
fn label(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether the target names a scheme or a host: `https://…`, `mailto:…`, `//host/…`.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        // A single letter is a drive of Windows.
        scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    target.starts_with("//") || scheme.is_some_and(is_scheme)
}

/// Decodes escapes such as `%20`. A text with a bad escape, or one that is not UTF-8 after decoding, was probably not
/// meant to be encoded: bad escapes stay as they are, and a text that is not UTF-8 stays as it is.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), |decoded| decoded.into_owned())
}

/// The targets of `<a href="…">` in a piece of HTML.
pub(crate) fn targets(html: &str) -> Vec<&str> {
    if html.trim_start().starts_with("<!--") {
        return Vec::new();
    }
    let tags = html.split('<').skip(1).filter_map(|tag| {
        let (name, attributes) = tag.split_once(char::is_whitespace)?;
        name.eq_ignore_ascii_case("a").then_some(attributes)
    });
    tags.filter_map(target).collect()
}

fn target(attributes: &str) -> Option<&str> {
    // The name in any case, and not the end of another name such as `data-href`.
    let lower = attributes.to_ascii_lowercase();
    let is_name = |(at, _): &(usize, &str)| lower[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let (at, _) = lower.match_indices("href").find(is_name)?;
    let value = attributes[at + 4..].trim_start().strip_prefix('=')?.trim_start();
    match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next(),
        _ => value.split(|c: char| c.is_whitespace() || c == '>').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_the_tree() {
        let to =
            |target: &str| Link::resolved("docs/guide/a.md", target).map(|link| (link.path, link.anchor));
        assert_eq!(to("b.md"), Some(("docs/guide/b.md".into(), None)));
        assert_eq!(to("/b.md?x=1#y"), Some(("b.md".into(), Some("y".into()))));
        assert_eq!(to("#Here%20it-is"), Some((String::new(), Some("here it-is".into()))));
        assert_eq!(to("../with%20space/b%20c.md"), Some(("docs/with space/b c.md".into(), None)));
        assert_eq!(to("100%.md"), Some(("docs/guide/100%.md".into(), None)));
        for target in
            ["https://example.com/a.md", "mailto:a@b.c", "tel:1", "//host/a.md", "../../../out.md", "", "#"]
        {
            assert_eq!(to(target), None, "{target}");
        }
        assert_eq!(Link::resolved("a.md", "b.md").map(|link| link.path).as_deref(), Some("b.md"));
    }

    #[test]
    fn targets_are_found_in_html() {
        let html = "<p><a class=x href=\"b.md#c\">b</a> <A href = 'd.md'>d</A> <abbr href=no> <a name=x> <a href=e.md>e \
            <a data-href=\"no\" Href=\"f.md\">f</a>";
        assert_eq!(targets(html), ["b.md#c", "d.md", "e.md", "f.md"]);
        assert!(targets("<!-- <a href=\"b.md\"> -->").is_empty());
    }
}
