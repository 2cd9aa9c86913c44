//! The two kinds of identifiers in the log: a random id for each record, and a consecutive number for each
//! transaction.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Ten characters that people can read out to each other: without `0`, `1`, `I` and `O`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Id([u8; Id::LEN]);

impl Id {
    pub const LEN: usize = 10;
    pub const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

    /// The id of zero bits; reserved for the built-in namespace.
    pub const SMALLEST: Id = Id([Id::ALPHABET[0]; Id::LEN]);

    /// Makes an id from the lowest 50 bits, five for each character.
    pub fn from_bits(bits: u64) -> Id {
        Id(std::array::from_fn(|at| Id::ALPHABET[(bits >> (5 * at)) as usize & 31]))
    }

    /// The bits from which `from_bits` makes this id.
    pub fn bits(&self) -> u64 {
        let value = |byte: &u8| Id::ALPHABET.iter().position(|known| known == byte).unwrap_or(0) as u64;
        self.0.iter().rev().fold(0, |bits, byte| bits << 5 | value(byte))
    }

    /// `None` if the text has another form; readers treat that like an unknown id.
    pub fn parse(text: &str) -> Option<Id> {
        let bytes: [u8; Id::LEN] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(|byte| Id::ALPHABET.contains(byte)).then_some(Id(bytes))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the alphabet is ASCII")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Id, String> {
        Id::parse(&text).ok_or_else(|| format!("`{text}` is not an id"))
    }
}

impl From<Id> for String {
    fn from(id: Id) -> String {
        id.as_str().to_owned()
    }
}

/// The number of a transaction: 1, 2, 3, ... in the order of commits. 0 stands for the empty store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TxId(pub u64);

impl TxId {
    pub const EMPTY: TxId = TxId(0);

    pub fn next(self) -> TxId {
        TxId(self.0 + 1)
    }
}

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TxId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<TxId, Self::Err> {
        text.parse().map(TxId)
    }
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn an_id_prints_as_it_parses_and_other_forms_do_not_parse() {
        let id = Id::from_bits(0x3_1415_9265_3589);
        assert_eq!(Id::parse(id.as_str()), Some(id));
        for text in ["", "K7H9M2PQX", "K7H9M2PQX88", "K7H9M2PQX0", "k7h9m2pqx8", "K7H9M2PQé"] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }
}
