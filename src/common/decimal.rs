//! Numbers as text, and read from it, without the machinery of formatting and parsing.

use std::net::Ipv4Addr;

/// Reads a decimal number as `ngx_atoi` does: digits only, and none above `i64::MAX`.
pub fn parse(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    i64::try_from(number).is_ok().then_some(number)
}

/// Appends a decimal number.
pub fn push(out: &mut Vec<u8>, number: u64) {
    push_padded(out, number, 1);
}

/// Appends seconds with three decimals.
pub fn push_seconds(out: &mut Vec<u8>, millis: u64) {
    push(out, millis / 1000);
    out.push(b'.');
    push_padded(out, millis % 1000, 3);
}

/// An IPv4 address with its dots.
pub fn ipv4<T: for<'a> From<&'a str>>(ip: Ipv4Addr) -> T {
    let mut text = String::with_capacity(15);
    for (index, octet) in ip.octets().into_iter().enumerate() {
        if index > 0 {
            text.push('.');
        }
        for (unit, digit) in [(100, octet / 100), (10, octet / 10 % 10), (1, octet % 10)] {
            if octet >= unit || unit == 1 {
                text.push(char::from(b'0' + digit));
            }
        }
    }
    T::from(&text)
}

/// Appends a decimal number of at least `width` digits.
fn push_padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while number > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["0.0.0.0", "127.0.0.1", "10.20.105.99", "255.100.250.110"] {
            assert_eq!(ipv4::<String>(text.parse().unwrap()), text);
        }
    }

    #[test]
    fn numbers_are_digits() {
        for (text, number) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("99999999999999999999", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("1a", None),
        ] {
            assert_eq!(parse(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn numbers_and_seconds() {
        let mut out = Vec::new();
        for number in [0, 7, 120, u64::MAX] {
            push(&mut out, number);
            out.push(b' ');
        }
        for millis in [0, 1, 1020, 61_234] {
            push_seconds(&mut out, millis);
            out.push(b' ');
        }
        let expected = "0 7 120 18446744073709551615 0.000 0.001 1.020 61.234 ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
