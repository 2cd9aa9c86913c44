//! Strict decoding of percent-encoded text. The crate `percent-encoding` leaves a malformed escape unchanged;
//! this module refuses an address that contains one.

use percent_encoding::percent_decode_str;

/// The decoded text, or `None` if an escape lacks its two hexadecimal digits or the result is not UTF-8.
/// Example: `a%20b` is `a b`; `a%2`, `a%+f` and `%ff` are refused.
pub(crate) fn decode(text: &str) -> Option<String> {
    let has_digits = |escape: &str| escape.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(has_digits) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(|decoded| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn good_escapes_are_decoded_and_bad_ones_refused() {
        for (text, expected) in
            [("", ""), ("a b", "a b"), ("a%20b", "a b"), ("%C3%a9", "é"), ("%2525", "%25")]
        {
            assert_eq!(decode(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["%", "a%2", "%+f", "%-1", "% f", "%zz", "%%20", "%ff", "%é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
