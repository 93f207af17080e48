//! Numbers, sizes and times as nginx writes them.
//!
//! Mirrors `core/ngx_parse.c` and `ngx_atoi`: decimal digits alone, overflow is an error, `k`, `m` (and `g` for offsets)
//! scale sizes, `y M w d h m s ms` scale times and must come in this order.

/// Digits alone (`ngx_atoi`).
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let value = text.iter().try_fold(0u64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    (value <= MAX).then_some(value)
}

/// `ngx_parse_size`: `k` and `m`.
pub(crate) fn size(text: &[u8]) -> Option<u64> {
    scaled(text, false)
}

/// `ngx_parse_offset`: `k`, `m` and `g`.
pub(crate) fn offset(text: &[u8]) -> Option<u64> {
    scaled(text, true)
}

fn scaled(text: &[u8], giga: bool) -> Option<u64> {
    let (digits, scale) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 1 << 10),
        (b'm' | b'M', digits) => (digits, 1 << 20),
        (b'g' | b'G', digits) if giga => (digits, 1 << 30),
        _ => (text, 1),
    };
    let value = number(digits)?.checked_mul(scale)?;
    (value <= MAX).then_some(value)
}

/// A time in milliseconds: `ngx_parse_time(line, 0)`; without a unit it is seconds.
pub(crate) fn milliseconds(text: &[u8]) -> Option<u64> {
    time(text, 1000)
}

/// A time in whole seconds: `ngx_parse_time(line, 1)`, which also knows years.
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    time(text, 1)
}

/// `units` a second: 1000 or 1.
fn time(text: &[u8], units: u64) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    let mut value = 0u64;
    let mut any_digit = false;
    let mut step = if units == 1 { Step::Start } else { Step::Year };
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first.is_ascii_digit() {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(first - b'0'))
                .filter(|v| *v <= MAX)?;
            any_digit = true;
            continue;
        }
        let millis = first == b'm' && rest.first() == Some(&b's');
        if millis {
            rest = rest.get(1..)?;
        }
        let (next, seconds) = unit(first, millis)?;
        if (millis && units == 1) || step >= next.limit() {
            return None;
        }
        step = next;
        let scale = if millis { 1 } else { seconds * units };
        total = total
            .checked_add(value.checked_mul(scale)?)
            .filter(|v| *v <= MAX)?;
        value = 0;
        while let Some((b' ', tail)) = rest.split_first() {
            rest = tail;
        }
    }
    let total = total.checked_add(value.checked_mul(units)?)?;
    (any_digit && total <= MAX).then_some(total)
}

/// The units of a time, in the order in which they may be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Start,
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Last,
}

impl Step {
    /// A unit may follow what is before this: a space closes the seconds too.
    fn limit(self) -> Self {
        match self {
            Self::Last => Self::Second,
            step => step,
        }
    }
}

/// A unit's place and its seconds.
fn unit(letter: u8, millis: bool) -> Option<(Step, u64)> {
    Some(match letter {
        b'y' => (Step::Year, 60 * 60 * 24 * 365),
        b'M' => (Step::Month, 60 * 60 * 24 * 30),
        b'w' => (Step::Week, 60 * 60 * 24 * 7),
        b'd' => (Step::Day, 60 * 60 * 24),
        b'h' => (Step::Hour, 60 * 60),
        b'm' if millis => (Step::Millisecond, 1),
        b'm' => (Step::Minute, 60),
        b's' => (Step::Second, 1),
        b' ' => (Step::Last, 1),
        _ => return None,
    })
}

/// `NGX_MAX_INT_T_VALUE`
const MAX: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size(b"8k"), Some(8192));
        assert_eq!(size(b"1M"), Some(1 << 20));
        assert_eq!(size(b"1g"), None);
        assert_eq!(offset(b"1g"), Some(1 << 30));
        assert_eq!(size(b""), None);
        assert_eq!(size(b"k"), None);
        assert_eq!(size(b"-1"), None);
        assert_eq!(size(b"9223372036854775807"), Some(MAX));
        assert_eq!(size(b"9223372036854775808"), None);
        assert_eq!(offset(b"9223372036854775807g"), None);
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("60", Some(60_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("1.5s", None),
            ("500ms", Some(500)),
            ("1s500ms", Some(1500)),
            ("1m1h", None),
            ("1y", None),
            ("1M", Some(2_592_000_000)),
            ("1M1M", None),
            ("", None),
            ("s", None),
            ("1 s", None),
            ("1d 2", Some(86_402_000)),
            ("10 ", Some(10_000)),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(seconds(b"1y"), Some(31_536_000));
        assert_eq!(seconds(b"1ms"), None);
        assert_eq!(seconds(b"1m"), Some(60));
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[0-9yMwdhms kKgG.-]{0,24}") {
            let text = text.as_bytes();
            let _ = (number(text), size(text), offset(text), milliseconds(text), seconds(text));
        }
    }
}
