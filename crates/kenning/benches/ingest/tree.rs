//! Writes a directory of Markdown files as people write them, the same on every machine: front matter,
//! headings, lists, tables, code, and links from file to file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use kenning_testkit::{corpus, scrambled};

/// How many files each directory has.
const PER_DIR: usize = 50;
/// The least and the greatest number of sections of a file.
const SECTIONS: (u64, u64) = (3, 8);

/// Writes this many files and returns how many bytes they have.
pub fn write(dir: &Path, files: usize) -> u64 {
    let mut bytes = 0;
    for number in 0..files {
        let path = dir.join(path(number));
        fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
        let text = file(number, files);
        bytes += text.len() as u64;
        fs::write(path, text).expect("a file");
    }
    bytes
}

fn path(number: usize) -> String {
    format!("part-{:03}/page-{number:05}.md", number / PER_DIR)
}

fn file(number: usize, files: usize) -> String {
    let seed = scrambled(number as u64);
    let sections = SECTIONS.0 + seed % (SECTIONS.1 - SECTIONS.0 + 1);
    let head = corpus::text(number);
    let title = head.title.replace(['.', ':'], "");
    let mut text = format!(
        "---\ntitle: {title}\ntags: [part-{}, page]\nupdated: 2026-01-{:02}\n---\n\n# {title}\n\n{}\n",
        number / PER_DIR,
        seed % 28 + 1,
        head.body
    );
    for section in 0..sections {
        // Each section takes a text of the corpus that no other file has.
        let told = corpus::text(files + number * SECTIONS.1 as usize + section as usize);
        let level = if section % 3 == 2 { "###" } else { "##" };
        let _ = write!(text, "\n{level} {}\n\n{}\n", told.title.trim_end_matches('.'), told.body);
        let chosen = scrambled(seed ^ section);
        match chosen % 4 {
            0 => code(&mut text, chosen),
            1 => table(&mut text, chosen),
            2 => list(&mut text, &told.body),
            _ => links(&mut text, chosen, number, files),
        }
    }
    text
}

fn code(text: &mut String, chosen: u64) {
    let port = chosen % 60_000;
    let _ =
        write!(text, "\n```sh\nserve --port {port} --workers {} \\\n  # not a heading\n```\n", chosen % 32);
}

fn table(text: &mut String, chosen: u64) {
    text.push_str("\n| option | default |\n|---|---|\n");
    for row in 0..4 {
        let _ = writeln!(text, "| `limit-{row}` | {} |", chosen.rotate_left(row * 8) % 1000);
    }
}

fn list(text: &mut String, body: &str) {
    text.push('\n');
    for sentence in body.split(". ").take(4) {
        let _ = writeln!(text, "- {}", sentence.trim_end_matches('.'));
    }
}

fn links(text: &mut String, chosen: u64, number: usize, files: usize) {
    let other = (chosen % files as u64) as usize;
    let beside = number / PER_DIR * PER_DIR;
    let _ = write!(
        text,
        "\nSee [there](../{}) and [beside it](page-{beside:05}.md#first), or [elsewhere](https://example.com/{other}).\n",
        path(other)
    );
}
