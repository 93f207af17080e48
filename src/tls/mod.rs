//! TLS as a configuration describes it: certificates, versions, ciphers and tickets, made into what rustls takes.
//!
//! No socket is here: the bytes of a connection are [`crate::net::TlsIo`]'s business. Contexts are made by the master, who
//! can read the keys. Mirrors `event/ngx_event_openssl.c` where it is about an `SSL_CTX`.

mod cache;
mod certificate;
mod certificates;
mod ciphers;
mod client;
mod client_auth;
mod compress;
mod contexts;
mod greeting;
mod keyring;
mod names;
mod notes;
mod objects;
pub mod ocsp;
mod pem;
mod sealed;
mod server;
mod session_id;
mod sessions;
mod tickets;
mod trusted;
mod vars;
mod verify;
mod words;

pub use certificates::rendered;
pub use ciphers::{cipher_name, group_name};
pub use client::{ClientContext, Fingerprint, Identity, Mistrust, without_port};
pub use client_auth::Verdict;
pub use contexts::Contexts;
pub use greeting::Greeting;
pub use notes::{Notes, noted};
pub use server::ServerContext;
pub use session_id::SessionId;
pub use vars::{Facts, variable};
pub use verify::{CertStatus, Purpose, Trust, VerifyError};
pub use words::{failure, handshake_failure};
