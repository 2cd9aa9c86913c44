//! The console of a real process, with `kenning ui` and with `serve --http`: who is admitted, and who is not.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kenning_testkit::TempStore;
use ureq::http::{Request, Response};
use ureq::{Agent, Body};

use crate::{server, without_settings};

const ANSWER_MAX: Duration = Duration::from_secs(20);
const REVOKED_MAX: Duration = Duration::from_secs(5);

struct Console {
    child: Child,
    /// `http://127.0.0.1:PORT`
    url: String,
    /// The path of the printed address.
    path: String,
}

impl Console {
    fn ui(dir: &Path) -> Console {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
        command.args(["ui", "--no-open", "--data-dir"]).arg(dir).current_dir(dir);
        without_settings(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines().next();
        Console::at(child, &said.expect("it says where it is").expect("readable"))
    }

    fn http(dir: &Path, flags: &[&str]) -> Console {
        let mut command = server(dir);
        command.args(["--http", "127.0.0.1:0"]).args(flags);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stderr.take().expect("piped")).lines().next();
        let said = said.expect("it says where it is").expect("readable");
        let url = said.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
        Console::at(child, url.trim_end_matches("/mcp;"))
    }

    fn at(child: Child, address: &str) -> Console {
        let path = address["http://".len()..].find('/').map_or("", |at| &address["http://".len() + at..]);
        Console { child, url: address.trim_end_matches(path).to_owned(), path: path.to_owned() }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::get(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        agent().run(request.body(()).expect("a request")).expect("an answer")
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], fields: &str) -> Response<Body> {
        let mut request = Request::post(format!("{}{path}", self.url))
            .header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        agent().run(request.body(fields.to_owned()).expect("a request")).expect("an answer")
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // The process may have ended already, so errors are ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
    config.max_redirects_will_error(false).timeout_global(Some(ANSWER_MAX)).build().new_agent()
}

fn text(mut answer: Response<Body>) -> String {
    answer.body_mut().read_to_string().expect("text")
}

/// The cookie that an answer sets, as a browser sends it back.
fn cookie(answer: &Response<Body>) -> String {
    let set = answer.headers()["set-cookie"].to_str().expect("text");
    for flag in ["HttpOnly", "SameSite=Strict", "Path=/console"] {
        assert!(set.contains(flag), "{set}");
    }
    set.split(';').next().expect("a pair").to_owned()
}

/// The token that the forms of a page send back.
fn form_token(page: &str) -> String {
    let after = page.split("name=\"token\" value=\"").nth(1).expect("a form");
    after.split('"').next().expect("a token").to_owned()
}

#[test]
fn the_printed_address_lets_one_browser_in_once() {
    let store = TempStore::new();
    let console = Console::ui(store.path());
    assert_eq!(console.get("/console", &[]).status(), 401);
    assert_eq!(console.get("/?token=0000", &[]).status(), 401);
    let entered = console.get(&console.path, &[]);
    assert_eq!(
        (entered.status().as_u16(), entered.headers()["location"].to_str().ok()),
        (303, Some("/console"))
    );
    let cookie = cookie(&entered);
    assert_eq!(console.get(&console.path, &[]).status(), 401, "the token is of use once");
    let own = [("cookie", cookie.as_str())];
    let page = text(console.get("/console/new", &own));
    let token = form_token(&page);
    assert!(!page.contains(&console.path));

    let host = console.url.trim_start_matches("http://").to_owned();
    for (headers, expected) in [
        (vec![("cookie", cookie.as_str()), ("host", "evil.example")], 403),
        (vec![("cookie", cookie.as_str()), ("host", host.as_str()), ("origin", "https://evil.example")], 403),
        (vec![("cookie", cookie.as_str()), ("origin", "null")], 403),
        (vec![("cookie", "kenning-ui-1=x")], 401),
        (vec![], 401),
    ] {
        assert_eq!(console.get("/console", &headers).status().as_u16(), expected, "{headers:?}");
        assert_eq!(console.get("/console/live", &headers).status().as_u16(), expected, "{headers:?}");
        let fields = format!("token={token}&scope=global:default&content=x&topic=x");
        assert_eq!(
            console.post("/console/do/add", &headers, &fields).status().as_u16(),
            expected,
            "{headers:?}"
        );
    }
    assert_eq!(console.post("/console/do/add", &own, "content=x&topic=x").status(), 403, "no token");
    let origin = [("cookie", cookie.as_str()), ("origin", console.url.as_str())];
    let fields = format!("token={token}&scope=global:default&content=Kept&topic=Kept");
    let added = console.post("/console/do/add", &origin, &fields);
    assert_eq!(added.headers()["location"].to_str().ok(), Some("/console?done=1"));
    assert!(text(console.get("/console?done=1", &own)).contains("Kept"));
    assert_eq!(console.get("/console/assets/none.js", &[]).status(), 404);
}

fn kenning(dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kenning"));
    command.args(arguments).arg("--data-dir").arg(dir).current_dir(dir);
    let done = without_settings(&mut command).output().expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn a_key_opens_what_it_may_read_until_it_is_revoked() {
    let store = TempStore::new();
    let dir = store.path();
    for name in ["acme", "other"] {
        kenning(
            dir,
            &["call", "create_namespace", &format!(r#"{{"name":"{name}","description":"About {name}"}}"#)],
        );
    }
    kenning(dir, &["call", "store", r#"{"scope":"other:default","topic":"Hidden","content":"Hidden text"}"#]);
    let made = kenning(dir, &["token", "create", "ci", "--namespaces", "acme=read"]);
    let key = made.split_whitespace().find(|word| word.starts_with("kenning_")).expect("a key").to_owned();
    let console = Console::http(dir, &["--auth", "keys"]);

    let asked = console.get("/console/history", &[]);
    assert_eq!(
        (asked.status().as_u16(), asked.headers()["location"].to_str().ok()),
        (303, Some("/console/sign-in"))
    );
    assert_eq!(console.get("/console/live", &[]).status(), 401);
    assert_eq!(console.post("/console/do/add", &[], "content=x").status(), 401);
    let form = console.get("/console/sign-in", &[]);
    let before = cookie(&form);
    let token = form_token(&text(form));
    let sign_in = |key: &str, token: &str| {
        console.post("/console/sign-in", &[("cookie", before.as_str())], &format!("token={token}&key={key}"))
    };
    assert_eq!(sign_in(&key, "wrong").status(), 403);
    let refused = sign_in("kenning_0000000000_x", &token);
    assert_eq!(refused.status(), 401);
    assert!(text(refused).contains("This key does not hold"));
    let entered = sign_in(&key, &token);
    assert_eq!(entered.status(), 303);
    let after = cookie(&entered);
    assert_ne!(after, before, "the cookie from before the key is of no use");
    assert_eq!(console.get("/console", &[("cookie", before.as_str())]).status(), 303);

    let own = [("cookie", after.as_str())];
    let page = text(console.get("/console", &own));
    assert!(page.contains("acme") && !page.contains("other") && !page.contains("Hidden"), "{page}");
    assert!(!text(console.get("/console/search?q=hidden", &own)).contains("Hidden"));
    let fields = format!("token={}&scope=acme:default&content=x&topic=x", form_token(&page));
    assert_eq!(console.post("/console/do/add", &own, &fields).status(), 403, "the key may only read");

    let id = key.split('_').nth(1).expect("an id");
    kenning(dir, &["token", "revoke", id]);
    let since = Instant::now();
    while console.get("/console", &own).status() == 200 {
        assert!(since.elapsed() < REVOKED_MAX, "a revoked key still opens the console");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn on_loopback_without_keys_the_owner_is_known_by_a_cookie() {
    let store = TempStore::new();
    let console = Console::http(store.path(), &[]);
    let first = console.get("/console/new", &[]);
    assert_eq!(first.status(), 200);
    let cookie = cookie(&first);
    let token = form_token(&text(first));
    let fields = format!("token={token}&scope=global:default&content=Kept&topic=Kept");
    assert_eq!(console.post("/console/do/add", &[], &fields).status(), 403, "a form without its cookie");
    assert_eq!(console.get("/console", &[("origin", "https://evil.example")]).status(), 403);
    let added = console.post("/console/do/add", &[("cookie", cookie.as_str())], &fields);
    assert_eq!(added.headers()["location"].to_str().ok(), Some("/console?done=1"));
}
