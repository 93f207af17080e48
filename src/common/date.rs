//! Dates as text, and back: pure functions over seconds since 1970.
//!
//! Mirrors `ngx_http_time`, `ngx_http_cookie_time` (`core/ngx_times.c`) and `ngx_parse_http_time`
//! (`core/ngx_parse_time.c`): what nginx reads as a date is read here, what it does not is refused.

const WEEK: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const MONTH_DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// 9999-12-31 23:59:59, the last second with a year of four digits.
const LAST: i64 = 253_402_300_799;

/// A moment in some zone, by the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year, 1970 to 9999.
    pub year: u32,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Hour.
    pub hour: u32,
    /// Minute.
    pub minute: u32,
    /// Second.
    pub second: u32,
    /// Day of the week, 0 = Sunday.
    pub weekday: u32,
}

impl Civil {
    /// The calendar at `secs` after 1970; times before count as 1970, those after the year 9999 as its last second.
    pub fn from_secs(secs: i64) -> Self {
        let secs = u64::try_from(secs.clamp(0, LAST)).unwrap_or(0);
        let (days, rest) = (narrow(secs / 86400), narrow(secs % 86400));
        // Years begin in March here, so that the leap day is the last of its year; an era is 400 years.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        Self {
            year: year_of_era + era * 400 + u32::from(month <= 2),
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest % 3600 / 60,
            second: rest % 60,
            weekday: (days + 4) % 7,
        }
    }

    /// Seconds since 1970.
    fn to_secs(self) -> i64 {
        let (year, month) = if self.month > 2 {
            (self.year, self.month - 3)
        } else {
            (self.year - 1, self.month + 9)
        };
        let days = 365 * i64::from(year) + i64::from(year / 4) - i64::from(year / 100)
            + i64::from(year / 400)
            + i64::from((153 * month + 2) / 5 + self.day - 1)
            - 719_468;
        days * 86400 + i64::from(self.hour * 3600 + self.minute * 60 + self.second)
    }

    fn weekday_name(self) -> &'static [u8] {
        WEEK[self.weekday as usize % 7]
    }

    fn month_name(self) -> &'static [u8] {
        MONTHS[(self.month as usize + 11) % 12]
    }
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
pub fn http(secs: i64) -> [u8; 29] {
    let at = Civil::from_secs(secs);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[..3].copy_from_slice(at.weekday_name());
    two(&mut text[5..], at.day);
    text[8..11].copy_from_slice(at.month_name());
    four(&mut text[12..], at.year);
    time_of_day(&mut text[17..], at);
    text
}

/// `Sun, 06-Nov-94 08:49:37 GMT`; from 2038 on the year has four digits. The `expires` of a cookie.
pub fn cookie(secs: i64) -> Vec<u8> {
    let at = Civil::from_secs(secs);
    let mut text = http(secs).to_vec();
    text[7] = b'-';
    text[11] = b'-';
    if at.year <= 2037 {
        text.drain(12..14);
    }
    text
}

/// `29/Nov/2026:19:00:00 +0000`; `at` is local, `offset` its distance from GMT in minutes.
pub fn local(at: Civil, offset: i32) -> [u8; 26] {
    let mut text = *b"01/Jan/1970:00:00:00 +0000";
    two(&mut text, at.day);
    text[3..6].copy_from_slice(at.month_name());
    four(&mut text[7..], at.year);
    time_of_day(&mut text[12..], at);
    text[21] = sign(offset);
    two(&mut text[22..], offset.unsigned_abs() / 60);
    two(&mut text[24..], offset.unsigned_abs() % 60);
    text
}

/// `2026-11-29T19:00:00+00:00`; `at` is local, `offset` its distance from GMT in minutes.
pub fn iso8601(at: Civil, offset: i32) -> [u8; 25] {
    let mut text = *b"1970-01-01T00:00:00+00:00";
    four(&mut text, at.year);
    two(&mut text[5..], at.month);
    two(&mut text[8..], at.day);
    time_of_day(&mut text[11..], at);
    text[19] = sign(offset);
    two(&mut text[20..], offset.unsigned_abs() / 60);
    two(&mut text[23..], offset.unsigned_abs() % 60);
    text
}

/// `2026/11/29 19:00:00`, as in the error log.
pub fn log(at: Civil) -> [u8; 19] {
    let mut text = *b"1970/01/01 00:00:00";
    four(&mut text, at.year);
    two(&mut text[5..], at.month);
    two(&mut text[8..], at.day);
    time_of_day(&mut text[11..], at);
    text
}

/// `Nov 29 19:00:00`, as in a syslog datagram; a day below 10 has a space in front.
pub fn syslog(at: Civil) -> [u8; 15] {
    let mut text = *b"Jan  1 00:00:00";
    text[..3].copy_from_slice(at.month_name());
    two(&mut text[4..], at.day);
    if at.day < 10 {
        text[4] = b' ';
    }
    time_of_day(&mut text[7..], at);
    text
}

fn time_of_day(text: &mut [u8], at: Civil) {
    two(text, at.hour);
    two(&mut text[3..], at.minute);
    two(&mut text[6..], at.second);
}

fn two(text: &mut [u8], value: u32) {
    text[0] = digit(value / 10);
    text[1] = digit(value);
}

fn four(text: &mut [u8], value: u32) {
    two(text, value / 100);
    two(&mut text[2..], value);
}

fn digit(value: u32) -> u8 {
    b'0' + u8::try_from(value % 10).unwrap_or(0)
}

fn sign(offset: i32) -> u8 {
    if offset < 0 { b'-' } else { b'+' }
}

/// Reads a date of any of the three forms of HTTP; None when it is none.
pub fn parse_http(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|&c| c == b',' || c == b' ')?;
    let asctime = text[end] == b' ';
    let rest = trim_spaces(text.get(end + 1..)?);
    if rest.len() < 18 {
        return None;
    }
    let mut reader = Reader(rest);
    let at = if asctime {
        reader.asctime()
    } else {
        reader.rfc()
    }?;
    at.is_valid().then(|| at.to_secs())
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&c| c != b' ').unwrap_or(text.len());
    &text[start..]
}

impl Civil {
    fn is_valid(self) -> bool {
        let year = self.year;
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let last = match self.month {
            2 if leap => 29,
            month => MONTH_DAYS[month as usize - 1],
        };
        self.year > 0
            && self.day <= last
            && self.hour <= 23
            && self.minute <= 59
            && self.second <= 59
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// `10 Nov 2002 23:50:13` or `10-Dec-02 23:50:13`
    fn rfc(&mut self) -> Option<Civil> {
        let day = self.number(2)?;
        let separator = self.byte()?;
        if separator != b' ' && separator != b'-' {
            return None;
        }
        let month = self.month()?;
        self.exactly(separator)?;
        let year = if separator == b' ' {
            self.number(4)?
        } else {
            let year = self.number(2)?;
            year + if year < 70 { 2000 } else { 1900 }
        };
        self.exactly(b' ')?;
        let (hour, minute, second) = self.time()?;
        Some(Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
            weekday: 0,
        })
    }

    /// `Dec 10 23:50:13 2002`
    fn asctime(&mut self) -> Option<Civil> {
        let month = self.month()?;
        self.byte()?;
        if self.0.first() == Some(&b' ') {
            self.byte()?;
        }
        let mut day = self.number(1)?;
        if self.0.first() != Some(&b' ') {
            day = day * 10 + self.number(1)?;
        }
        self.exactly(b' ')?;
        let (hour, minute, second) = self.time()?;
        self.exactly(b' ')?;
        let year = self.number(4)?;
        Some(Civil {
            year,
            month,
            day,
            hour,
            minute,
            second,
            weekday: 0,
        })
    }

    fn time(&mut self) -> Option<(u32, u32, u32)> {
        let hour = self.number(2)?;
        self.exactly(b':')?;
        let minute = self.number(2)?;
        self.exactly(b':')?;
        Some((hour, minute, self.number(2)?))
    }

    /// The month, by as few letters as nginx looks at.
    fn month(&mut self) -> Option<u32> {
        let name = [self.byte()?, self.byte()?, self.byte()?];
        Some(match name {
            [b'J', b'a', _] => 1,
            [b'F', ..] => 2,
            [b'M', _, b'r'] => 3,
            [b'A', b'p', _] => 4,
            [b'M', ..] => 5,
            [b'J', _, b'n'] => 6,
            [b'J', ..] => 7,
            [b'A', ..] => 8,
            [b'S', ..] => 9,
            [b'O', ..] => 10,
            [b'N', ..] => 11,
            [b'D', ..] => 12,
            _ => return None,
        })
    }

    fn number(&mut self, digits: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..digits {
            match self.byte()? {
                c @ b'0'..=b'9' => value = value * 10 + u32::from(c - b'0'),
                _ => return None,
            }
        }
        Some(value)
    }

    fn exactly(&mut self, expected: u8) -> Option<()> {
        (self.byte()? == expected).then_some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_of_http() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_http(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(&http(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(cookie(784_111_777), b"Sun, 06-Nov-94 08:49:37 GMT");
        assert_eq!(cookie(4_102_444_800), b"Fri, 01-Jan-2100 00:00:00 GMT");
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "x",
            "Sun, 30 Feb 2000 00:00:00 GMT",
            "Sun, 29 Feb 1900 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Xov 1994 08:49:37 GMT",
            "Sun, 06 Nov 199x 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_http(text.as_bytes()), None, "{text}");
        }
        assert!(parse_http(b"Tue, 29 Feb 2000 00:00:00 GMT").is_some());
    }

    #[test]
    fn local_forms() {
        let at = Civil::from_secs(1_795_978_800);
        assert_eq!(&local(at, 0), b"29/Nov/2026:19:00:00 +0000");
        assert_eq!(&local(at, -570), b"29/Nov/2026:19:00:00 -0930");
        assert_eq!(&iso8601(at, 330), b"2026-11-29T19:00:00+05:30");
        assert_eq!(&log(at), b"2026/11/29 19:00:00");
        assert_eq!(&syslog(at), b"Nov 29 19:00:00");
        assert_eq!(&syslog(Civil::from_secs(0)), b"Jan  1 00:00:00");
        assert_eq!(&http(-5), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&http(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest::proptest! {
        #[test]
        fn reads_what_it_writes(secs in 0..=LAST) {
            assert_eq!(parse_http(&http(secs)), Some(secs));
        }

        #[test]
        fn any_bytes_are_a_date_or_not(text in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let _ = parse_http(&text);
        }
    }
}
