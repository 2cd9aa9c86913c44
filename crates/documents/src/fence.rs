//! Fenced code: where it begins and ends, and how to fence a text.

/// Follows a text line by line and knows whether a line belongs to fenced code.
#[derive(Default)]
pub(crate) struct Fences {
    /// The mark of the open fence and how many of them there are: only as many or more of the same close it.
    open: Option<(char, usize)>,
}

impl Fences {
    /// Whether a line is a fence, or stands between two.
    pub(crate) fn hold(&mut self, line: &str) -> bool {
        let fence = fence(line);
        match (self.open, fence) {
            (None, Some((mark, many, about))) => {
                // A backtick behind backticks: code within a line, and no fence.
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

/// The marks that a line begins with, how many they are, and what stands behind them.
fn fence(line: &str) -> Option<(char, usize, &str)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let about = line.trim_start_matches(mark);
    let many = line.len() - about.len();
    (many >= 3).then_some((mark, many, about))
}

/// Code between fences that nothing in it can close.
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
