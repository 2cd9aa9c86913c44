//! Cursors: the position at which a listing continues, sealed so that nobody can forge one.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::{SignedDuration, Timestamp};
use kenning_model::TxId;
use sha2::{Digest, Sha256};

/// How long a cursor stays valid.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(1);

const VERSION: u8 = 1;
const BODY_BYTES: usize = 1 + 4 * 8 + DIGEST_BYTES;
const DIGEST_BYTES: usize = 8;
const MAC_BYTES: usize = 16;

/// Everything the next page needs: the transaction and the time that the first page was answered for, and the
/// position that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub at: TxId,
    /// When the first page was asked for. On every page the validity of entries is judged at this time.
    pub asked_at: Timestamp,
    pub issued_at: Timestamp,
    pub offset: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    #[error("the cursor is not one that this store gave out; start again without it")]
    Foreign,
    #[error("the cursor belongs to a listing with other arguments; repeat the arguments of the first page")]
    OtherListing,
    #[error("the cursor has expired (cursors live for an hour); start again without it")]
    Expired,
}

impl Cursor {
    /// Seals the cursor. `listing` names the tool and its arguments: a cursor is accepted only for the
    /// listing that it was made for.
    pub fn seal(&self, secret: &[u8; 32], listing: &str) -> String {
        let mut bytes = Vec::with_capacity(BODY_BYTES + MAC_BYTES);
        bytes.push(VERSION);
        bytes.extend(self.at.0.to_le_bytes());
        bytes.extend(self.asked_at.as_millisecond().to_le_bytes());
        bytes.extend(self.issued_at.as_millisecond().to_le_bytes());
        bytes.extend(self.offset.to_le_bytes());
        bytes.extend(digest(listing));
        let mac = mac(secret, &bytes).finalize().into_bytes();
        bytes.extend(&mac[..MAC_BYTES]);
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub fn open(text: &str, secret: &[u8; 32], listing: &str, now: Timestamp) -> Result<Cursor, CursorError> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CursorError::Foreign)?;
        let (body, seal) = bytes.split_at_checked(BODY_BYTES).ok_or(CursorError::Foreign)?;
        if seal.len() != MAC_BYTES || mac(secret, body).verify_truncated_left(seal).is_err() {
            return Err(CursorError::Foreign);
        }
        let number = |at: usize| {
            let bytes = body[1 + 8 * at..9 + 8 * at].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let moment = |at| Timestamp::from_millisecond(number(at) as i64).map_err(|_| CursorError::Foreign);
        let cursor =
            Cursor { at: TxId(number(0)), asked_at: moment(1)?, issued_at: moment(2)?, offset: number(3) };
        if body[0] != VERSION {
            return Err(CursorError::Foreign);
        }
        if body[BODY_BYTES - DIGEST_BYTES..] != digest(listing) {
            return Err(CursorError::OtherListing);
        }
        if now.duration_since(cursor.issued_at) > LIFETIME {
            return Err(CursorError::Expired);
        }
        Ok(cursor)
    }
}

fn digest(listing: &str) -> [u8; DIGEST_BYTES] {
    let hash: [u8; 32] = Sha256::digest(listing.as_bytes()).into();
    std::array::from_fn(|at| hash[at])
}

fn mac(secret: &[u8; 32], body: &[u8]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("any length will do");
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn moment(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("in range")
    }

    fn cursor() -> Cursor {
        Cursor { at: TxId(42), asked_at: moment(1000), issued_at: moment(2000), offset: 20 }
    }

    #[test]
    fn a_cursor_opens_for_its_listing_and_within_its_hour() {
        let text = cursor().seal(&SECRET, "query a");
        let open = |secret, listing, now| Cursor::open(&text, secret, listing, moment(now));
        assert_eq!(open(&SECRET, "query a", 2000 + 3600), Ok(cursor()));
        assert_eq!(open(&SECRET, "query a", 2000 + 3601), Err(CursorError::Expired));
        assert_eq!(open(&SECRET, "query b", 2000), Err(CursorError::OtherListing));
        assert_eq!(open(&[8; 32], "query a", 2000), Err(CursorError::Foreign));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'), "{text}");
    }

    #[test]
    fn every_changed_byte_and_every_length_is_refused() {
        let text = cursor().seal(&SECRET, "query a");
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("ASCII");
            assert!(Cursor::open(&changed, &SECRET, "query a", moment(2000)).is_err(), "{at}");
            assert!(Cursor::open(&text[..at], &SECRET, "query a", moment(2000)).is_err(), "{at}");
        }
    }
}
