//! What buffering costs: behaviour B5.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use crate::support::{Client, Subject, both};

/// Clients that ask and do not read.
const READERS: u32 = 100;
/// So many of them ask at the same moment: fewer than a backend's queue takes.
const AT_ONCE: u32 = 25;
/// The length of a response, beyond what the sockets on the way to a client take.
const SIZE: u32 = 1 << 20;
/// What `proxy_buffer_size` and `proxy_buffers` allow a response by default, bytes.
const BUFFERS: u64 = 9 * 4096;

/// B5: however many clients stall, their upstreams are released, the responses wait in files and not in memory, and nothing
/// is lost.
#[test]
fn stalled_readers_hold_neither_upstreams_nor_memory() {
    let conf = "
        server { listen {{listen}} sndbuf=128k; location / { proxy_pass http://{{a}}; } }";
    // Bytes for each stalled reader.
    let (here, there) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let right = both(conf, |s: &mut Subject| {
        let body: Vec<u8> = (0..SIZE / 4).flat_map(u32::to_be_bytes).collect();
        let (released, wait) = mpsc::channel();
        let sent = body.clone();
        s.backend("a", move |conn| {
            conn.request();
            conn.write(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
            conn.write(&sent);
            // Without a pool the connection is closed when the response is complete.
            conn.wait_close();
            released.send(()).ok();
        });
        let wait = |count| {
            for _ in 0..count {
                wait.recv_timeout(Duration::from_secs(4))
                    .expect("the upstream is released");
            }
        };
        // What the first request needs once and for all.
        let mut right = u32::from(s.get("/").body == body);
        wait(1);
        let before = s.memory();
        let mut readers: Vec<Client> = Vec::new();
        for _ in 0..READERS / AT_ONCE {
            for _ in 0..AT_ONCE {
                let mut client = s.connect();
                client.send("GET / HTTP/1.0\r\n\r\n");
                readers.push(client);
            }
            wait(AT_ONCE);
        }
        let files = s.errors("is buffered to a temporary file", READERS as usize);
        assert!(files >= READERS as usize, "the responses wait in files");
        let each = s.memory().saturating_sub(before) / u64::from(READERS);
        let place = if s.is_nginx() { &there } else { &here };
        place.store(each, Ordering::Relaxed);
        for mut client in readers {
            right += u32::from(client.response().body == body);
        }
        right
    });
    assert_eq!(right, READERS + 1);
    let (here, there) = (here.into_inner(), there.into_inner());
    assert!(here < BUFFERS, "{here} bytes each");
    assert!(here < there, "{here} bytes each, nginx {there}");
}
