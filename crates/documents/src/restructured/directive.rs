//! Directives of reStructuredText (`.. name:: arguments`), and their kinds.

/// How a directive is treated in the text of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Describes an object by its name: `.. confval:: cache_dir`, `.. py:function:: open(path)`.
    Object,
    /// Names an object whose description is in the source of a program: `.. autofunction:: open`.
    Documented,
    /// Its content is code.
    Code,
    /// Sets a text apart, with a word for the reason: `.. note::`.
    Admonition(&'static str),
    /// Says in which version something changed: `.. versionadded:: 2.0`.
    Version(&'static str),
    /// A frame around a text that is read like other text.
    Frame,
    /// A reader sees nothing of it.
    Unseen,
    Other,
}

const OBJECTS: &str = " attribute class cmdoption concept confval data decorator decoratormethod describe directive \
    directive:option enum enumerator envvar event exception fixture function globalvar hook interface macro member method \
    object option property role setting staticmethod classmethod struct templatefilter templatetag type union var ";

const CODE: &str = " code code-block sourcecode parsed-literal math literalinclude doctest testcode testoutput testsetup \
    testcleanup prompt productionlist graphviz digraph graph ipython console mermaid ";

const FRAMES: &str = " only container class rst-class compound highlights pull-quote epigraph figure glossary grid tabs \
    tab-set hlist centered table ";

const UNSEEN: &str = " index highlight currentmodule currentlibrary py:currentmodule module sectionauthor moduleauthor \
    codeauthor raw image toctree contents meta cssclass tabularcolumns default-domain default-role role program namespace \
    namespace-push namespace-pop include autosummary inheritance-diagram ";

/// The name and the arguments of `.. name:: arguments`, at any indentation.
pub(super) fn directive(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.trim_start().strip_prefix(".. ")?.split_once("::")?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_:.+".contains(c));
    is_name.then(|| (name, arguments.trim()))
}

pub(super) fn kind(name: &str) -> Kind {
    let is_one_of = |list: &str, name: &str| list.split(' ').any(|known| known == name);
    // `py:function` is the directive `function` of the domain `py`.
    let (domain, own) = name.split_once(':').map_or(("", name), |(domain, own)| (domain, own));
    match own {
        // Without a domain, `role` defines a role of the markup.
        "role" if domain.is_empty() => Kind::Unseen,
        _ if is_one_of(OBJECTS, own) => Kind::Object,
        _ if domain.is_empty() && own.starts_with("auto") && own != "autosummary" => Kind::Documented,
        _ if is_one_of(CODE, own) => Kind::Code,
        _ if is_one_of(UNSEEN, own) => Kind::Unseen,
        _ if is_one_of(FRAMES, own) => Kind::Frame,
        "versionadded" | "version-added" => Kind::Version("Added in version"),
        "versionchanged" | "version-changed" => Kind::Version("Changed in version"),
        "versionremoved" | "version-removed" => Kind::Version("Removed in version"),
        "deprecated" | "version-deprecated" => Kind::Version("Deprecated since version"),
        "note" => Kind::Admonition("Note"),
        "warning" => Kind::Admonition("Warning"),
        "caution" => Kind::Admonition("Caution"),
        "danger" => Kind::Admonition("Danger"),
        "attention" => Kind::Admonition("Attention"),
        "error" => Kind::Admonition("Error"),
        "important" => Kind::Admonition("Important"),
        "hint" => Kind::Admonition("Hint"),
        "tip" => Kind::Admonition("Tip"),
        "todo" => Kind::Admonition("To do"),
        "seealso" => Kind::Admonition("See also"),
        // The title of these directives is in their arguments.
        "admonition" | "topic" | "sidebar" | "rubric" | "tab" | "tab-item" | "dropdown" => {
            Kind::Admonition("")
        }
        _ => Kind::Other,
    }
}

/// The name at the beginning of a signature, without the parameters: `open` for `open(path, mode)`.
pub(super) fn object_name(signature: &str) -> &str {
    let signature = signature.trim();
    let end = signature.find(" -> ").unwrap_or(signature.len());
    let end = signature[..end].find('(').unwrap_or(end);
    match signature[..end].trim_end() {
        "" => signature,
        name => name,
    }
}

/// The names by which an object is referred to: each spelling of an option, else the one name.
pub(super) fn labels(signature: &str) -> Vec<String> {
    let flag = |part: &str| part.trim().split([' ', '=', '[']).next().unwrap_or_default().to_lowercase();
    match signature.trim_start().starts_with(['-', '/', '+']) {
        true => signature.split(", ").map(flag).filter(|flag| !flag.is_empty()).collect(),
        false => {
            // In `.. class:: final Name` and `.. c:function:: int name(int x)` other words come before the
            // name.
            let name = object_name(signature);
            vec![name.rsplit(' ').next().unwrap_or(name).to_lowercase()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_told_by_their_names() {
        for (line, wanted) in [
            (".. confval:: cache_dir", Kind::Object),
            (".. rst:directive:option:: name: text", Kind::Object),
            ("   .. py:function:: open(path)", Kind::Object),
            (".. rst:role:: ref", Kind::Object),
            (".. role:: raw-html(raw)", Kind::Unseen),
            (".. autofunction:: pytest.fail", Kind::Documented),
            (".. code-block:: toml", Kind::Code),
            (".. note::", Kind::Admonition("Note")),
            (".. only:: html", Kind::Frame),
            (".. index:: one; two", Kind::Unseen),
            (".. list-table:: Sizes", Kind::Other),
        ] {
            let (name, _) = directive(line).expect("a directive");
            assert_eq!(kind(name), wanted, "{line}");
        }
    }

    #[test]
    fn things_are_named_without_what_they_take() {
        assert_eq!(object_name("open(path, mode) -> File"), "open");
        assert_eq!(object_name("cache_dir"), "cache_dir");
        assert_eq!(labels("-b name, --builder name"), ["-b", "--builder"]);
        assert_eq!(labels("--color=WHEN"), ["--color"]);
        assert_eq!(labels("Mark.Name(x)"), ["mark.name"]);
        assert_eq!(labels("int add(int a)"), ["add"]);
    }
}
