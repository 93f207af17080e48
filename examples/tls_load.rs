//! Load of TLS 1.3 handshakes, and connections that wait.
//!
//! ```text
//! tls_load full PORT CONNS SECONDS      handshakes with a certificate: how many, p50 and p99 in microseconds, failures
//! tls_load resumed PORT CONNS SECONDS   handshakes with a ticket of the one before: the same; others count as failures
//! tls_load idle PORT CONNS SECONDS      one request each for /small, then they wait; says `ready` when they do
//! ```
//!
//! Good-bye is said after a handshake, and the end waited for: then the server has seen all of it, and its tickets are
//! there. No certificate is looked at, so that the load costs little.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a tool that prints, and measures with the real clock"
)]

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, SignatureScheme, Stream,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("tls_load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> io::Result<()> {
    let [kind, numbers @ ..] = args else {
        return Err(io::Error::other("see the head of examples/tls_load.rs"));
    };
    let numbers: Result<Vec<u16>, _> = numbers.iter().map(|text| text.parse()).collect();
    let Ok([port, conns, seconds]) = numbers.as_deref() else {
        return Err(io::Error::other(
            "port, connections and seconds are numbers",
        ));
    };
    let load = Load {
        target: SocketAddr::from(([127, 0, 0, 1], *port)),
        conns: (*conns).into(),
        time: Duration::from_secs((*seconds).into()),
    };
    match kind.as_str() {
        "full" => load.handshakes(HandshakeKind::Full),
        "resumed" => load.handshakes(HandshakeKind::Resumed),
        "idle" => load.idle(),
        _ => Err(io::Error::other("there is no such load")),
    }
}

/// What to do, and how much of it.
#[derive(Clone, Copy)]
struct Load {
    target: SocketAddr,
    conns: usize,
    time: Duration,
}

/// What one thread has done.
#[derive(Default)]
struct Done {
    /// How long each handshake took, microseconds.
    times: Vec<u128>,
    failed: usize,
}

impl Load {
    fn handshakes(self, kind: HandshakeKind) -> io::Result<()> {
        let begun = Instant::now();
        let until = begun + self.time;
        let threads: Vec<_> = (0..self.conns)
            .map(|_| thread::spawn(move || repeat(self.target, kind, until)))
            .collect();
        let mut all = Done::default();
        for thread in threads {
            let done = thread
                .join()
                .map_err(|_| io::Error::other("a thread fell"))?;
            all.times.extend(done.times);
            all.failed += done.failed;
        }
        all.times.sort_unstable();
        let part = |hundredths: usize| {
            let at = all.times.len() * hundredths / 100;
            all.times.get(at).copied().unwrap_or_default()
        };
        println!(
            "{} {} {} {}",
            all.times.len(),
            part(50),
            part(99),
            all.failed
        );
        Ok(())
    }

    fn idle(self) -> io::Result<()> {
        let config = config(false);
        let mut held = Vec::new();
        for _ in 0..self.conns {
            held.push(asked(self.target, &config)?);
        }
        println!("ready");
        thread::sleep(self.time);
        Ok(())
    }
}

/// One handshake after the other, until a time has come.
fn repeat(target: SocketAddr, kind: HandshakeKind, until: Instant) -> Done {
    let config = config(kind == HandshakeKind::Resumed);
    let mut done = Done::default();
    // Whoever resumes has to begin with a whole handshake.
    let mut is_first = kind == HandshakeKind::Resumed;
    loop {
        let start = Instant::now();
        if start >= until {
            return done;
        }
        match handshake(target, &config) {
            Ok(_) if std::mem::take(&mut is_first) => {}
            Ok(found) if found == kind => done.times.push(start.elapsed().as_micros()),
            _ => done.failed += 1,
        }
    }
}

/// Connects, goes through a handshake, and says good-bye.
fn handshake(target: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<HandshakeKind> {
    let (mut tls, mut socket) = connect(target, config)?;
    tls.complete_io(&mut socket)?;
    let kind = tls.handshake_kind();
    tls.send_close_notify();
    tls.write_tls(&mut socket)?;
    while tls.read_tls(&mut socket)? > 0 {
        tls.process_new_packets().map_err(io::Error::other)?;
    }
    // A closed port of ours is free at once: a run needs more of them than there are.
    socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
    kind.ok_or_else(|| io::Error::other("no handshake"))
}

/// A connection after its first response.
fn asked(
    target: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<(ClientConnection, TcpStream)> {
    let (mut tls, mut socket) = connect(target, config)?;
    let mut stream = Stream::new(&mut tls, &mut socket);
    stream.write_all(b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = [0; 4096];
    let n = stream.read(&mut text)?;
    if !text[..n].starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other("that is no response"));
    }
    Ok((tls, socket))
}

fn connect(
    target: SocketAddr,
    config: &Arc<ClientConfig>,
) -> io::Result<(ClientConnection, TcpStream)> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let tls = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    let socket = TcpStream::connect(target)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok((tls, socket))
}

fn config(resumes: bool) -> Arc<ClientConfig> {
    // One key exchange for all servers, which would choose differently.
    let provider = CryptoProvider {
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .expect("TLS 1.3 goes with these algorithms")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    if !resumes {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Trusts everybody and reckons nothing.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
        ]
    }
}
