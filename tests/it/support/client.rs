//! A client that sends bytes and reads responses by their framing, or until the connection closes.

use std::{
    fmt,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// One connection to the program under test.
pub(crate) struct Client {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// It has sent something before the handshake was over, and nothing since.
    early: bool,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream,
            tls: None,
            early: false,
            unread: Vec::new(),
        }
    }

    /// Goes on in TLS with a server of this name. The error says what became of the handshake.
    pub(crate) fn secure(
        mut self,
        name: &'static str,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(name).unwrap();
        let mut tls = ClientConnection::new(config.clone(), name).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream)
                .map_err(|error| error.to_string())?;
        }
        self.tls = Some(Box::new(tls));
        Ok(self)
    }

    /// Sends `bytes` before the handshake is over, which goes on when something else is sent.
    ///
    /// # Panics
    /// When there is no session in which that is allowed.
    pub(crate) fn secure_early(
        mut self,
        name: &'static str,
        config: &Arc<ClientConfig>,
        bytes: &[u8],
    ) -> Self {
        let name = ServerName::try_from(name).unwrap();
        let mut tls = ClientConnection::new(config.clone(), name).unwrap();
        tls.early_data().unwrap().write_all(bytes).unwrap();
        while tls.wants_write() {
            tls.write_tls(&mut self.stream).unwrap();
        }
        self.early = true;
        self.tls = Some(Box::new(tls));
        self
    }

    /// Goes on with the handshake.
    pub(crate) fn finish_handshake(&mut self) {
        self.early = false;
        let tls = self.tls.as_mut().expect("it is secure");
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream).unwrap();
        }
    }

    /// Reads an answer without a word.
    fn read_early(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let tls = self.tls.as_mut().expect("it is secure");
        loop {
            match tls.reader().read(buf) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            tls.read_tls(&mut self.stream)?;
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// What was agreed on.
    pub(crate) fn tls(&self) -> &ClientConnection {
        self.tls.as_ref().expect("it is secure")
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.early {
            return self.read_early(buf);
        }
        match &mut self.tls {
            None => self.stream.read(buf),
            Some(tls) => match rustls::Stream::new(&mut **tls, &mut self.stream).read(buf) {
                // No good-bye, but an end.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }

    /// Its own address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Sends bytes. A program that has closed already is seen when reading.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.early = false;
        match &mut self.tls {
            None => self.stream.write_all(bytes.as_ref()).ok(),
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream)
                .write_all(bytes.as_ref())
                .ok(),
        };
        self
    }

    /// The same connection for another thread, which sends while this one reads.
    pub(crate) fn another(&self) -> Self {
        Self {
            stream: self.stream.try_clone().unwrap(),
            tls: None,
            early: false,
            unread: Vec::new(),
        }
    }

    /// Sends FIN and goes on reading.
    pub(crate) fn finish(&mut self) -> &mut Self {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            tls.complete_io(&mut self.stream).ok();
        }
        self.stream.shutdown(Shutdown::Write).ok();
        self
    }

    /// The next response, to anything but HEAD.
    pub(crate) fn response(&mut self) -> Response {
        self.read_response(true)
    }

    /// The next response, to HEAD.
    pub(crate) fn head(&mut self) -> Response {
        self.read_response(false)
    }

    fn read_response(&mut self, has_body: bool) -> Response {
        let mut response = Response::default();
        while let Some(end) = position(&self.unread, b"\r\n\r\n").or_else(|| self.more()) {
            if end == usize::MAX {
                continue;
            }
            let rest = self.unread.split_off(end + 4);
            let head = std::mem::replace(&mut self.unread, rest);
            response = Response::of(&head);
            break;
        }
        if response.line.is_empty() {
            response.body = std::mem::take(&mut self.unread);
            return response;
        }
        let status = response.status();
        if has_body && status >= 200 && status != 204 && status != 304 {
            self.body(&mut response);
        }
        response
    }

    fn body(&mut self, response: &mut Response) {
        if response.header("transfer-encoding") == Some("chunked") {
            response.whole = self.chunks(&mut response.body).is_some();
            return;
        }
        let length = response
            .header("content-length")
            .and_then(|value| value.parse().ok());
        let wanted = length.unwrap_or(usize::MAX);
        while self.unread.len() < wanted && self.more().is_some() {}
        response.whole = length.is_none_or(|length| self.unread.len() >= length);
        let rest = self.unread.split_off(wanted.min(self.unread.len()));
        response.body = std::mem::replace(&mut self.unread, rest);
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Option<()> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Some(());
            }
            while self.unread.len() < size + 2 {
                if self.more().is_none() {
                    body.append(&mut self.unread);
                    return None;
                }
            }
            body.extend(self.unread.drain(..size));
            self.unread.drain(..2);
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = position(&self.unread, b"\r\n") {
                let line = self.unread.drain(..end + 2).collect::<Vec<u8>>();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.more()?;
        }
    }

    /// At least `count` bytes, or what came before the end.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count && self.more().is_some() {}
        let rest = self.unread.split_off(count.min(self.unread.len()));
        std::mem::replace(&mut self.unread, rest)
    }

    /// Everything until the connection closes.
    pub(crate) fn rest(&mut self) -> String {
        while self.more().is_some() {}
        let rest = std::mem::take(&mut self.unread);
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Whether the program closes the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.read(&mut byte) {
            Ok(0) => self.unread.is_empty(),
            Err(error) => error.kind() == ErrorKind::ConnectionReset && self.unread.is_empty(),
            Ok(_) => false,
        }
    }

    /// Whether the program has closed the connection, or does so in a moment.
    pub(crate) fn is_closed_now(&mut self) -> bool {
        !self.is_idle()
    }

    /// Whether the connection stays open and silent for a moment.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.is_silent_for(30)
    }

    /// Whether nothing comes, not even the end, for so many milliseconds.
    pub(crate) fn is_silent_for(&mut self, milliseconds: u64) -> bool {
        let moment = Some(Duration::from_millis(milliseconds));
        self.stream.set_read_timeout(moment).unwrap();
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(peeked, Err(error) if is_timeout(&error))
    }

    /// Reads more; None at the end. The number means "look again".
    fn more(&mut self) -> Option<usize> {
        let mut buffer = [0; 16384];
        let read = match self.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if is_timeout(&error) => {
                panic!(
                    "nothing came for {PATIENCE:?} after {:?}",
                    String::from_utf8_lossy(&self.unread)
                )
            }
            Err(_) => 0,
        };
        self.unread.extend_from_slice(&buffer[..read]);
        (read > 0).then_some(usize::MAX)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The value of a header among lines.
pub(crate) fn header<'a>(lines: &'a [String], name: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// A response. What is shown of it is what both programs must agree on: without dates and without the program's name.
#[derive(Clone, Default)]
pub(crate) struct Response {
    /// The status line; empty when none came.
    pub(crate) line: String,
    /// The header lines.
    pub(crate) headers: Vec<String>,
    /// The body without its framing.
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end as its framing has it.
    pub(crate) whole: bool,
}

impl Response {
    fn of(head: &[u8]) -> Self {
        let head = String::from_utf8_lossy(head);
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        Self {
            line: lines.next().unwrap_or_default(),
            headers: lines.collect(),
            body: Vec::new(),
            whole: true,
        }
    }

    /// The status; 0 when the connection closed before one.
    pub(crate) fn status(&self) -> u16 {
        let number = self.line.split(' ').nth(1);
        number.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        let (body, is_page) = without_signature(&text);
        // The same page as an answer to HEAD.
        let is_page = is_page || (body.is_empty() && self.status() >= 300);
        writeln!(f, "{:?}", self.line)?;
        for line in &self.headers {
            match line.split_once(':') {
                Some((name @ ("Date" | "Server" | "Last-Modified" | "ETag"), _)) => {
                    writeln!(f, "{name}: *")?;
                }
                Some((name @ "Content-Length", _)) if is_page => writeln!(f, "{name}: *")?,
                _ => writeln!(f, "{line}")?,
            }
        }
        let end = if self.whole { "" } else { " (cut off)" };
        if body.len() > 4096 {
            let sum = crc32fast::hash(body.as_bytes());
            return write!(f, "{} bytes, CRC {sum:08x}{end}", body.len());
        }
        write!(f, "{body:?}{end}")
    }
}

/// Takes the program's name out of an error page; whether it was one.
fn without_signature(text: &str) -> (String, bool) {
    for name in [
        "nginx/1.31.3",
        "nginx",
        concat!("headwater/", env!("CARGO_PKG_VERSION")),
        "headwater",
    ] {
        let signature = format!("<center>{name}</center>");
        if text.contains(&signature) {
            return (text.replace(&signature, "<center>*</center>"), true);
        }
    }
    (text.to_owned(), false)
}
