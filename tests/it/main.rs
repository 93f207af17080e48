//! Tests of the whole program against scripted backends and clients, and against nginx where it can be had.
//!
//! One binary, so that it links once; a module for each topic. Every test has its own directory and ports.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails with a panic, says that it is skipped, and waits in real time"
)]

mod support;

mod balance;
mod binary_upgrade;
mod buffering;
mod differences;
mod examples;
mod experiment;
mod framing;
mod h1;
mod h2;
mod h2_end;
mod h2_faults;
mod h2_heads;
mod h2_upstream;
mod hash;
mod keepalive;
mod layers;
mod least_time;
mod limits;
mod log;
mod mapping;
mod next_upstream;
mod nodelay;
mod ocsp;
mod package_files;
mod packaged;
mod privileges;
mod proxy_protocol;
mod real_clients;
mod real_grpc;
mod reload;
mod resolver;
mod service_manager;
mod signals;
mod stream;
mod stream_preread;
mod stream_proxy;
mod stream_udp;
mod stream_udp_life;
mod timeouts;
mod tls;
mod tls_certificates;
mod tls_upstream;
mod upgrade;
