//! The first command of the README: it checks every reply itself, and fails if one is not what it should be.

use std::process::Command;

#[test]
fn the_demo_ends_well() {
    let done = Command::new(env!("CARGO_BIN_EXE_kenning")).arg("demo").output().expect("the program starts");
    let (told, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{told}\n{wrong}");
}
