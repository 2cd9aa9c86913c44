//! The addresses of resources: a fixed path and a few parameters.

use kenning_model::{Id, ScopeName, TxId};
use kenning_tools::Stop;
use kenning_tools::memory::query::listing_name;
use rmcp::ErrorData;

use super::{ENTRIES, TRANSACTIONS, TRIPLES, not_found};
use crate::percent;

const URI_BYTES_MAX: usize = 1024;
const LIMIT_MAX: u64 = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uri {
    pub(crate) text: String,
    pub(super) target: ResourceTarget,
    pub(super) limit: Option<u64>,
    pub(super) cursor: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) content: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) include_suppressed: bool,
    pub(super) as_of_tx_id: Option<TxId>,
    pub(super) since_tx_id: Option<TxId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ResourceTarget {
    #[default]
    Entries,
    Entry(Id),
    Triples,
    Transactions,
}

impl Uri {
    pub(crate) fn parse(text: &str) -> Result<Uri, ErrorData> {
        if text.len() > URI_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid(text, "an address is at most 1024 bytes of printable ASCII"));
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let target = match path {
            ENTRIES => ResourceTarget::Entries,
            TRIPLES => ResourceTarget::Triples,
            TRANSACTIONS => ResourceTarget::Transactions,
            _ => {
                let id = path.strip_prefix(ENTRIES).and_then(|rest| rest.strip_prefix('/'));
                ResourceTarget::Entry(id.and_then(Id::parse).ok_or_else(|| not_found(text))?)
            }
        };
        let mut uri = Uri { text: text.to_owned(), target, ..Uri::default() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = || invalid(text, "a parameter is not valid percent-encoded text");
            // A template yields an empty value for a variable that was not given.
            if value.is_empty() {
                continue;
            }
            // Commas between tags are plain, those inside a tag are encoded, so the list is split before it
            // is decoded.
            if name == "tags" && uri.target == ResourceTarget::Entries && uri.tags.is_empty() {
                uri.tags =
                    value.split(',').map(|tag| decoded(tag).ok_or_else(bad)).collect::<Result<_, _>>()?;
                continue;
            }
            uri.set(name, decoded(value).ok_or_else(bad)?)?;
        }
        Ok(uri)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), ErrorData> {
        let number = || value.parse::<u64>().ok().filter(|number| i64::try_from(*number).is_ok());
        let fresh = match (name, self.target) {
            ("limit", _) => {
                let limit = number().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                let limit = limit.ok_or_else(|| invalid(&self.text, "`limit` is a number from 1 to 200"))?;
                self.limit.replace(limit).is_none()
            }
            ("cursor", _) => self.cursor.replace(value).is_none(),
            ("scope", _) => self.scope.replace(value).is_none(),
            ("as_of_tx_id", _) => {
                let tx = number()
                    .ok_or_else(|| invalid(&self.text, "`as_of_tx_id` is the number of a transaction"))?;
                self.as_of_tx_id.replace(TxId(tx)).is_none()
            }
            ("topic", ResourceTarget::Entries) => self.topic.replace(value).is_none(),
            ("content", ResourceTarget::Entries) => self.content.replace(value).is_none(),
            ("include_suppressed", ResourceTarget::Entries) if value == "true" => {
                !std::mem::replace(&mut self.include_suppressed, true)
            }
            ("since_tx_id", ResourceTarget::Transactions) => {
                let tx = number()
                    .ok_or_else(|| invalid(&self.text, "`since_tx_id` is the number of a transaction"))?;
                self.since_tx_id.replace(TxId(tx)).is_none()
            }
            _ => return Err(invalid(&self.text, "it has a parameter that this resource does not take")),
        };
        match fresh {
            true => Ok(()),
            false => Err(invalid(&self.text, "a parameter is given twice")),
        }
    }

    /// Names the listing without its page. A cursor is accepted only for the listing that it was made for.
    pub(super) fn listing(&self, scope: &ScopeName) -> String {
        match self.target {
            ResourceTarget::Entries => {
                let words = [self.topic.as_deref(), self.content.as_deref()];
                listing_name(scope, words, &self.tags, self.as_of_tx_id, self.include_suppressed)
            }
            target => format!("{target:?} {scope} {:?} {:?}", self.as_of_tx_id, self.since_tx_id),
        }
    }
}

fn invalid(uri: &str, what: &str) -> ErrorData {
    let shown = kenning_presentation::text::quote(uri, 200);
    super::refused(Stop::invalid(format!("can't read {shown}: {what}")), uri)
}

fn decoded(text: &str) -> Option<String> {
    let text = percent::decode(text).filter(|_| !text.contains('#'))?;
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_parsed_or_refused() {
        const ADDRESSES: [&str; 5] = [
            "knowledge://entries?topic=a%20b&tags=x,y&limit=5&include_suppressed=true&scope=acme:web",
            "knowledge://entries/K7H9M2PQX8?as_of_tx_id=42",
            "knowledge://history/transactions?since_tx_id=7&cursor=abc",
            "kenning://rows/3RECNHSRUNWTCFK6D9M25Q4MW2?offset=5&limit=3",
            "kenning://scratch/0123456789abcdef/passage-1",
        ];
        kenning_testkit::fuzz::run("address", &ADDRESSES, |input| {
            let text = String::from_utf8_lossy(input);
            if let Ok(uri) = Uri::parse(&text) {
                assert!(text.len() <= URI_BYTES_MAX && uri.limit.is_none_or(|limit| limit <= LIMIT_MAX));
            }
            let _ = crate::resources::rows::Rows::parse(&text);
            let _ = crate::resources::Watched::parse(&text);
        });
    }

    #[test]
    fn known_addresses_parse_and_all_others_are_refused() {
        let uri = Uri::parse("knowledge://entries?topic=blue%2Dgreen%20deploys&limit=7&scope=global:default");
        let uri = uri.expect("a good address");
        assert_eq!(uri.topic.as_deref(), Some("blue-green deploys"));
        assert_eq!((uri.limit, uri.scope.as_deref()), (Some(7), Some("global:default")));
        assert_eq!(
            Uri::parse("knowledge://entries/K7H9M2PQX8").map(|uri| uri.target).ok(),
            Id::parse("K7H9M2PQX8").map(ResourceTarget::Entry)
        );
        for text in [
            "",
            "knowledge:entries",
            "knowledge://entries/",
            "knowledge://entries/../graph/triples",
            "knowledge://entries/K7H9M2PQX8/x",
            "knowledge://user@entries",
            "knowledge://entries#x",
            "knowledge://entries?limit=0",
            "knowledge://entries?limit=201",
            "knowledge://entries?limit=5&limit=6",
            "knowledge://entries?since_tx_id=1",
            "knowledge://entries?topic=%zz",
            "knowledge://entries?topic=%+f",
            "knowledge://entries?topic=a%2",
            "knowledge://entries?topic=%00",
            "knowledge://entries?topic=%ff",
            "knowledge://entries?topic=é",
            "knowledge://graph/triples?topic=x",
            "file:///etc/passwd",
            &format!("knowledge://entries?topic={}", "x".repeat(1024)),
        ] {
            assert!(Uri::parse(text).is_err(), "{text}");
        }
    }
}
