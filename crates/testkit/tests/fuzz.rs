//! Decoders of external input must accept anything: they do not panic or hang, and a decoded value can be
//! encoded and decoded again.

use jiff::Timestamp;
use kenning_documents::{Format, parse, pattern};
use kenning_model::TxId;
use kenning_presentation::cursor::Cursor;
use kenning_testkit::fuzz::run;

/// Parses the input as text twice: the same text has to give the same sections.
fn cut(name: &str, format: Format, examples: &[&str]) {
    run(name, examples, |input| {
        let text = String::from_utf8_lossy(input);
        let first = parse(format, "guide/a.md", &text).ok();
        assert_eq!(first, parse(format, "guide/a.md", &text).ok(), "the same text gives the same sections");
        for section in first.iter().flat_map(|document| &document.sections) {
            assert!(section.parent.is_none_or(|parent| parent < document_len(&first)), "a parent is there");
        }
    });
}

fn document_len(document: &Option<kenning_documents::Document>) -> usize {
    document.as_ref().map_or(0, |document| document.sections.len())
}

const MARKDOWN: [&str; 4] = [
    "# Title\n\nText with `code` and [a link](b.md#x).\n\n## Part {#id}\n\n- one\n- two\n\n```sh\nls\n```\n",
    "---\ntitle: A\ntags: [a, b]\ndoc_tag: x\n---\n# A\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n",
    "Term\n: what it is\n\n[[wiki page]]\n\n> [!NOTE]\n> mind\n\n:::tip\nx\n:::\n\nSetext\n======\n\n<div>html</div>\n",
    "import X from './x'\n\nexport const a = {\n b: 1 }\n\n# T\n\n<Tabs>\n<Tab title=\"a\">x</Tab>\n</Tabs>\n",
];

#[test]
fn markdown() {
    cut("markdown", Format::Markdown, &MARKDOWN);
}

#[test]
fn mdx() {
    cut("mdx", Format::Mdx, &MARKDOWN);
}

#[test]
fn html() {
    cut(
        "html",
        Format::Html,
        &[
            "<html><head><title>T</title></head><body><h1 id=a>A</h1><p>x <a href='b.html#c'>y</a></p></body></html>",
            "<h2>B<a href='#b'>¶</a></h2><pre><code class=\"language-js\">let a;\n</code></pre><dl><dt>t<dd>d</dl>",
            "<table><tr><td>1<td>2</table><!-- c --><script>a<b</script><ul><li>x<li>y</ul>&amp;&#x41;",
        ],
    );
}

#[test]
fn restructured_text() {
    cut(
        "restructured text",
        Format::Restructured,
        &[
            "Title\n=====\n\nText with ``code`` and `a link <b.html>`_.\n\nPart\n----\n\n.. note:: mind\n   this\n",
            ".. _label:\n\nA\n#\n\n.. confval:: x\n   :type: int\n\n   What.\n\n:ref:`label` and :term:`t`\n\n=====  ===\na      b\n=====  ===\n",
            "* one\n* two\n\n::\n\n  code\n\n.. |s| replace:: t\n\n|s|\n\nterm\n  what\n",
        ],
    );
}

#[test]
fn asciidoc_and_org() {
    cut(
        "asciidoc",
        Format::Asciidoc,
        &[
            "= Title\n:tag: x\n\n== Part\n\nText `code` <<id,y>>.\n\n[source,sh]\n----\nls\n----\n\n|===\n|a |b\n|===\n\nterm:: what\n\n[[id]]\n=== Deep\n",
        ],
    );
    cut(
        "org",
        Format::Org,
        &[
            "#+TITLE: T\n#+FILETAGS: :a:b:\n* Part :x:\n:PROPERTIES:\n:CUSTOM_ID: id\n:END:\nText =code= [[file:b.org][y]].\n#+BEGIN_SRC sh\nls\n#+END_SRC\n** Deep\n| a | b |\n",
        ],
    );
}

#[test]
fn notebooks() {
    cut(
        "notebook",
        Format::Notebook,
        &[
            "{\"cells\":[{\"cell_type\":\"markdown\",\"source\":[\"# T\\n\",\"x\"]},{\"cell_type\":\"code\",\"source\":\"a=1\",\"outputs\":[{\"text\":[\"1\"]}]}],\"metadata\":{\"language_info\":{\"name\":\"python\"}}}",
        ],
    );
}

#[test]
fn front_matter_and_patterns() {
    let examples = [
        "---\nid: a\ntitle: T\nsummary: S\ncategory: c\ndifficulty: beginner\ntags:\n  - x\nrelated: [b]\n---\n# T\n\n## When\n\nx\n",
        "---\ntitle: 'it''s'\nupdated: 2026-01-01\nuseWhen: >\n  long\n  text\n---\nx",
        "+++\ntitle = \"T\"\n+++\nx",
    ];
    run("front matter", &examples, |input| {
        let text = String::from_utf8_lossy(input);
        let _ = pattern::parse(Format::Markdown, "a.md", &text);
    });
}

#[test]
fn cursors() {
    let (secret, now) = ([7; 32], Timestamp::from_millisecond(1_800_000_000_000).expect("a time"));
    let cursor = Cursor { at: TxId(42), asked_at: now, issued_at: now, offset: 7 };
    let sealed = cursor.seal(&secret, "query");
    assert_eq!(Cursor::open(&sealed, &secret, "query", now).map(|cursor| cursor.offset).ok(), Some(7));
    run("cursor", &[&sealed], |input| {
        let text = String::from_utf8_lossy(input);
        let is_open = Cursor::open(&text, &secret, "query", now).is_ok();
        assert!(!is_open || text == sealed, "a forged cursor is taken");
    });
}
