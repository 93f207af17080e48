//! Load and backend for benches of TCP and UDP proxying, without a byte looked at.
//!
//! ```text
//! stream_load serve                          a backend; prints the ports `source`, `echo` and `udp`
//! stream_load bulk PORT CONNS SECONDS        reads what a source sends: bytes
//! stream_load short PORT CONNS SECONDS       connects, sends, receives, closes: connections
//! stream_load ping PORT CONNS SECONDS        round trips of 64 bytes: round trips, p50 and p99 in microseconds
//! stream_load udp PORT CONNS SECONDS         datagrams and their answers: datagrams, p50 and p99 in microseconds
//! stream_load idle PORT CONNS SECONDS        one round trip each, then connections that wait; says `ready` when they do
//! ```
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool that prints, and measures with the real clock"
)]

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    process::ExitCode,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    task::LocalSet,
};

/// What goes to and fro in a round trip, bytes.
const MESSAGE: usize = 64;
/// How long a datagram is waited for before it counts as lost.
const LOST: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be had");
    let done = LocalSet::new().block_on(&runtime, async {
        match words[..] {
            ["serve"] => serve().await,
            [what, port, conns, seconds] => {
                let number = |text: &str| text.parse::<u16>().map_err(io::Error::other);
                let load = Load {
                    target: SocketAddr::from(([127, 0, 0, 1], number(port)?)),
                    conns: number(conns)?,
                    time: Duration::from_secs(number(seconds)?.into()),
                };
                load.run(what).await
            }
            _ => Err(io::Error::other("see the head of examples/stream_load.rs")),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("stream_load: {error}");
            ExitCode::FAILURE
        }
    }
}

// The backend

async fn serve() -> io::Result<()> {
    let source = listener()?;
    let echo = listener()?;
    let udp = UdpSocket::bind(("127.0.0.1", 0)).await?;
    println!(
        "source {}\necho {}\nudp {}",
        source.local_addr()?.port(),
        echo.local_addr()?.port(),
        udp.local_addr()?.port()
    );
    tokio::task::spawn_local(accept(source, |mut stream| async move {
        let zeros = vec![0; 256 << 10];
        while stream.write_all(&zeros).await.is_ok() {}
    }));
    tokio::task::spawn_local(accept(echo, |mut stream| async move {
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buf).await {
            if stream.write_all(&buf[..n]).await.is_err() {
                break;
            }
        }
    }));
    let mut buf = vec![0; 65536];
    loop {
        if let Ok((n, from)) = udp.recv_from(&mut buf).await {
            // A full socket loses it, as a network would.
            drop(udp.try_send_to(&buf[..n], from));
        }
    }
}

fn listener() -> io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    socket.listen(4096)
}

async fn accept<F: Future<Output = ()> + 'static>(
    listener: TcpListener,
    serve: impl Fn(TcpStream) -> F,
) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            // Without it small messages still arrive.
            drop(stream.set_nodelay(true));
            tokio::task::spawn_local(serve(stream));
        }
    }
}

// The load

struct Load {
    target: SocketAddr,
    conns: u16,
    time: Duration,
}

/// What the connections of a load have done.
#[derive(Default)]
struct Counts {
    done: Cell<u64>,
    failed: Cell<u64>,
    /// Of round trips, microseconds.
    times: RefCell<Vec<u32>>,
}

impl Counts {
    fn add(&self, n: usize) {
        self.done.set(self.done.get() + n as u64);
    }

    fn took(&self, start: Instant) {
        let micros = u32::try_from(start.elapsed().as_micros()).unwrap_or(u32::MAX);
        self.times.borrow_mut().push(micros);
        self.add(1);
    }
}

impl Load {
    async fn run(&self, what: &str) -> io::Result<()> {
        let counts = Rc::new(Counts::default());
        match what {
            "bulk" => self.each(&counts, bulk).await,
            "short" => self.each(&counts, short).await,
            "ping" => self.each(&counts, ping).await,
            "udp" => self.each(&counts, udp).await,
            "idle" => return self.idle().await,
            _ => return Err(io::Error::other("no such load")),
        }
        let mut times = counts.times.borrow_mut();
        times.sort_unstable();
        let part = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or(0);
        println!(
            "{} {} {} failed {}",
            counts.done.get(),
            part(50),
            part(99),
            counts.failed.get()
        );
        Ok(())
    }

    /// Runs `work` on each connection until the time is over.
    async fn each<F: Future<Output = io::Result<()>> + 'static>(
        &self,
        counts: &Rc<Counts>,
        work: fn(SocketAddr, Rc<Counts>) -> F,
    ) {
        let tasks: Vec<_> = (0..self.conns)
            .map(|_| {
                let (counts, target) = (counts.clone(), self.target);
                tokio::task::spawn_local(async move {
                    loop {
                        if work(target, counts.clone()).await.is_err() {
                            counts.failed.set(counts.failed.get() + 1);
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(self.time).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }

    async fn idle(&self) -> io::Result<()> {
        let mut held = Vec::new();
        for _ in 0..self.conns {
            let mut stream = TcpStream::connect(self.target).await?;
            round_trip(&mut stream).await?;
            held.push(stream);
        }
        println!("ready");
        tokio::time::sleep(self.time).await;
        Ok(())
    }
}

async fn bulk(target: SocketAddr, counts: Rc<Counts>) -> io::Result<()> {
    let mut stream = TcpStream::connect(target).await?;
    let mut buf = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buf).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => counts.add(n),
        }
    }
}

async fn round_trip(stream: &mut TcpStream) -> io::Result<()> {
    let mut message = [b'x'; MESSAGE];
    stream.write_all(&message).await?;
    stream.read_exact(&mut message).await?;
    Ok(())
}

async fn short(target: SocketAddr, counts: Rc<Counts>) -> io::Result<()> {
    let mut stream = TcpStream::connect(target).await?;
    round_trip(&mut stream).await?;
    counts.add(1);
    // A closed port of ours is free at once: a run needs more of them than there are.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))
}

async fn ping(target: SocketAddr, counts: Rc<Counts>) -> io::Result<()> {
    let mut stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    loop {
        let start = Instant::now();
        round_trip(&mut stream).await?;
        counts.took(start);
    }
}

async fn udp(target: SocketAddr, counts: Rc<Counts>) -> io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
    socket.connect(target).await?;
    let mut message = [b'x'; MESSAGE];
    loop {
        let start = Instant::now();
        socket.send(&message).await?;
        match tokio::time::timeout(LOST, socket.recv(&mut message)).await {
            Ok(received) => {
                received?;
                counts.took(start);
            }
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
