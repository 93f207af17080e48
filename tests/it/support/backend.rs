//! Backends whose behaviour is a closure per connection.

use std::{
    fmt,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{client, h2::H2};

/// A request as a backend got it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The backend's name.
    pub(crate) to: String,
    /// The request line.
    pub(crate) line: String,
    /// The header lines, as sent.
    pub(crate) headers: Vec<String>,
    /// The body, without its framing.
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        client::header(&self.headers, name)
    }

    /// The path and the arguments of the request line.
    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

impl fmt::Debug for Request {
    /// With the headers sorted: since 1.31.4 nginx sends Host first, and so do we.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut headers = self.headers.clone();
        headers.sort();
        let body = match self.body.len() {
            length @ 0..=4096 => String::from_utf8_lossy(&self.body[..length]).into_owned(),
            length => format!("{length} bytes, CRC {:08x}", crc32fast::hash(&self.body)),
        };
        write!(f, "{}: {} {headers:#?} {body:?}", self.to, self.line)
    }
}

/// What all backends of a subject have received, in order.
pub(crate) type Received = Arc<Mutex<Vec<Request>>>;

/// One accepted connection.
pub(crate) struct Conn {
    stream: TcpStream,
    unread: Vec<u8>,
    name: String,
    received: Received,
    /// How many connections this backend accepted before.
    pub(crate) number: usize,
    /// How many requests were read from this connection.
    pub(crate) requests: usize,
}

impl Conn {
    /// Speaks HTTP/2 from now on; None when the peer does not.
    pub(crate) fn h2(&self) -> Option<H2> {
        H2::serve(self.stream.try_clone().unwrap())
    }

    /// The next request with its body; None when the peer closed.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let mut request = self.head()?;
        request.body = if let Some(length) = request.header("content-length") {
            let length = length.parse().ok()?;
            self.exactly(length)?
        } else if request.header("transfer-encoding").is_some() {
            self.chunked()?
        } else {
            Vec::new()
        };
        self.requests += 1;
        self.received.lock().unwrap().push(request.clone());
        Some(request)
    }

    /// The next request's head alone.
    pub(crate) fn head(&mut self) -> Option<Request> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
        Some(Request {
            to: self.name.clone(),
            line: lines.next()?,
            headers: lines.collect(),
            body: Vec::new(),
        })
    }

    /// Answers every request with `response` until the peer closes.
    pub(crate) fn answer_all(&mut self, response: impl AsRef<[u8]>) {
        while self.request().is_some() {
            self.write(response.as_ref());
        }
    }

    /// Notes something among what the backends got.
    pub(crate) fn note(&mut self, text: impl AsRef<[u8]>) {
        let request = Request {
            to: self.name.clone(),
            line: String::from_utf8_lossy(text.as_ref()).into_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        self.received.lock().unwrap().push(request);
    }

    /// Sends everything back until the peer closes.
    pub(crate) fn echo(&mut self) {
        while let Some(bytes) = self.bytes() {
            self.write(bytes);
        }
    }

    /// Everything until the peer closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.more().is_some() {}
        std::mem::take(&mut self.unread)
    }

    /// Sends bytes; a peer that is gone is none of the backend's business.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).ok();
    }

    /// The time that an answer takes.
    #[expect(clippy::unused_self, reason = "it reads as what the connection does")]
    pub(crate) fn pause(&self, milliseconds: u64) {
        thread::sleep(Duration::from_millis(milliseconds));
    }

    /// Sends FIN and goes on reading.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// Lets the connection close with a reset when the script ends.
    pub(crate) fn reset(&mut self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Waits until the peer has closed.
    pub(crate) fn wait_close(&mut self) {
        while self.more().is_some() {}
    }

    /// Bytes that are no request: what has arrived, at least one; None when the peer closed.
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        if self.unread.is_empty() {
            self.more()?;
        }
        Some(std::mem::take(&mut self.unread))
    }

    fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 16384];
        let read = self.stream.read(&mut buffer).ok().filter(|&n| n > 0)?;
        self.unread.extend_from_slice(&buffer[..read]);
        Some(())
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.unread.windows(end.len()).position(|w| w == end) {
                return self.exactly(at + end.len());
            }
            self.more()?;
        }
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.unread.len() < length {
            self.more()?;
        }
        let rest = self.unread.split_off(length);
        Some(std::mem::replace(&mut self.unread, rest))
    }

    fn chunked(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.until(b"\r\n")?).ok()?;
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let chunk = self.exactly(size + 2)?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
}

/// Serves `listener` with a thread per connection, for as long as the test runs.
pub(crate) fn serve(
    name: &str,
    listener: TcpListener,
    received: Received,
    script: impl Fn(&mut Conn) + Send + Sync + 'static,
) {
    let name = name.to_owned();
    let script = Arc::new(script);
    let count = AtomicUsize::new(0);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nodelay(true).unwrap();
            let script = script.clone();
            let mut conn = Conn {
                stream,
                unread: Vec::new(),
                name: name.clone(),
                received: received.clone(),
                number: count.fetch_add(1, Ordering::Relaxed),
                requests: 0,
            };
            thread::spawn(move || script(&mut conn));
        }
    });
}
