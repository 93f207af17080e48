//! What configurations of `stream` mean.

use std::time::Duration;

use ipnet::IpNet;

use crate::{
    common::addr::Addr,
    conf::{model::*, read::tests::model_of},
    vars::{Part, SlotId, Template, VarId},
};

fn stream(text: &str) -> Stream {
    model_of(&format!("stream {{\n{text}\n}}")).stream.unwrap()
}

fn fixed(addr: &str) -> Addr {
    Addr::Inet(addr.parse().unwrap())
}

#[test]
fn defaults_are_nginx_s() {
    let stream = stream("server { listen 1; }");
    let server = &stream.servers[0];
    assert!(matches!(server.handler, StreamHandler::None));
    assert!(server.access_log.is_empty(), "no log unless asked for");
    assert!(server.access.is_empty() && server.realip.from.is_empty());
    let core = &server.core;
    assert!(core.tcp_nodelay && !core.ssl_preread && core.resolver.is_none());
    assert_eq!(core.preread_buffer_size, 16384);
    assert_eq!(core.preread_timeout, Duration::from_secs(30));
    assert_eq!(core.proxy_protocol_timeout, Duration::from_secs(30));
    assert_eq!(core.limit_conn_log_level, Level::Error);
    let proxy = &server.proxy;
    assert_eq!(proxy.connect_timeout, Duration::from_mins(1));
    assert_eq!(proxy.timeout, Duration::from_mins(10));
    assert_eq!((proxy.requests, proxy.responses), (0, None));
    assert!(proxy.next_upstream && !proxy.half_close && proxy.pass.is_none());
    assert_eq!(proxy.protocol, ProxyProtocol::Off);
    assert!(proxy.upload_rate.is_empty() && proxy.bind.is_none());
}

#[test]
fn servers_take_what_they_do_not_say_from_the_block_around_them() {
    let stream = stream(
        "proxy_timeout 5s; proxy_responses 0; proxy_bind 127.0.0.1; proxy_socket_rcvbuf 8k; tcp_nodelay off;
         resolver 127.0.0.1; error_log /e.log;
         server { listen 1; proxy_pass 127.0.0.1:2; }
         server {
            listen 2; proxy_timeout 6s; proxy_responses 7; proxy_bind off; proxy_socket_rcvbuf 0; tcp_nodelay on;
            resolver [::1]; error_log stderr;
         }",
    );
    let [one, two] = stream.servers.as_slice() else {
        panic!("two servers");
    };
    let settings = |s: &StreamServer| {
        (
            s.proxy.timeout.as_secs(),
            s.proxy.responses,
            s.proxy.bind.is_some(),
            s.proxy.socket_rcvbuf,
            s.core.tcp_nodelay,
        )
    };
    assert_eq!(settings(one), (5, Some(0), true, Some(8192), false));
    assert_eq!(settings(two), (6, Some(7), false, Some(0), true));
    let resolver = |s: &StreamServer| s.core.resolver.clone().unwrap().servers[0];
    assert_eq!(resolver(one), "127.0.0.1:53".parse().unwrap());
    assert_eq!(resolver(two), "[::1]:53".parse().unwrap());
    let target = |s: &StreamServer| s.core.error_log.as_ref().unwrap()[0].target.clone();
    let file = LogTarget::File(std::path::Path::new("/e.log").into());
    assert_eq!((target(one), target(two)), (file, LogTarget::Stderr));
}

#[test]
fn lists_are_inherited_as_a_whole() {
    let stream = stream(
        "allow 10.0.0.0/8; deny all; set_real_ip_from 10.0.0.0/8; set_real_ip_from unix:;
         log_format f $status; access_log /a.log f;
         server { listen 1; }
         server {
            listen 2; allow all; set_real_ip_from 127.0.0.1; access_log /b.log f; access_log /c.log f;
         }
         server { listen 3; access_log off; }",
    );
    let of = |value: &dyn Fn(&StreamServer) -> usize| -> Vec<usize> {
        stream.servers.iter().map(|s| value(s)).collect()
    };
    assert_eq!(of(&|s| s.access.len()), [2, 1, 2]);
    assert_eq!(of(&|s| s.access_log.len()), [1, 2, 0]);
    assert_eq!(of(&|s| s.realip.from.len()), [1, 1, 1]);
    assert_eq!(of(&|s| usize::from(s.realip.from_unix)), [1, 0, 1]);
    let net: IpNet = "127.0.0.1/32".parse().unwrap();
    assert_eq!(stream.servers[1].realip.from, [net]);
}

#[test]
fn zones_may_be_defined_after_they_are_used() {
    let stream = stream(
        "limit_conn later 3; limit_conn_zone $remote_addr zone=later:1m; limit_conn_zone $status zone=z:32k;
         server { listen 1; }
         server { listen 2; limit_conn z 4; limit_conn later 5; limit_conn_dry_run on; }",
    );
    let zones: Vec<_> = stream
        .limit_zones
        .iter()
        .map(|z| (&*z.name, z.size))
        .collect();
    assert_eq!(zones, [("later", 1 << 20), ("z", 1 << 15)]);
    assert_eq!(
        stream.limit_zones[0].key,
        Part::Var(VarId::RemoteAddr).into()
    );
    let limits = |index: usize| -> Vec<_> {
        let core = &stream.servers[index].core;
        core.limit_conn
            .iter()
            .map(|l| (l.zone, l.connections, core.limit_conn_dry_run))
            .collect()
    };
    assert_eq!(limits(0), [(0, 3, false)]);
    assert_eq!(limits(1), [(1, 4, true), (0, 5, true)]);
}

#[test]
fn handlers() {
    let stream = stream(
        "upstream u { server 127.0.0.1:1; }
         server { listen 1; proxy_pass u; }
         server { listen 2; proxy_pass 127.0.0.1:3; }
         server { listen 3; proxy_pass $ssl_preread_server_name:443; }
         server { listen 4; pass 127.0.0.1:1; }
         server { listen 5; pass unix:/s$server_port; }
         server { listen 6; set $a $protocol; set $b $a; return $b; }
         server { listen 7; proxy_pass unix:/s; return x; }",
    );
    let servers = &stream.servers;
    let upstreams: Vec<_> = stream.upstreams.iter().map(|u| &*u.name).collect();
    assert_eq!(upstreams, ["u", "127.0.0.1", "/s"]);
    assert!(stream.upstreams.iter().all(|u| u.keepalive.is_none()));
    for (server, index) in servers.iter().zip([0, 1]) {
        let Some(StreamPass::Upstream(found)) = server.proxy.pass else {
            panic!("no group");
        };
        assert_eq!(found, index);
        assert!(matches!(server.handler, StreamHandler::Proxy));
    }
    assert!(matches!(
        servers[2].proxy.pass,
        Some(StreamPass::Variable(_))
    ));
    assert!(matches!(
        &servers[3].handler,
        StreamHandler::Pass(PassAddr::Fixed(addr)) if *addr == fixed("127.0.0.1:1")
    ));
    assert!(matches!(
        servers[4].handler,
        StreamHandler::Pass(PassAddr::Variable(_))
    ));
    let slot = |n| Template::from(Part::Var(VarId::Slot(SlotId(n))));
    let assignments = &servers[5].assignments;
    assert_eq!(
        assignments[0],
        (SlotId(0), Part::Var(VarId::Protocol).into())
    );
    assert_eq!(assignments[1], (SlotId(1), slot(0)));
    assert!(matches!(&servers[5].handler, StreamHandler::Return(text) if *text == slot(1)));
    assert!(
        matches!(servers[6].handler, StreamHandler::Return(_)),
        "the last one holds"
    );
}

#[test]
fn addresses_and_names() {
    let stream = stream(
        "server { listen 127.0.0.1:90-92 so_keepalive=off; listen 93 udp; server_name a; }
         server { listen 127.0.0.1:91; listen 127.0.0.1:93; listen 93 proxy_protocol; server_name b *.c; }
         server { listen 127.0.0.1:93 udp; listen unix:/s; }",
    );
    let shown: Vec<_> = stream
        .listens
        .iter()
        .map(|l| {
            let kind = if l.options.udp { "udp" } else { "tcp" };
            let names = l.names.exact.len();
            let server = &l.default_server.name;
            format!(
                "{kind} {}<-{} {server} {names}",
                l.bind_addr, l.options.addr
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "tcp 127.0.0.1:90<-127.0.0.1:90 a 0",
            "tcp 127.0.0.1:91<-127.0.0.1:91 a 2",
            "tcp 127.0.0.1:92<-127.0.0.1:92 a 0",
            "udp 0.0.0.0:93<-127.0.0.1:93  0",
            "udp 0.0.0.0:93<-0.0.0.0:93 a 0",
            "tcp 0.0.0.0:93<-127.0.0.1:93 b 0",
            "tcp 0.0.0.0:93<-0.0.0.0:93 b 0",
            "tcp unix:/s<-unix:/s  0",
        ]
    );
    let proxied = stream.listens.iter().filter(|l| l.proxy_protocol).count();
    assert_eq!(proxied, 1);
    let found = |host: &[u8]| stream.listens[1].names.find(host).map(|(s, _)| &*s.name);
    assert_eq!(found(b"x.c"), Some("b"));
    assert_eq!((found(b"a"), found(b"c")), (Some("a"), None));
}

#[test]
fn methods_have_modes_of_their_own() {
    let stream = stream(
        "upstream a { least_time connect; server 127.0.0.1:1; }
         upstream b { least_time first_byte inflight; server 127.0.0.1:1; zone z 1m; }
         upstream c { random two least_conn; server localhost:1 max_conns=3; }",
    );
    let method = |index: usize| &stream.upstreams[index].method;
    assert!(matches!(
        method(0),
        Method::LeastTime {
            mode: LeastTimeMode::Connect,
            inflight: false
        }
    ));
    assert!(matches!(
        method(1),
        Method::LeastTime {
            mode: LeastTimeMode::FirstByte,
            inflight: true
        }
    ));
    assert!(matches!(method(2), Method::Random { two: true }));
    assert_eq!(stream.upstreams[1].zone, Some(("z".into(), 1 << 20)));
    assert_eq!(stream.upstreams[2].servers[0].max_conns, 3);
}

/// `http` and `stream` may each define what the other has or defines.
#[test]
fn the_realms_share_no_names() {
    let config = model_of(
        "stream {
            map $protocol $uri { default s; }
            upstream u { server 127.0.0.1:1; }
            log_format f $bytes_received;
            server { listen 1; set $proxy_protocol_tlv_x y; return $uri$proxy_protocol_tlv_x; }
         }
         http {
            map $uri $protocol { default h; }
            upstream u { server 127.0.0.1; }
            log_format f $request_uri;
            access_log /l.log f;
            server { return 200 $protocol$ssl_server_name; }
         }",
    );
    let (http, stream) = (config.http.unwrap(), config.stream.unwrap());
    let slots = |slots: &[Slot]| slots.iter().map(|s| s.name.to_string()).collect::<Vec<_>>();
    assert_eq!(slots(&stream.slots), ["uri", "proxy_protocol_tlv_x"]);
    assert_eq!(slots(&http.slots), ["protocol"]);
    assert_eq!((http.upstreams.len(), stream.upstreams.len()), (1, 1));
    assert!(http.upstreams[0].keepalive.is_some());
    assert_eq!(http.upstreams[0].servers[0].addrs, [fixed("127.0.0.1:80")]);
}
