//! The client against servers on loopback.

use std::{
    cell::RefCell,
    fmt,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    task::LocalSet,
};

use super::{
    super::{ResolveError, Resolver},
    Answer, asked, ip, response,
};
use crate::{conf::model, net::resolver::message::Kind};

/// Replies to a query, given its place in the sequence.
type Reply = Box<dyn FnMut(usize, &[u8]) -> Option<Vec<u8>>>;

/// Long enough for a slow machine, never waited out.
const LONG: Duration = Duration::from_secs(30);
const RESEND: Duration = Duration::from_millis(50);

/// A name server that answers over UDP; the queries that it saw.
async fn server(reply: Reply) -> (SocketAddr, Rc<RefCell<Vec<(String, Kind)>>>) {
    serve(UdpSocket::bind("127.0.0.1:0").await.unwrap(), reply)
}

fn serve(socket: UdpSocket, mut reply: Reply) -> (SocketAddr, Rc<RefCell<Vec<(String, Kind)>>>) {
    let addr = socket.local_addr().unwrap();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    tokio::task::spawn_local(async move {
        let mut buf = [0; 512];
        while let Ok((n, from)) = socket.recv_from(&mut buf).await {
            let count = log.borrow().len();
            log.borrow_mut().push(asked(&buf[..n]));
            if let Some(bytes) = reply(count, &buf[..n]) {
                socket.send_to(&bytes, from).await.unwrap();
            }
        }
    });
    (addr, seen)
}

/// Sockets of both kinds with one number: a free one of the one kind may be taken of the other.
async fn same_port() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()).await {
            return (socket, listener);
        }
    }
}

/// An address for `A` queries, nothing for `AAAA`.
fn one_address(query: &[u8], ttl: u32) -> Vec<u8> {
    let (name, kind) = asked(query);
    match kind {
        Kind::A => response(query, 0, &[(&name, ttl, Answer::Ip(ip("10.0.0.1")))]),
        Kind::Aaaa => response(query, 0, &[]),
    }
}

fn resolver(servers: &[SocketAddr]) -> (Rc<Resolver>, Rc<RefCell<Vec<String>>>) {
    let conf = model::Resolver {
        servers: servers.to_vec(),
        valid: None,
        ipv4: true,
        ipv6: true,
    };
    let complaints = Rc::new(RefCell::new(Vec::new()));
    let log = complaints.clone();
    let complain = Box::new(move |message: fmt::Arguments<'_>| {
        log.borrow_mut().push(message.to_string());
    });
    (Resolver::with_resend(conf, complain, RESEND), complaints)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// What [`one_address`] leads to.
fn found() -> Vec<IpAddr> {
    vec![ip("10.0.0.1")]
}

#[test]
fn one_query_for_all_who_ask() {
    run(async {
        let (addr, seen) = server(Box::new(|_, query| Some(one_address(query, 60)))).await;
        let (resolver, _) = resolver(&[addr]);
        let other = resolver.clone();
        let first = tokio::task::spawn_local(async move { other.resolve(b"X.test", LONG).await });
        let second = resolver.resolve(b"x.TEST.", LONG).await;
        assert_eq!(second, Ok(found()));
        assert_eq!(first.await.unwrap(), second);
        assert_eq!(resolver.resolve(b"x.test", LONG).await, second);
        let kinds = [Kind::A, Kind::Aaaa].map(|kind| ("x.test".to_owned(), kind));
        assert_eq!(*seen.borrow(), kinds);
    });
}

#[test]
fn the_next_server_is_asked_after_silence_and_nonsense() {
    run(async {
        let (silent, _) = server(Box::new(|_, _| None)).await;
        let (mad, _) = server(Box::new(|_, query| {
            let mut bytes = one_address(query, 60);
            bytes[0] ^= 1;
            Some(bytes)
        }))
        .await;
        let (good, _) = server(Box::new(|_, query| Some(one_address(query, 60)))).await;
        let (resolver, complaints) = resolver(&[silent, mad, good]);
        let result = resolver.resolve(b"x.test", LONG).await;
        assert_eq!(result, Ok(found()));
        let complaints = complaints.borrow();
        assert!(
            complaints
                .iter()
                .all(|line| line.starts_with("wrong ident"))
        );
        assert!(!complaints.is_empty());
    });
}

#[test]
fn a_server_that_is_not_there_is_told() {
    run(async {
        let gone = {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.local_addr().unwrap()
        };
        let (good, _) = server(Box::new(|_, query| Some(one_address(query, 60)))).await;
        let (resolver, complaints) = resolver(&[gone, good]);
        let result = resolver.resolve(b"x.test", LONG).await;
        assert_eq!(result, Ok(found()));
        let expected =
            format!("failed (111: Connection refused) while resolving, resolver: {gone}");
        let complaints = complaints.borrow();
        assert!(complaints[0].ends_with(&expected), "{complaints:?}");
    });
}

#[test]
fn errors_have_nginx_words_and_are_not_kept() {
    run(async {
        let reply = |count: usize, query: &[u8]| match count {
            0 | 1 => Some(response(query, 3, &[])),
            _ => Some(one_address(query, 60)),
        };
        let (addr, _) = server(Box::new(reply)).await;
        let (resolver, _) = resolver(&[addr]);
        let error = resolver.resolve(b"x.test", LONG).await.unwrap_err();
        assert_eq!(error.to_string(), "3: Host not found");
        let result = resolver.resolve(b"x.test", LONG).await;
        assert_eq!(result, Ok(found()));
        let bad = resolver.resolve(b"x..test", LONG).await;
        assert_eq!(bad, Err(ResolveError::Code(3)));
    });
}

#[test]
fn giving_up_ends_the_look_up() {
    run(async {
        let (addr, seen) = server(Box::new(|_, _| None)).await;
        let (resolver, _) = resolver(&[addr]);
        let error = resolver.resolve(b"x.test", RESEND / 5).await.unwrap_err();
        assert_eq!(error.to_string(), "110: Operation timed out");
        while !resolver.waiting.borrow().is_empty() {
            tokio::time::sleep(RESEND / 5).await;
        }
        assert_eq!(seen.borrow().len(), 2);
    });
}

#[test]
fn aliases_are_followed_but_not_for_ever() {
    run(async {
        let reply = |_: usize, query: &[u8]| {
            let (name, _) = asked(query);
            let alias = match &*name {
                "a.test" => Answer::Alias("x.test"),
                "b.test" => Answer::Alias("c.test"),
                "c.test" => Answer::Alias("b.test"),
                _ => return Some(one_address(query, 60)),
            };
            Some(response(query, 0, &[(&name, 60, alias)]))
        };
        let (addr, _) = server(Box::new(reply)).await;
        let (resolver, _) = resolver(&[addr]);
        let result = resolver.resolve(b"a.test", LONG).await;
        assert_eq!(result, Ok(found()));
        let endless = resolver.resolve(b"b.test", LONG).await;
        assert_eq!(endless, Err(ResolveError::Code(3)));
    });
}

#[test]
fn what_is_truncated_comes_over_tcp() {
    run(async {
        let reply = |_: usize, query: &[u8]| {
            let mut bytes = response(query, 0, &[]);
            bytes[2] |= 2;
            Some(bytes)
        };
        let (socket, listener) = same_port().await;
        let (addr, _) = serve(socket, Box::new(reply));
        tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let len = stream.read_u16().await.unwrap();
                let mut query = vec![0; len.into()];
                stream.read_exact(&mut query).await.unwrap();
                let bytes = one_address(&query, 60);
                let len = u16::try_from(bytes.len()).unwrap();
                stream.write_u16(len).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            }
        });
        let (resolver, _) = resolver(&[addr]);
        let result = resolver.resolve(b"x.test", LONG).await;
        assert_eq!(result, Ok(found()));
    });
}
