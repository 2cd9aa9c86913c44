//! Output for people: styled text, tables, and the width of the terminal. Stored text goes through `Text`, so
//! that it can't send escape sequences to the terminal. Styles are removed if stdout is not a terminal or the
//! user wants none.

mod table;
mod text;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

pub use table::Table;
pub use text::Text;

pub const PLAIN: Style = Style::new();
pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const ID: Style = AnsiColor::Yellow.on_default();
pub const NAME: Style = AnsiColor::Cyan.on_default();
/// Words that matched a search.
pub const MARK: Style = AnsiColor::Red.on_default().bold();
pub const ADDED: Style = AnsiColor::Green.on_default();
pub const REMOVED: Style = AnsiColor::Red.on_default();

/// The width of a text when the width of the terminal is unknown.
const WIDTH_FORCED: usize = 80;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Applies the choice to the whole process. It must be called before anything is printed.
    pub fn choose(self) {
        match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// Whether styles are written to stdout.
pub fn has_color() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| AutoStream::choice(&io::stdout()) != ColorChoice::Never)
}

/// How many columns a line may have. `None` if stdout is a file or a pipe, which get whole lines.
pub fn width() -> Option<usize> {
    static WIDTH: OnceLock<Option<usize>> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let size = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let wanted = || std::env::var("COLUMNS").ok()?.parse().ok();
        match io::stdout().is_terminal() {
            true => Some(size.or_else(wanted).unwrap_or(WIDTH_FORCED)),
            // If colour was forced, the text will be shown on a terminal later, for example in a pager.
            false => has_color().then(|| wanted().unwrap_or(WIDTH_FORCED)),
        }
    })
}

/// Prints a text and ends the line. A closed pipe is not an error: the program that reads the output, such as
/// `head`, may stop early.
pub fn print(text: &Text) -> io::Result<()> {
    match writeln!(anstream::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
