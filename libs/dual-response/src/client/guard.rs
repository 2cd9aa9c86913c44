//! The rules for addresses. The address of a resource comes from a server by way of a model, so it is not
//! trusted: it could point to a machine that only this host can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::ClientError;

pub(super) struct Guard {
    /// The origins that the program itself has named.
    trusted: Vec<Url>,
    allow_private: bool,
}

impl Guard {
    pub(super) fn new(trusted: Vec<Url>, allow_private: bool) -> Self {
        Self { trusted, allow_private }
    }

    /// Whether a request may go to this URL. A host name is checked again when it is resolved.
    pub(super) fn check(&self, url: &Url) -> Result<(), ClientError> {
        let refuse = |why| Err(ClientError::UrlRefused { url: without_secrets(url), why });
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("it carries credentials");
        }
        if self.trusted.iter().any(|trusted| trusted.origin() == url.origin()) {
            return Ok(());
        }
        let (is_loopback, is_public) = match url.host() {
            None => return refuse("it has no host"),
            Some(Host::Domain(name)) => (is_localhost(name), !is_localhost(name)),
            Some(Host::Ipv4(address)) => (address.is_loopback(), is_public(address.into())),
            Some(Host::Ipv6(address)) => (address.is_loopback(), is_public(address.into())),
        };
        match url.scheme() {
            "https" => {}
            "http" if is_loopback => {}
            "http" => return refuse("only https may leave this machine"),
            _ => return refuse("it is not https"),
        }
        if !is_loopback && !is_public && !self.allow_private {
            return refuse("it is in a private network");
        }
        Ok(())
    }

    /// Whether a name may resolve to this address. The check takes place when the name is resolved and not
    /// earlier, because its owner could let it point to another address in between.
    pub(super) fn allows(&self, name: &str, address: IpAddr) -> bool {
        if self.trusted.iter().any(|trusted| trusted.host_str() == Some(name)) {
            return true;
        }
        if is_localhost(name) {
            return address.is_loopback();
        }
        is_public(address) || (self.allow_private && !address.is_loopback())
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, .., y, z] = address.segments();
    let embedded = || Ipv4Addr::from((u32::from(y) << 16) | u32::from(z));
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    match a {
        // Addresses that contain an IPv4 address: those of 6to4, and those that a network's translator
        // (NAT64) makes.
        0x2002 => is_public_v4(Ipv4Addr::from((u32::from(b) << 16) | u32::from(address.segments()[2]))),
        0x0064 => b == 0xff9b && is_public_v4(embedded()),
        0x2001 if b == 0x0db8 || b == 0 => false,
        // The only block of global addresses that is in use.
        _ => (0x2000..0x4000).contains(&a),
    }
}

fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // These calls only fail for URLs that can't have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str) -> Result<(), String> {
        let guard = Guard::new(vec![Url::parse("http://10.0.0.5:8080/resources").unwrap()], false);
        guard.check(&Url::parse(url).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn public_https_and_loopback_are_allowed() {
        for url in [
            "https://api.example.com/resources/a",
            "https://93.184.216.34/a",
            "http://127.0.0.1:3001/resources/a",
            "http://localhost:3001/a",
            "http://[::1]:3001/a",
            "https://[2606:2800:220:1::1]/a",
            "http://10.0.0.5:8080/resources/a",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn ssrf_private_addresses_are_refused() {
        for url in [
            "https://10.0.0.1/a",
            "https://172.16.3.4/a",
            "https://192.168.1.1/a",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/a",
            "https://0.0.0.0/a",
            "https://[fd00::1]/a",
            "https://[fe80::1]/a",
            "https://[::ffff:10.0.0.1]/a",
            "https://[2002:0a00:0001::1]/a",
            "https://[64:ff9b::10.0.0.1]/a",
            "https://224.0.0.1/a",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
        // An address written as one number, which the URL parser turns into an IPv4 address.
        assert!(check("https://167772161/a").is_err());
    }

    #[test]
    fn private_networks_can_be_allowed() {
        let guard = Guard::new(vec![], true);
        assert!(guard.check(&Url::parse("https://10.0.0.1/a").unwrap()).is_ok());
        assert!(guard.check(&Url::parse("http://10.0.0.1/a").unwrap()).is_err(), "but not without TLS");
        assert!(guard.allows("rows.internal", "10.0.0.1".parse().unwrap()));
        assert!(!guard.allows("rows.internal", "127.0.0.1".parse().unwrap()), "nor back to this machine");
    }

    #[test]
    fn plain_http_and_credentials_do_not_leave() {
        for url in
            ["http://api.example.com/a", "ftp://api.example.com/a", "https://me:secret@api.example.com/a"]
        {
            let error = check(url).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(check("http://10.0.0.5:9090/a").is_err(), "another port is another origin");
    }

    #[test]
    fn ssrf_names_are_checked_when_they_are_resolved() {
        let guard = Guard::new(vec![Url::parse("http://rows.internal/r").unwrap()], false);
        let allows = |name, address: &str| guard.allows(name, address.parse().unwrap());
        assert!(allows("api.example.com", "93.184.216.34"));
        assert!(!allows("api.example.com", "10.0.0.1"));
        assert!(!allows("api.example.com", "127.0.0.1"), "a name may not be pointed at this machine");
        assert!(!allows("api.example.com", "::1"));
        assert!(allows("localhost", "127.0.0.1"));
        assert!(!allows("localhost", "10.0.0.1"));
        assert!(allows("rows.internal", "10.0.0.1"), "the program named it itself");
    }
}
