//! The first command of the README. The demo checks every reply itself and fails if one is wrong.

use std::process::Command;

#[test]
fn the_demo_ends_well() {
    let done = Command::new(env!("CARGO_BIN_EXE_kenning")).arg("demo").output().expect("the program starts");
    let (told, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{told}\n{wrong}");
}
