//! Which database, which store in it, and how the connection is protected: `postgres://…?sslmode=…&kenning_store=…`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::Error;

/// The store that is meant by an address which names none.
pub const DEFAULT_STORE: &str = "default";

const STORE_NAME_MAX: usize = 63;
/// How long all hosts together may take to answer a connection: less than a caller waits.
const CONNECT_MAX: Duration = Duration::from_secs(4);

/// Where a store is on a PostgreSQL server. Neither its `Debug` nor its `Display` shows the password.
#[derive(Clone)]
pub struct DatabaseUrl {
    pub(super) config: Box<tokio_postgres::Config>,
    /// The same for each of its hosts alone, in the order in which they are tried.
    pub(super) hosts: Vec<tokio_postgres::Config>,
    pub(super) store: String,
    pub(super) tls: Protection,
}

/// What `sslmode` asks for, with the meaning that PostgreSQL's own client gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// `disable`, `prefer` and `require`: the connection may be encrypted, and the server's identity is not
    /// checked.
    Unverified,
    /// `verify-ca` and `verify-full`: the certificate must be for the host, and from an authority in this file or of the system.
    Verified { authorities: Option<PathBuf> },
}

impl DatabaseUrl {
    /// Reads `postgres://user:password@host:port/database?kenning_store=NAME`, or what else libpq takes there. Of several hosts the first
    /// that takes writes is used, unless `target_session_attrs` says otherwise.
    pub fn parse(text: &str) -> Result<DatabaseUrl, Error> {
        let text = text.trim();
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err(invalid("a database is named by a URL such as postgres://user@host/database"));
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut store, mut mode, mut authorities) = (DEFAULT_STORE.to_owned(), None, None);
        let mut others: Vec<&str> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value)
                .decode_utf8()
                .map_err(|_| invalid(&format!("`{key}` of the database URL is not UTF-8")))?;
            match key {
                "kenning_store" => store = value.into_owned(),
                "sslmode" => mode = Some(value.into_owned()),
                "sslrootcert" => authorities = Some(PathBuf::from(value.into_owned())),
                _ => others.push(pair),
            }
        }
        // The parser's own words may repeat a part of the URL, and so of the password.
        let parse = |address: &str| {
            let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
            format!("{address}{query}")
                .parse::<tokio_postgres::Config>()
                .map_err(|_| invalid("the database URL can't be read; it is postgres://user@host/database"))
        };
        let mut config = parse(address)?;
        let mut hosts: Vec<tokio_postgres::Config> =
            each_host(address).iter().map(|address| parse(address)).collect::<Result<_, _>>()?;
        // Hosts that the query names are left to the parser, which tries them one after the other.
        if hosts.iter().any(|host| host.get_hosts().len() != 1) || config.get_hosts().len() != hosts.len() {
            hosts = vec![config.clone()];
        }
        let has_several = config.get_hosts().len() > 1;
        let (mode, tls) = match mode.as_deref() {
            Some("disable") => (SslMode::Disable, Protection::Unverified),
            None | Some("prefer" | "allow") => (SslMode::Prefer, Protection::Unverified),
            // As with libpq, a file of authorities makes `require` look at the certificate.
            Some("require") if authorities.is_none() => (SslMode::Require, Protection::Unverified),
            Some("require" | "verify-ca" | "verify-full") => {
                (SslMode::Require, Protection::Verified { authorities })
            }
            Some(other) => {
                return Err(invalid(&format!(
                    "there is no sslmode `{other}`; there are disable, prefer, require, verify-ca and verify-full"
                )));
            }
        };
        let share = CONNECT_MAX / hosts.len().max(1) as u32;
        for config in hosts.iter_mut().chain([&mut config]) {
            config.ssl_mode(mode);
            if config.get_connect_timeout().is_none() {
                config.connect_timeout(share);
            }
            if config.get_application_name().is_none() {
                config.application_name("kenning");
            }
            // A server that is gone without a word is found out after some seconds, not after hours.
            config.keepalives_idle(Duration::from_secs(10));
            // A standby answers too, but it may not have what was acknowledged a moment ago.
            if has_several && !others.iter().any(|pair| pair.starts_with("target_session_attrs=")) {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
        }
        DatabaseUrl { config: Box::new(config), hosts, store: String::new(), tls }.with_store(&store)
    }

    /// The same database with another store.
    pub fn with_store(self, name: &str) -> Result<DatabaseUrl, Error> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > STORE_NAME_MAX || !name.chars().all(is_name) {
            return Err(invalid(&format!(
                "`{name}` is no name of a store: use 1 to {STORE_NAME_MAX} of a-z, 0-9, `-`, `_` and `.`"
            )));
        }
        Ok(DatabaseUrl { store: name.to_owned(), ..self })
    }

    /// The name of this machine's cache directory for the store: server, database and store in characters
    /// that every file system accepts.
    pub fn file_name(&self) -> String {
        let ports = self.config.get_ports().iter().map(|port| format!("-{port}")).collect::<String>();
        let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        format!("{}{ports}-{}-{}", self.hosts(), self.database(), self.store).chars().map(keep).collect()
    }

    pub fn store(&self) -> &str {
        &self.store
    }
}

impl DatabaseUrl {
    fn hosts(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(dir) => dir.display().to_string(),
        });
        hosts.collect::<Vec<_>>().join(",")
    }

    fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }
}

/// The address for each of its hosts: of `postgres://me@a,b:6000/db` these are `postgres://me@a/db` and `postgres://me@b:6000/db`.
fn each_host(address: &str) -> Vec<String> {
    let after_scheme = address.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = address.split_at(after_scheme);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    hosts.split(',').map(|host| format!("{scheme}{user}{host}{path}")).collect()
}

fn invalid(what: &str) -> Error {
    Error::Invalid { what: what.to_owned() }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store `{}` of database `{}` at {}", self.store, self.database(), self.hosts())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_and_the_protection_are_taken_from_the_url() {
        let url = DatabaseUrl::parse(
            "postgres://me:s3cret@db.example:6000/team?kenning_store=web&sslmode=verify-full",
        )
        .expect("a good URL");
        assert_eq!(url.store(), "web");
        assert_eq!(url.tls, Protection::Verified { authorities: None });
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
        let plain = DatabaseUrl::parse("postgresql://me@localhost/team").expect("a good URL");
        assert_eq!((plain.store(), plain.tls.clone()), (DEFAULT_STORE, Protection::Unverified));
    }

    #[test]
    fn of_several_hosts_the_one_that_takes_writes_is_meant() {
        let read = |text: &str| DatabaseUrl::parse(text).expect("a good URL");
        let several = read("postgres://me:p@a,b:6000,[::1]:7000/team?kenning_store=web");
        assert_eq!(several.to_string(), "store `web` of database `team` at a,b,::1");
        let hosts: Vec<_> = several.hosts.iter().map(|host| (host.get_hosts(), host.get_ports())).collect();
        let tcp = |name: &str| Host::Tcp(name.to_owned());
        let one = |name: &str, port: u16| (vec![tcp(name)], vec![port]);
        let expected = [one("a", 5432), one("b", 6000), one("::1", 7000)];
        assert!(
            hosts.iter().zip(&expected).all(|(found, (host, port))| found.0 == host && found.1 == port),
            "{hosts:?}"
        );
        for host in &several.hosts {
            assert_eq!(host.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            assert_eq!(host.get_password(), Some(&b"p"[..]));
            assert!(host.get_connect_timeout() < Some(&Duration::from_secs(2)));
        }
        let any = read("postgres://me@a,b/team?target_session_attrs=any");
        assert_eq!(any.hosts[1].get_target_session_attrs(), TargetSessionAttrs::Any);
        let one = read("postgres://me@a/team");
        assert_eq!((one.hosts.len(), one.hosts[0].get_target_session_attrs()), (1, TargetSessionAttrs::Any));
        assert_eq!(read("postgres://me@/team?host=a,b").hosts.len(), 1);
    }

    #[test]
    fn the_password_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://me:s3cret@db.example/team").expect("a good URL");
        assert_eq!(url.to_string(), "store `default` of database `team` at db.example");
        assert!(!format!("{url:?}").contains("s3cret"));
        for bad in [
            "postgres://me:s3cret@db.example:port/x",
            "mysql://me:s3cret@x/y",
            "postgres://me:s3cret@h/d?kenning_store=A",
        ] {
            let error = DatabaseUrl::parse(bad).expect_err(bad).to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
