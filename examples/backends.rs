//! Three backends to balance between: fast, medium and slow.
//!
//! `/` answers JSON after 10, 100 and 300 ms; `/stream` sends its first and last byte after 5 and 605, 150 and 160, 80
//! and 230 ms, so that the fastest first byte and the fastest last byte are not the same backend's; `/set?delay_ms=N`
//! changes the delay of `/`. Usage: `backends [PORT PORT PORT]`; a port of 0 takes a free one. A line per backend says
//! where it listens.
#![expect(clippy::print_stdout, reason = "the lines are what callers wait for")]

use std::{
    cell::Cell,
    convert::Infallible,
    error::Error,
    net::Ipv4Addr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use hyper::{
    Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    task::{LocalSet, spawn_local},
    time::{Sleep, sleep},
};

/// One of the three.
struct Backend {
    name: &'static str,
    delay: Cell<Duration>,
    first_byte: Duration,
    last_byte: Duration,
}

impl Backend {
    const fn new(name: &'static str, [delay, first_byte, last_byte]: [u64; 3]) -> Self {
        Self {
            name,
            delay: Cell::new(Duration::from_millis(delay)),
            first_byte: Duration::from_millis(first_byte),
            last_byte: Duration::from_millis(last_byte),
        }
    }

    async fn answer(
        self: Rc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Pieces>, Infallible> {
        let response = match request.uri().path() {
            "/set" => self.set(request.uri().query().unwrap_or_default()),
            "/stream" => {
                sleep(self.first_byte).await;
                let pause = self.last_byte.saturating_sub(self.first_byte);
                Response::new(Pieces::two(self.name, pause))
            }
            _ => {
                let delay = self.delay.get();
                sleep(delay).await;
                self.json(delay)
            }
        };
        Ok(response)
    }

    fn set(&self, query: &str) -> Response<Pieces> {
        let number = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("delay_ms="))
            .and_then(|value| value.parse().ok());
        if let Some(number) = number {
            self.delay.set(Duration::from_millis(number));
            return self.json(self.delay.get());
        }
        let mut response = Response::new(Pieces::one("delay_ms= is missing\n".to_owned()));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    }

    fn json(&self, delay: Duration) -> Response<Pieces> {
        let body = format!(
            "{{\"backend\":\"{}\",\"delay_ms\":{}}}\n",
            self.name,
            delay.as_millis()
        );
        let mut response = Response::new(Pieces::one(body));
        response.headers_mut().insert(
            hyper::header::CONTENT_TYPE,
            hyper::header::HeaderValue::from_static("application/json"),
        );
        response
    }
}

/// A body of one piece, or of two with a pause between.
struct Pieces {
    first: Option<Bytes>,
    pause: Option<Pin<Box<Sleep>>>,
    last: Bytes,
}

impl Pieces {
    fn one(text: String) -> Self {
        Self {
            first: Some(text.into()),
            pause: None,
            last: Bytes::new(),
        }
    }

    fn two(name: &str, pause: Duration) -> Self {
        Self {
            first: Some(format!("{name}: first\n").into()),
            pause: Some(Box::pin(sleep(pause))),
            last: format!("{name}: last\n").into(),
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(pause) = &mut self.pause else {
            return Poll::Ready(None);
        };
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(Some(Ok(Frame::data(self.last.clone()))))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match (&self.first, &self.pause) {
            (Some(first), None) => hyper::body::SizeHint::with_exact(first.len() as u64),
            _ => hyper::body::SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.pause.is_none()
    }
}

async fn serve(listener: TcpListener, backend: Rc<Backend>) -> Result<(), std::io::Error> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let backend = backend.clone();
        spawn_local(async move {
            let service = service_fn(|request| backend.clone().answer(request));
            // A client that goes away in the middle is no concern of a demonstration.
            http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await
                .ok();
        });
    }
}

async fn run(ports: [u16; 3]) -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    for (backend, port) in backends().into_iter().zip(ports) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        println!(
            "backend {} {} / after {} ms, /stream {} to {} ms",
            backend.name,
            listener.local_addr()?,
            backend.delay.get().as_millis(),
            backend.first_byte.as_millis(),
            backend.last_byte.as_millis()
        );
        servers.push(spawn_local(serve(listener, Rc::new(backend))));
    }
    for server in servers {
        server.await??;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut ports = [8081, 8082, 8083];
    for (port, argument) in ports.iter_mut().zip(std::env::args().skip(1)) {
        *port = argument.parse()?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, run(ports))
}

fn backends() -> [Backend; 3] {
    [
        Backend::new("a", [10, 5, 605]),
        Backend::new("b", [100, 150, 160]),
        Backend::new("c", [300, 80, 230]),
    ]
}
