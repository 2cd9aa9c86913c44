//! What a project says about its scope, in the files that agents read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kenning_model::ScopeName;

/// In this order.
const FILES: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"];
/// The line is looked for in so much of a file.
const BYTES_MAX: u64 = 256 * 1024;

/// The scope of the project that a directory is in: that of the nearest directory that names one, up to the root of
/// the repository.
pub fn scope(dir: &Path) -> Option<String> {
    for dir in dir.ancestors() {
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

/// The first line that is `scope: namespace:scope`, be it an item of a list or set as code.
fn scope_line(text: &str) -> Option<String> {
    let value = |line: &str| {
        let line = line.trim().trim_start_matches(['-', '*', '+', '>', '`', ' ']);
        let value = line.strip_prefix("scope")?.trim_start_matches(['`', '*']).strip_prefix(':')?;
        let value = value.trim_matches(['`', '*', ' ', '"', '\'']);
        let scope = ScopeName::parse(value);
        if scope.is_none() && value.contains(':') && !value.contains(' ') {
            tracing::warn!(
                "`scope: {value}` in the project's instructions is not of the form namespace:scope in a-z, 0-9 and -"
            );
        }
        scope.map(|scope| scope.to_string())
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
        ] {
            let text =
                format!("# Project\r\nSome words on the scope: all of it.\r\n{line}\r\nscope: other:one\r\n");
            assert_eq!(scope_line(&text).as_deref(), Some("acme:web"), "{line}");
        }
        for line in [
            "scope: the whole repository",
            "scope: Acme:Web",
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
