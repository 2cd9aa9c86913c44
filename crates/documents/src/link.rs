//! Where a link leads: into the same tree, or nowhere that matters here.

use percent_encoding::percent_decode_str;

/// A link to another document of the same tree, or to a section.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Below what is ingested, as it is written; empty for the document itself. Labels have paths of their own
    /// (`kenning_model::Link`).
    pub path: String,
    /// In small letters, as anchors are.
    pub anchor: Option<String>,
}

impl Link {
    /// To whatever place of the tree has this label.
    pub(crate) fn label(name: &str) -> Link {
        Link { path: kenning_model::Link::LABEL.to_owned(), anchor: Some(label(name)) }
    }

    /// Says that the place where it stands has this label.
    pub(crate) fn labelled(name: &str) -> Link {
        Link { path: kenning_model::Link::LABELLED.to_owned(), anchor: Some(label(name)) }
    }

    /// To the page of this name, wherever in the tree it is.
    pub(crate) fn page_named(name: &str) -> Link {
        Link { path: kenning_model::Link::page_named(name), anchor: None }
    }

    /// What leads out of the tree is none.
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

/// Case and the number of blanks do not matter in labels.
fn label(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// `https://…`, `mailto:…`, `//host/…`: whatever names a scheme or a host.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    let is_scheme = |scheme: &str| {
        // One letter is a drive.
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
    let at = attributes.find("href").or_else(|| attributes.find("HREF"))?;
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
        let html = "<p><a class=x href=\"b.md#c\">b</a> <A href = 'd.md'>d</A> <abbr href=no> <a name=x> <a href=e.md>e";
        assert_eq!(targets(html), ["b.md#c", "d.md", "e.md"]);
        assert!(targets("<!-- <a href=\"b.md\"> -->").is_empty());
    }
}
