//! Fenced code: finding where it begins and ends, and putting a text between fences.

/// Tells for each line of a text whether it belongs to fenced code.
#[derive(Default)]
pub(crate) struct Fences {
    /// The mark and the length of the open fence. Only a fence of the same mark and at least this length
    /// closes it.
    open: Option<(char, usize)>,
}

impl Fences {
    /// Whether the line is a fence or lies between two fences.
    pub(crate) fn hold(&mut self, line: &str) -> bool {
        let fence = fence(line);
        match (self.open, fence) {
            (None, Some((mark, many, about))) => {
                // A backtick later in the line means code within a line, not a fence.
                let is_fence = mark == '~' || !about.contains('`');
                self.open = is_fence.then_some((mark, many));
                is_fence
            }
            (Some((mark, many)), Some((other, length, about))) => {
                if mark == other && length >= many && about.trim().is_empty() {
                    self.open = None;
                }
                true
            }
            (open, None) => open.is_some(),
        }
    }
}

/// The marks at the beginning of a line: the mark, the number of marks, and the text after them.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let about = line.trim_start_matches(mark);
    let many = line.len() - about.len();
    (many >= 3).then_some((mark, many, about))
}

/// Code between fences that no line of it can close.
pub(crate) fn fenced(language: &str, code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{code}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_mark_in_the_same_length_closes() {
        let text = "a\n````md\n```\n~~~~\n````x\n````\nb\n~~~\n```\n~~~\n```x```\nc";
        let mut fences = Fences::default();
        let outside: Vec<&str> = text.lines().filter(|line| !fences.hold(line)).collect();
        assert_eq!(outside, ["a", "b", "```x```", "c"]);
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("md", "```\nx\n```"), "````md\n```\nx\n```\n````");
        assert_eq!(fenced("", ""), "```\n\n```");
    }
}
