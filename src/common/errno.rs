//! System errors as nginx writes them: `111: Connection refused`.

use std::{fmt, io};

/// Shows an I/O error as nginx does inside the brackets of a message: the number, a colon, the system's text.
#[derive(Clone, Copy, Debug)]
pub struct Errno<'a>(pub &'a io::Error);

impl fmt::Display for Errno<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let Some(code) = self.0.raw_os_error() else {
            return f.write_str(&text);
        };
        let plain = text
            .strip_suffix(&format!(" (os error {code})"))
            .unwrap_or(&text);
        write!(f, "{code}: {plain}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_text() {
        let refused = io::Error::from_raw_os_error(111);
        assert_eq!(Errno(&refused).to_string(), "111: Connection refused");
        let own = io::Error::other("odd");
        assert_eq!(Errno(&own).to_string(), "odd");
    }
}
