//! A client of HTTP/2 that writes its frames byte by byte, so that it can be wrong, and reads whatever comes.

use std::{
    collections::BTreeMap,
    fmt,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use headwater::http::h2::hpack::{Decoder, Fields, Limits};

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// One connection to the program under test.
pub(crate) struct H2 {
    stream: TcpStream,
    unread: Vec<u8>,
    decoder: Decoder,
    next: u32,
    answers: BTreeMap<u32, Answer>,
    /// Code and last stream of GOAWAY.
    goaway: Option<(u32, u32)>,
    /// PING was answered.
    ponged: bool,
    /// What has been read is given back to the windows.
    pub(crate) opens_windows: bool,
}

/// What came on a stream.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    /// Names and values of the head.
    pub(crate) head: Vec<(String, String)>,
    /// Those of heads before it.
    pub(crate) early: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// Header blocks as they came.
    pub(crate) blocks: Vec<Vec<u8>>,
    /// How it ended.
    pub(crate) end: End,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// It has not ended.
    #[default]
    Open,
    /// With `END_STREAM`.
    Whole,
    /// With this code.
    Reset(u32),
    /// With the connection.
    Closed,
}

impl H2 {
    /// A connection that has said what every client says first.
    pub(crate) fn new(address: SocketAddr) -> Self {
        let mut client = Self::silent(address);
        client.raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.frame(SETTINGS, 0, 0, b"");
        client
    }

    /// A connection that has said nothing.
    pub(crate) fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            unread: Vec::new(),
            decoder: Decoder::default(),
            next: 1,
            answers: BTreeMap::new(),
            goaway: None,
            ponged: false,
            opens_windows: true,
        }
    }

    /// The other end of a connection: a backend that has said what every server says first. None when no client of HTTP/2
    /// speaks.
    pub(crate) fn serve(stream: TcpStream) -> Option<Self> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut server = Self {
            stream,
            unread: Vec::new(),
            decoder: Decoder::default(),
            next: 1,
            answers: BTreeMap::new(),
            goaway: None,
            ponged: false,
            opens_windows: true,
        };
        server.frame(SETTINGS, 0, 0, b"");
        let preface = server.take(24)?;
        preface.starts_with(b"PRI * HTTP/2.0").then_some(server)
    }

    /// Its own address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// The next request whose head comes: the number of its stream.
    pub(crate) fn accept(&mut self) -> Option<u32> {
        let next = self.next;
        let is_there = |server: &Self| {
            server
                .answers
                .range(next..)
                .next()
                .map(|(stream, _)| *stream)
        };
        self.until(|server| is_there(server).is_some());
        let stream = is_there(self)?;
        self.next = stream + 1;
        Some(stream)
    }

    /// Waits until a request has come whole.
    pub(crate) fn request(&mut self, stream: u32) -> Answer {
        self.until(|server| server.seen(stream).end != End::Open);
        self.seen(stream)
    }

    /// Sends the head of a response.
    pub(crate) fn respond(&mut self, stream: u32, fields: &[(&str, &str)], is_all: bool) {
        let flags = END_HEADERS | if is_all { END_STREAM } else { 0 };
        self.frame(HEADERS, flags, stream, &block(fields));
    }

    /// Says that streams after `last` are not looked at.
    pub(crate) fn leave(&mut self, last: u32, code: u32) {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.frame(GOAWAY, 0, 0, &payload);
    }

    /// The same connection for another thread, which sends while this one reads.
    pub(crate) fn another(&self) -> Self {
        Self {
            stream: self.stream.try_clone().unwrap(),
            unread: Vec::new(),
            decoder: Decoder::default(),
            answers: BTreeMap::new(),
            ..*self
        }
    }

    /// Sends bytes. A program that has closed already is seen when reading.
    pub(crate) fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).ok();
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.raw(frame(kind, flags, stream, payload));
    }

    /// Asks for a target; the number of the stream.
    pub(crate) fn get(&mut self, target: &str) -> u32 {
        self.ask("GET", target, &[], true)
    }

    /// Sends a head with fields besides the usual ones; `is_all`: there is no body.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        is_all: bool,
    ) -> u32 {
        let usual = [
            (":method", method),
            (":scheme", "http"),
            (":path", target),
            (":authority", "test"),
        ];
        let fields: Vec<(&str, &str)> = usual.iter().chain(fields).copied().collect();
        self.head(&fields, is_all)
    }

    /// Sends a head of these fields.
    pub(crate) fn head(&mut self, fields: &[(&str, &str)], is_all: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        let flags = END_HEADERS | if is_all { END_STREAM } else { 0 };
        self.frame(HEADERS, flags, stream, &block(fields));
        stream
    }

    /// Sends a part of a body.
    pub(crate) fn data(&mut self, stream: u32, bytes: impl AsRef<[u8]>, is_last: bool) {
        self.frame(DATA, u8::from(is_last), stream, bytes.as_ref());
    }

    /// Ends a stream with a code.
    pub(crate) fn reset(&mut self, stream: u32, code: u32) {
        self.frame(RST_STREAM, 0, stream, &code.to_be_bytes());
    }

    /// Lets the program send more.
    pub(crate) fn open_window(&mut self, stream: u32, n: u32) {
        self.frame(WINDOW_UPDATE, 0, stream, &n.to_be_bytes());
    }

    /// What comes on a stream, to its end.
    pub(crate) fn answer(&mut self, stream: u32) -> Answer {
        self.until(|client| client.seen(stream).end != End::Open);
        let mut answer = self.answers.remove(&stream).unwrap_or_default();
        if answer.end == End::Open {
            answer.end = End::Closed;
        }
        answer
    }

    /// What came on a stream up to now.
    pub(crate) fn seen(&self, stream: u32) -> Answer {
        self.answers.get(&stream).cloned().unwrap_or_default()
    }

    /// The answer to GET.
    pub(crate) fn fetch(&mut self, target: &str) -> Answer {
        let stream = self.get(target);
        self.answer(stream)
    }

    /// Reads until something holds, or the connection closes, or nothing comes; whether it holds.
    pub(crate) fn until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        while !holds(self) {
            if self.read_frame().is_none() {
                return holds(self);
            }
        }
        true
    }

    /// Code and last stream of the GOAWAY that comes.
    pub(crate) fn goaway(&mut self) -> Option<(u32, u32)> {
        self.until(|client| client.goaway.is_some());
        self.goaway
    }

    /// Whether GOAWAY has come.
    pub(crate) fn was_told(&self) -> bool {
        self.goaway.is_some()
    }

    /// Asks for a sign of life, and reads up to it.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.ponged = false;
        self.frame(PING, 0, 0, b"12345678");
        self.until(|client| client.ponged);
        self.ponged
    }

    /// Whether the program closes the connection; what comes before is read.
    pub(crate) fn is_closed(&mut self) -> bool {
        while self.read_frame().is_some() {}
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0))
            || self.stream.take_error().is_ok_and(|error| error.is_some())
    }

    fn read_frame(&mut self) -> Option<()> {
        let head = self.take(9)?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let stream = number(&head[5..]) & 0x7fff_ffff;
        let payload = self.take(len)?;
        match kind {
            DATA => {
                if self.opens_windows && len > 0 {
                    let n = u32::try_from(len).unwrap();
                    self.open_window(0, n);
                    if flags & END_STREAM == 0 {
                        self.open_window(stream, n);
                    }
                }
                self.entry(stream).body.extend(payload);
            }
            HEADERS => {
                assert!(flags & END_HEADERS != 0, "a head in one frame");
                let fields = self.decoded(&payload);
                let answer = self.entry(stream);
                answer.blocks.push(payload);
                if fields
                    .first()
                    .is_some_and(|(name, status)| name == ":status" && status.starts_with('1'))
                {
                    answer.early.extend(fields);
                } else if answer.head.is_empty() {
                    answer.head = fields;
                } else {
                    answer.trailers = fields;
                }
            }
            RST_STREAM => {
                let answer = self.entry(stream);
                if answer.end == End::Open {
                    answer.end = End::Reset(number(&payload));
                }
            }
            SETTINGS if flags & 1 == 0 => self.frame(SETTINGS, 1, 0, b""),
            PING if flags & 1 == 1 => self.ponged = true,
            GOAWAY => self.goaway = Some((number(&payload[4..]), number(&payload))),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            self.entry(stream).end = End::Whole;
        }
        Some(())
    }

    fn entry(&mut self, stream: u32) -> &mut Answer {
        self.answers.entry(stream).or_default()
    }

    fn decoded(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Fields::default();
        let limits = Limits {
            field: 1 << 20,
            total: 1 << 20,
        };
        self.decoder
            .decode(block, false, limits, &mut fields)
            .unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        let mut buffer = [0; 16384];
        while self.unread.len() < n {
            let read = self.stream.read(&mut buffer).ok().filter(|n| *n > 0)?;
            self.unread.extend_from_slice(&buffer[..read]);
        }
        let rest = self.unread.split_off(n);
        Some(std::mem::replace(&mut self.unread, rest))
    }
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.field(":status")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.iter();
        fields
            .find(|(own, _)| own == name)
            .map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Answer {
    /// With what nginx and headwater may say differently left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_masked = |name: &str| matches!(name, "server" | "date" | "etag" | "last-modified");
        let head: Vec<String> = self
            .head
            .iter()
            .filter(|(name, _)| !is_masked(name))
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        let page = self.body.starts_with(b"<html>");
        let body = match self.body.len() {
            _ if page => self.text().lines().next().unwrap_or_default().to_owned(),
            0..=4096 => self.text(),
            length => format!("{length} bytes, CRC {:08x}", crc32fast::hash(&self.body)),
        };
        let head: Vec<&String> = head
            .iter()
            .filter(|line| !(page && line.starts_with("content-length")))
            .collect();
        if !self.early.is_empty() {
            write!(f, "{:?} before ", self.early)?;
        }
        write!(f, "{head:?} {body:?} {:?} {:?}", self.trailers, self.end)
    }
}

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = len[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block in which every field is written out.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            let len = text.len();
            if len < 127 {
                bytes.push(u8::try_from(len).unwrap());
            } else {
                let rest = len - 127;
                assert!(rest < 1 << 14);
                bytes.extend([127, u8::try_from(rest & 127).unwrap() | 128]);
                bytes.push(u8::try_from(rest >> 7).unwrap());
            }
            bytes.extend(text.bytes());
        }
    }
    bytes
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().unwrap())
}
