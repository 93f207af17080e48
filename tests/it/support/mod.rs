//! What the tests are made of: a program under test, scripted backends and clients, and the comparison with nginx.

pub(crate) mod backend;
pub(crate) mod cases;
pub(crate) mod client;
pub(crate) mod compare;
pub(crate) mod h2;
pub(crate) mod names;
pub(crate) mod ocsp;
pub(crate) mod ports;
pub(crate) mod seen;
pub(crate) mod subject;
pub(crate) mod tls;
pub(crate) mod udp;

pub(crate) use backend::Conn;
pub(crate) use cases::cases;
pub(crate) use client::Client;
pub(crate) use compare::{both, both_under, ours};
pub(crate) use names::with_hosts;
pub(crate) use subject::{Program, Shell, Subject};
pub(crate) use udp::Datagrams;
