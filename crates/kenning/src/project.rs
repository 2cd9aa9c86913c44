//! What a project says about its scope, in the files that agents read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// In this order.
const FILES: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"];
/// The line is looked for in so much of a file.
const BYTES_MAX: u64 = 256 * 1024;

/// The scope of the project that a directory is in: that of the nearest directory that names one, up to the root of
/// the repository. The home directory is nobody's project.
pub fn scope(dir: &Path) -> Option<String> {
    let home = etcetera::home_dir().ok();
    for dir in dir.ancestors().take_while(|dir| Some(*dir) != home.as_deref()) {
        for file in FILES {
            if let Some(scope) = read(&dir.join(file)).as_deref().and_then(scope_line) {
                return Some(scope);
            }
        }
        if dir.join(".git").exists() {
            return None;
        }
    }
    None
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    // A directory or a device of that name is none of ours.
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()))?;
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first line that is `scope: namespace:scope`, however it is set: as an item of a list, as code, in bold, as a comment.
/// What was meant as one and is not is given as it stands, so that every call says what is wrong with it.
fn scope_line(text: &str) -> Option<String> {
    let around = |c: char| c.is_whitespace() || "-*+>`_\"'<!()[]#".contains(c);
    let value = |line: &str| {
        let line = line.trim_start_matches('\u{feff}').trim_matches(around);
        let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let line = numbered.strip_prefix(['.', ')']).filter(|_| numbered.len() < line.len()).unwrap_or(line);
        let (name, value) = line.split_once(':')?;
        if !name.trim_matches(around).eq_ignore_ascii_case("scope") {
            return None;
        }
        let value =
            value.split(" #").next().unwrap_or_default().trim_matches(around).trim_end_matches(['.', ',']);
        // `scope: the whole repository` is prose.
        let is_meant = value.contains(':') && !value.contains(char::is_whitespace);
        is_meant.then(|| value.to_owned())
    };
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_however_it_is_set() {
        for line in [
            "scope: acme:web",
            "  scope:   acme:web  ",
            "- scope: acme:web",
            "* **scope**: acme:web",
            "- `scope: acme:web`",
            "scope: `acme:web`",
            "> scope: \"acme:web\"",
            "\u{feff}Scope: acme:web",
            "scope : acme:web   # ours",
            "1. scope: acme:web.",
            "\tscope:\tacme:web",
            "<!-- scope: acme:web -->",
            "_scope_: acme:web",
        ] {
            let text =
                format!("# Project\r\nSome words on the scope: all of it.\r\n{line}\r\nscope: other:one\r\n");
            assert_eq!(scope_line(&text).as_deref(), Some("acme:web"), "{line}");
        }
        assert_eq!(
            scope_line("scope: Acme:Web").as_deref(),
            Some("Acme:Web"),
            "calls will say what is wrong"
        );
        for line in [
            "scope: the whole repository",
            "scope: acme",
            "the scope: acme:web",
            "scopes: acme:web",
            "scope acme:web",
            "",
        ] {
            assert_eq!(scope_line(line), None, "{line}");
        }
    }

    #[test]
    fn the_nearest_directory_decides_and_the_repository_is_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write("AGENTS.md", "scope: outer:default");
        write("repo/.git/HEAD", "");
        write("repo/AGENTS.md", "scope: acme:agents");
        write("repo/CLAUDE.md", "no line");
        write("repo/part/CLAUDE.md", "scope: acme:part");
        write("repo/part/AGENTS.md", "scope: acme:other");
        write("bare/.git", "gitdir: elsewhere");
        write("bare/deep/x", "");
        let found = |path: &str| scope(&dir.path().join(path));
        assert_eq!(found("repo/part").as_deref(), Some("acme:part"));
        assert_eq!(found("repo/part/not/there").as_deref(), Some("acme:part"));
        assert_eq!(found("repo").as_deref(), Some("acme:agents"));
        assert_eq!(found("bare/deep"), None, "what is outside the repository is another project's");
    }
}
