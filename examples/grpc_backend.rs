//! A backend for benches of gRPC: answers every call with one message and status 0, over HTTP/2 without TLS. Prints its
//! port.
#![expect(clippy::print_stdout, reason = "the line is what callers wait for")]

use std::{error::Error, net::Ipv4Addr};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
};

/// Not compressed, and 100 bytes long.
const PREFIX: [u8; 5] = [0, 0, 0, 0, 100];

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    LocalSet::new().block_on(&runtime, serve())
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let message = Bytes::from([&PREFIX[..], &[b'x'; 100]].concat());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn_local(connection(stream, message.clone()));
    }
}

/// Serves one connection until its client goes, or breaks the rules.
async fn connection(stream: TcpStream, message: Bytes) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(1000);
    let Ok(mut connection) = builder.handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let message = message.clone();
        spawn_local(async move {
            // A client that has gone needs no answer.
            call(request, respond, message).await.ok();
        });
    }
}

/// Answers a call when all of it is there.
async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    message: Bytes,
) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let mut response = Response::new(());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    let mut send = respond.send_response(response, false)?;
    send.send_data(message, false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    send.send_trailers(trailers)
}
