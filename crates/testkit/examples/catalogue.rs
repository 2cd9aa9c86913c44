//! Writes a catalogue of patterns to try things on.
//!
//! `cargo run -p kenning-testkit --example catalogue -- DIR [MANY]`

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = PathBuf::from(arguments.next().expect("a directory to write to"));
    let many = arguments.next().map_or(300, |many| {
        many.to_str().and_then(|many| many.parse().ok()).expect("how many files to write")
    });
    for file in kenning_testkit::catalogue::catalogue(many) {
        let path = dir.join(&file.path);
        std::fs::create_dir_all(path.parent().expect("it is below the directory"))?;
        std::fs::write(path, file.bytes)?;
    }
    eprintln!("{many} files written; `kenning ingest --kind patterns` takes them in");
    Ok(())
}
