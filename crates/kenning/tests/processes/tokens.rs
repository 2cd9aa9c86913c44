//! Tokens of an identity provider, and the forged tokens that an attacker might send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{hmac, signature};
use data_encoding::BASE64URL_NOPAD;
use kenning_server::client::Era;
use kenning_testkit::TempStore;
use serde_json::{Value, json};

use crate::http::{HttpClient, HttpServer, kenning, new_key};

const ISSUER: &str = "https://login.example";
const AUDIENCE: &str = "https://kenning.example/mcp";

/// An identity provider that serves its keys over HTTP.
struct Issuer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    url: String,
    served: Arc<Mutex<Value>>,
    asked: Arc<AtomicUsize>,
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

fn rsa_jwk(key: &RsaKeyPair, kid: &str) -> Value {
    let public = key.public_key();
    let n = public.modulus().big_endian_without_leading_zero().to_vec();
    let e = public.exponent().big_endian_without_leading_zero().to_vec();
    json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "n": base64(n), "e": base64(e)})
}

fn ec_jwk(key: &EcdsaKeyPair, kid: &str) -> Value {
    let point = key.public_key().as_ref();
    json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": base64(&point[1..33]), "y": base64(&point[33..65])})
}

fn new_rsa() -> RsaKeyPair {
    RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")
}

fn new_ec() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key")
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", base64(header.to_string()), base64(claims.to_string()))
}

fn by_rsa(key: &RsaKeyPair, header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let mut signed = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signed).expect("a signature");
    format!("{message}.{}", base64(signed))
}

fn by_ec(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let signed: signature::Signature =
        key.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
    format!("{message}.{}", base64(signed))
}

fn by_secret(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = unsigned(header, claims);
    let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", base64(signed))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    since.as_secs() as i64
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "client_id": "agent", "iat": now(), "exp": now() + 600,
        "scope": "openid kenning.write",
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().expect("an object").shift_remove(name);
    claims
}

fn header(kid: &str) -> Value {
    json!({"alg": "RS256", "typ": "at+jwt", "kid": kid})
}

impl Issuer {
    fn start() -> Issuer {
        let (rsa, ec) = (new_rsa(), new_ec());
        let keys = json!({"keys": [
            rsa_jwk(&rsa, "first"), ec_jwk(&ec, "ec"), {"kty": "oct", "kid": "secret", "k": base64("secret")},
            {"kty": "unheard of", "kid": "new"},
        ]});
        let (served, asked) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
        let (serving, counting) = (served.clone(), asked.clone());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.expect("a connection");
                let _ = connection.read(&mut [0; 4096]);
                counting.fetch_add(1, Ordering::SeqCst);
                let body = serving.lock().expect("no panic").to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = connection.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Issuer { rsa, ec, url, served, asked }
    }

    fn token(&self, claims: &Value) -> String {
        by_rsa(&self.rsa, &header("first"), claims)
    }

    /// Starts a server that accepts tokens of this issuer, and keys.
    fn server(&self, dir: &Path, flags: &[&str]) -> HttpServer {
        let settings = json!({"audience": AUDIENCE, "issuers": [{
            "issuer": ISSUER,
            "jwks_url": self.url,
            "name_claim": "preferred_username",
            "rights": [
                {"claim": "scope", "value": "kenning.write", "namespaces": {"acme": "share"}},
                {"claim": "scope", "value": "kenning.read", "namespaces": {"acme": "read"}},
                {"claim": "realm.roles", "value": "kenning-owner", "owner": true},
            ],
        }]});
        let file = dir.join("jwt.json");
        std::fs::write(&file, settings.to_string()).expect("writable");
        let file = file.to_str().expect("text");
        let own = ["--auth", "keys,jwt", "--jwt", file, "--public-url", "https://kenning.example"];
        HttpServer::start(dir, &[&own[..], flags].concat())
    }
}

fn store() -> TempStore {
    let store = TempStore::new();
    kenning(store.path(), &["call", "create_namespace", r#"{"name": "acme", "description": "ACME"}"#]);
    store
}

#[test]
fn what_is_no_good_token_opens_nothing() {
    let store = store();
    let issuer = Issuer::start();
    let server = issuer.server(store.path(), &[]);
    let (owner, _) = new_key(store.path(), &["owner", "--owner"]);
    let (revoked, id) = new_key(store.path(), &["gone", "--owner"]);
    kenning(store.path(), &["token", "revoke", &id]);
    let good = issuer.token(&claims());
    let other = new_rsa();
    let of = |claims: Value| issuer.token(&claims);
    let headed = |header: Value| by_rsa(&issuer.rsa, &header, &claims());
    let modulus = issuer.rsa.public_key().modulus().big_endian_without_leading_zero().to_vec();
    let jwk = rsa_jwk(&issuer.rsa, "first").to_string();
    let hs = json!({"alg": "HS256", "typ": "at+jwt", "kid": "first"});
    let embedded = json!({"alg": "RS256", "typ": "at+jwt", "kid": "mine", "jwk": rsa_jwk(&other, "mine")});
    let referred = json!({"alg": "RS256", "typ": "at+jwt", "kid": "mine", "jku": "http://127.0.0.1:9/keys"});
    let kid = |kid: &str| header(kid);
    let none = |alg: &str| format!("{}.", unsigned(&json!({"alg": alg, "typ": "at+jwt"}), &claims()));
    let cases: Vec<(&str, String)> = vec![
        ("garbage", "garbage".into()),
        ("three dots of nothing", "a.b.c".into()),
        ("expired", of(with("exp", json!(now() - 60)))),
        ("not yet valid", of(with("nbf", json!(now() + 120)))),
        ("issued in the future", of(with("iat", json!(now() + 120)))),
        ("no expiry", of(without("exp"))),
        ("an expiry that is text", of(with("exp", json!((now() + 600).to_string())))),
        ("no audience", of(without("aud"))),
        ("another audience", of(with("aud", json!("https://other.example/mcp")))),
        ("a list without the audience", of(with("aud", json!(["a", "b"])))),
        ("an audience that only begins alike", of(with("aud", json!("https://kenning.example/mcp/")))),
        ("no issuer", of(without("iss"))),
        ("another issuer", of(with("iss", json!("https://evil.example")))),
        ("an issuer with a slash", of(with("iss", json!(format!("{ISSUER}/"))))),
        ("no subject", of(without("sub"))),
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("alg nOnE with a signature", format!("{}{}", none("nOnE"), base64("x"))),
        ("the public key as a secret", by_secret(&modulus, &hs, &claims())),
        ("the public key's text as a secret", by_secret(jwk.as_bytes(), &hs, &claims())),
        (
            "a secret of the key set",
            by_secret(b"secret", &json!({"alg": "HS256", "typ": "at+jwt", "kid": "secret"}), &claims()),
        ),
        ("signed by another key", by_rsa(&other, &header("first"), &claims())),
        ("an unknown key", by_rsa(&other, &header("unknown"), &claims())),
        ("a key name that is a path", by_rsa(&other, &kid("../../../../dev/null"), &claims())),
        ("a key name that is SQL", by_rsa(&other, &kid("' UNION SELECT 'x"), &claims())),
        ("a key of its own", by_rsa(&other, &embedded, &claims())),
        ("an address of its own", by_rsa(&other, &referred, &claims())),
        (
            "an algorithm that is not allowed",
            headed(json!({"alg": "RS512", "typ": "at+jwt", "kid": "first"})),
        ),
        ("a key of another kind", headed(json!({"alg": "RS256", "typ": "at+jwt", "kid": "ec"}))),
        (
            "no key name where there are several",
            by_rsa(&other, &json!({"alg": "ES256", "typ": "at+jwt"}), &claims()),
        ),
        ("an ID token", headed(json!({"alg": "RS256", "typ": "JWT", "kid": "first"}))),
        ("no type", headed(json!({"alg": "RS256", "kid": "first"}))),
        (
            "a critical header",
            headed(json!({"alg": "RS256", "typ": "at+jwt", "kid": "first", "crit": ["x"], "x": 1})),
        ),
        ("too long", of(with("padding", json!("x".repeat(9000))))),
        ("cut off", good[..good.len() - 2].to_owned()),
        ("other claims under the signature", {
            let signature = good.rsplit_once('.').expect("signed").1;
            format!(
                "{}.{signature}",
                unsigned(&header("first"), &with("realm", json!({"roles": ["kenning-owner"]})))
            )
        }),
        ("a revoked key", revoked),
        ("a key that is cut off", owner[..owner.len() - 1].to_owned()),
    ];
    let client = HttpClient::connect(&server, Era::Modern, None);
    let arguments = json!({"topic": "forged", "content": "by nobody"});
    let write = client.message("tools/call", json!({"name": "store", "arguments": arguments}));
    let check = |case: &str, headers: &[(&str, &str)], status: u16, challenge: &str| {
        for answer in [client.post(&write, headers), server.get("/resources/x/rows", headers)] {
            assert_eq!(answer.status(), status, "{case}");
            let told = answer.headers().get("www-authenticate").map(|told| told.to_str().expect("text"));
            assert_eq!(told.unwrap_or_default(), challenge, "{case}");
        }
    };
    let place = "resource_metadata=\"https://kenning.example/.well-known/oauth-protected-resource/mcp\", \
                 scope=\"kenning.read kenning.write\"";
    check("nothing", &[], 401, &format!("Bearer {place}"));
    let wrong = format!("Bearer error=\"invalid_token\", {place}");
    for (case, token) in &cases {
        check(case, &[("authorization", &format!("Bearer {token}"))], 401, &wrong);
    }
    check("another scheme", &[("authorization", &format!("Basic {good}"))], 401, &wrong);
    let bearer = format!("Bearer {good}");
    check("two headers", &[("authorization", &bearer), ("authorization", &bearer)], 400, "");
    let insufficient = format!("Bearer error=\"insufficient_scope\", {place}");
    for scope in ["openid", "KENNING.WRITE", "kenning", "kenning.write2", ""] {
        let token = of(with("scope", json!(scope)));
        check(scope, &[("authorization", &format!("Bearer {token}"))], 403, &insufficient);
    }
    let in_query = HttpClient { url: format!("{}?access_token={good}", client.url), ..client };
    assert_eq!(in_query.post(&write, &[]).status(), 401);
    // None of these requests has run a tool.
    let page = |key: &str| {
        let mut page = server.get("/metrics", &[("authorization", &format!("Bearer {key}"))]);
        page.body_mut().read_to_string().expect("text")
    };
    assert!(!page(&owner).contains("kenning_tool_calls_total{"), "{}", page(&owner));
    // The issuer was asked for its keys at the start, and only once more for all the unknown key names.
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_good_token_opens_what_the_rules_say() {
    let store = store();
    let issuer = Issuer::start();
    let server = issuer.server(store.path(), &[]);
    let connect = |era, token: &str| HttpClient::connect(&server, era, Some(token));
    let own = ["somebody else".to_owned(), AUDIENCE.to_owned()];
    let ec_header = json!({"alg": "ES256", "typ": "application/at+jwt", "kid": "ec"});
    for token in [
        issuer.token(&with("preferred_username", json!("Alice of ACME"))),
        issuer.token(&with("aud", json!(own))),
        issuer.token(&with("exp", json!(now() - 5))),
        by_ec(&issuer.ec, &ec_header, &claims()),
    ] {
        for era in [Era::Legacy, Era::Modern] {
            let stored =
                connect(era, &token).call("store", json!({"topic": "deploys", "content": "Blue-green."}));
            assert_eq!(stored["structuredContent"]["scope"], "acme:default", "{stored}");
        }
    }
    let mut reader = connect(Era::Modern, &issuer.token(&with("scope", json!("kenning.read"))));
    assert_eq!(reader.call("query", json!({}))["structuredContent"]["total_count"], 8);
    let refused = reader.call("store", json!({"topic": "a", "content": "b"}));
    assert_eq!(refused["structuredContent"]["error"]["code"], "PERMISSION_DENIED", "{refused}");
    let history =
        reader.call("history", json!({"limit": 100, "detail": "full"}))["structuredContent"].to_string();
    assert!(history.contains("Alice of ACME") && history.contains("\"alice\""), "{history}");
    let owner = issuer.token(&with("realm", json!({"roles": ["kenning-owner"]})));
    let metrics = server.get("/metrics", &[("authorization", &format!("Bearer {owner}"))]);
    assert_eq!(metrics.status(), 200);

    // The issuer rotates its keys: the old one is not served any more.
    let rotated = new_rsa();
    *issuer.served.lock().expect("no panic") = json!({"keys": [rsa_jwk(&rotated, "second")]});
    let new = by_rsa(&rotated, &header("second"), &claims());
    assert_eq!(connect(Era::Modern, &new).call("query", json!({}))["structuredContent"]["total_count"], 8);
    let list = reader.message("tools/list", json!({}));
    assert_eq!(reader.post(&list, &[]).status(), 401, "a key that was removed is no good any more");

    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let text = server.get(path, &[]).body_mut().read_to_string().expect("text");
        let metadata: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            (&metadata["resource"], &metadata["authorization_servers"]),
            (&json!(AUDIENCE), &json!([ISSUER]))
        );
    }

    // A subscription ends with the token that opened it.
    let brief = by_rsa(&rotated, &header("second"), &with("exp", json!(now() + 2)));
    let listener = connect(Era::Modern, &brief);
    let listen = json!({"notifications": {"resourceSubscriptions": ["knowledge://entries"]}});
    let since = Instant::now();
    let stream = listener.post(&listener.message("subscriptions/listen", listen), &[]);
    assert_eq!(stream.status(), 200);
    let _ = BufReader::new(stream.into_body().into_reader()).lines().map_while(Result::ok).count();
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
}

#[test]
fn settings_for_tokens_are_checked_at_the_start() {
    let store = TempStore::new();
    let file = store.path().join("jwt.json");
    let path = file.to_str().expect("text");
    for (settings, reason) in [
        (r#"{"issuers": []}"#, "no issuer"),
        (r#"{"issuers": [{"issuer": "a", "rights": []}]}"#, "jwks_url"),
        (r#"{"issuers": [{"issuer": "a", "jwks_url": "http://login.example/keys", "rights": []}]}"#, "https"),
        (
            r#"{"issuers": [{"issuer": "a", "jwks_file": "x", "algorithms": ["HS256"], "rights": []}]}"#,
            "HS256",
        ),
        (
            r#"{"issuers": [{"issuer": "a", "jwks_file": "x", "rights": [{"claim": "a", "value": "b"}]}]}"#,
            "gives nothing",
        ),
        (r#"{"issuer": "a"}"#, "unknown field"),
    ] {
        std::fs::write(&file, settings).expect("writable");
        let flags = ["--http", "127.0.0.1:0", "--auth", "jwt", "--jwt", path];
        let done = crate::server(store.path()).args(flags).output().expect("the program runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{settings}: {said}");
        assert!(said.contains(reason), "{settings}: {said}");
    }
}
