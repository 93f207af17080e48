//! Header fields on their way into the library's map, towards clients and towards upstreams.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::h1::{headers::Headers, known::Known};

/// Fields that are being collected: the values share one buffer.
#[derive(Default)]
pub(in crate::http) struct Fields {
    values: Vec<u8>,
    ends: Vec<(HeaderName, usize)>,
}

/// The same, complete: a map of them can be made more than once.
#[derive(Debug)]
pub(in crate::http) struct Frozen {
    values: Bytes,
    ends: Vec<(HeaderName, usize)>,
}

impl Fields {
    /// None, and room for as many as there mostly are.
    pub(in crate::http) fn new() -> Self {
        Self {
            values: Vec::with_capacity(256),
            ends: Vec::with_capacity(12),
        }
    }

    /// Adds a field.
    pub(in crate::http) fn add(&mut self, name: HeaderName, value: &[u8]) {
        self.add_with(name, |values| values.extend_from_slice(value));
    }

    /// Adds a field whose value `write` appends.
    pub(in crate::http) fn add_with(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.values);
        self.ends.push((name, self.values.len()));
    }

    /// Adds a field by its name as text. A name that is none cannot be said, and what is about a connection is not.
    pub(in crate::http) fn add_named(&mut self, known: Known, name: &[u8], value: &[u8]) {
        if !is_of_connection(known, name)
            && let Ok(name) = HeaderName::from_bytes(name)
        {
            self.add(name, value);
        }
    }

    /// Adds all of `headers` that can be said.
    pub(super) fn add_all(&mut self, headers: &Headers) {
        for (known, name, value) in headers.iter() {
            self.add_named(known, name, value);
        }
    }

    /// No field follows.
    pub(in crate::http) fn freeze(self) -> Frozen {
        Frozen {
            values: Bytes::from(self.values),
            ends: self.ends,
        }
    }
}

impl Frozen {
    /// The map, and how many bytes the fields would be as text.
    // DIFFERS(head-bytes): nginx counts the compressed bytes, which the library does not tell.
    pub(in crate::http) fn map(&self) -> (u64, HeaderMap) {
        let mut map = HeaderMap::with_capacity(self.ends.len());
        let (mut start, mut size) = (0, 0);
        for (name, end) in &self.ends {
            let value = HeaderValue::from_maybe_shared(self.values.slice(start..*end));
            start = *end;
            // Control characters cannot be said.
            if let Ok(value) = value {
                size += name.as_str().len() + value.len() + 4;
                map.append(name.clone(), value);
            }
        }
        (size as u64 + 9, map)
    }
}

/// Fields that mean something to the other end of a connection of HTTP/1 only. A client ends a stream that has one.
// DIFFERS(hop-fields): nginx passes on what an upstream says in `Proxy-Connection` and `TE`.
pub(in crate::http) fn is_of_connection(known: Known, name: &[u8]) -> bool {
    matches!(
        known,
        Known::Connection | Known::KeepAlive | Known::TransferEncoding | Known::Upgrade | Known::Te
    ) || name.eq_ignore_ascii_case(b"proxy-connection")
}
