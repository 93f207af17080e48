//! The number of a session (`$ssl_session_id`).

/// At most 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionId {
    bytes: [u8; 32],
    length: u8,
}

impl SessionId {
    /// None when it is longer than that.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        let length = u8::try_from(id.len()).ok()?;
        Some(Self { bytes, length })
    }

    /// Its bytes; none for a session without a number.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }

    /// The one in the first bytes of a client's greeting (RFC 8446, section 4.1.2): empty where it cannot be seen.
    pub fn of_greeting(records: &[u8]) -> Self {
        /// Of a record: its type, its version and its length; of the message: the same without the first version; then
        /// the version and 32 bytes of randomness.
        const BEFORE: usize = 5 + 4 + 2 + 32;
        let found = || {
            let length = records.get(3..5)?;
            let record = usize::from(*length.first()?) << 8 | usize::from(*length.last()?);
            let count = usize::from(*records.get(BEFORE)?);
            let is_whole = record + 5 > BEFORE + count;
            let id = records.get(BEFORE + 1..BEFORE + 1 + count)?;
            Self::new(id).filter(|_| is_whole)
        };
        found().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_in_the_first_record() {
        let greeting = |record: u8, id: &[u8]| {
            let count = u8::try_from(id.len()).unwrap();
            let start = [&[22, 3, 1, 0, record][..], &[1, 0, 0, 0, 3, 3], &[9; 32]].concat();
            [&start, &[count][..], id, &[0; 8]].concat()
        };
        let id = |bytes: &[u8]| SessionId::of_greeting(bytes).bytes().to_vec();
        assert_eq!(id(&greeting(200, b"number")), b"number");
        assert_eq!(id(&greeting(200, b"")), b"");
        assert_eq!(id(&greeting(200, &[7; 32])), [7; 32]);
        assert_eq!(id(&greeting(200, &[7; 33])), b"");
        // It goes on in another record.
        assert_eq!(id(&greeting(41, b"number")), b"");
        assert_eq!(id(&greeting(200, b"number")[..45]), b"");
        assert_eq!(id(b"\x16"), b"");
    }
}
