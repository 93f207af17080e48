//! The PROXY protocol in front of connections.

use crate::support::{Subject, both};

const CONF: &str = "
    server { listen {{listen}} proxy_protocol;
        set_real_ip_from 127.0.0.0/8; real_ip_header proxy_protocol;
        location / {
            return 200 '$remote_addr $proxy_protocol_addr:$proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port $proxy_protocol_tlv_alpn';
        }
        location /real {
            return 200 '$remote_addr:$remote_port $realip_remote_addr $pipe';
        }
        location /odd { return 200 $proxy_protocol_tlv_odd; }
    }";

/// A header of version 2 with an address of each side and one fact.
const VERSION_2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11\xc0\0\x02\x01\xc0\0\x02\x02\0\x7b\x16\x2e\x01\0\x02h2";

fn ask(s: &Subject, header: &[u8], targets: &[&str]) -> Vec<String> {
    let mut client = s.connect();
    client.send(header);
    let mut texts = Vec::new();
    for target in targets {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        texts.push(client.response().text());
    }
    texts
}

#[test]
fn clients_are_who_the_proxy_says() {
    let texts = both(CONF, |s: &mut Subject| {
        let version_1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n";
        let targets = ["/", "/real", "/odd"];
        [
            ask(s, version_1, &targets),
            ask(s, b"PROXY TCP6 2001:Db8::1 ::2 1 2\r\n", &targets),
            ask(s, b"PROXY UNKNOWN\r\n", &["/odd"]),
            ask(s, VERSION_2, &targets),
        ]
    });
    assert_eq!(texts[0][1], "192.0.2.1:123 127.0.0.1 .");
    assert!(texts[3][0].ends_with("192.0.2.1:123 192.0.2.2:5678 h2"));
}

/// nginx waits for no second part of a header.
#[test]
fn without_a_header_the_connection_is_closed() {
    both(CONF, |s: &mut Subject| {
        let mut lines = Vec::new();
        for bytes in [
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "PROXY TCP4 1.1.1.1 x 1 1\r\n",
        ] {
            let mut client = s.connect();
            assert_eq!(client.send(bytes).rest(), "");
            lines.push(s.error(&format!("broken header: \"{}", &bytes[..9])));
        }
        lines
    });
}
