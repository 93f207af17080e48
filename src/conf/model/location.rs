//! `location` and everything that can differ from one to the next.

use std::sync::Arc;

use super::{AccessLog, Core, Gzip, Headers, Limits, Op, Proxy, Realip};
use crate::{
    common::addr::Addr,
    vars::{BoundPattern, Template},
};

/// The settings for a URI: of a `location`, of an `if` in one, of `limit_except`, or of a `server` or `http` block.
#[derive(Debug)]
pub struct Location {
    /// Unique in the configuration; what is kept per location (a `local` keepalive pool) is keyed by it.
    pub id: u32,
    /// What it matches.
    pub kind: LocationKind,
    /// The prefix, path, pattern or `@name`; empty for a block that is no location.
    pub name: Box<[u8]>,
    /// A prefix that ends with `/` and has a handler that wants it: the URI without the slash is redirected.
    pub auto_redirect: bool,
    /// `internal`
    pub internal: bool,
    /// What answers.
    pub handler: Handler,
    /// An `if` that says nothing itself of what answers: it is what answered where it stands.
    pub inherits_handler: bool,
    /// Core settings.
    pub core: Core,
    /// Proxy settings; read whenever the handler is [`Handler::Proxy`].
    pub proxy: Arc<Proxy>,
    /// `grpc_*` settings, where the handler is [`Handler::Grpc`]. What gRPC has no directive for is as nginx has it fixed
    /// there: HTTP/2, nothing buffered, trailers passed on.
    pub grpc: Option<Arc<Proxy>>,
    /// `add_header` and its kin.
    pub headers: Arc<Headers>,
    /// gzip settings.
    pub gzip: Arc<Gzip>,
    /// realip settings.
    pub realip: Arc<Realip>,
    /// Limits of connections and requests.
    pub limits: Arc<Limits>,
    /// Access rules, in order.
    pub access: Arc<[AccessRule]>,
    /// `access_log`s; empty is off.
    pub access_log: Arc<[AccessLog]>,
    /// `rewrite_log`
    pub rewrite_log: bool,
    /// `uninitialized_variable_warn`
    pub uninitialized_variable_warn: bool,
    /// Rewrite directives of the location; for a server block see [`Server::rewrite`](super::Server::rewrite).
    pub rewrite: Vec<Op>,
    /// `try_files`
    pub try_files: Option<TryFiles>,
    /// `limit_except`: methods that are not limited, and the settings for the others.
    pub limit_except: Option<(Methods, Arc<Self>)>,
    /// `index`; `index.html` by default.
    pub index: Arc<[Template]>,
    /// Locations inside.
    pub children: Locations,
}

/// How a location's name is compared.
#[derive(Clone, Debug)]
pub enum LocationKind {
    /// `http`, `server`, `if`, `limit_except`: matches nothing by itself.
    Block,
    /// `= /path`
    Exact,
    /// `/prefix`
    Prefix,
    /// `^~ /prefix`: no patterns are tried.
    PrefixNoRegex,
    /// `~` or `~*`
    Regex(BoundPattern),
    /// `@name`
    Named,
}

/// What answers in a location.
#[derive(Clone, Debug)]
pub enum Handler {
    /// Files below `root` or `alias`.
    Static,
    /// `proxy_pass`
    Proxy,
    /// `grpc_pass`
    Grpc,
    /// `empty_gif`
    EmptyGif,
    /// `stub_status`
    StubStatus,
}

/// The locations of one level, arranged for look-up.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    /// Exact and prefix locations, sorted by name; for one name the exact one first.
    pub prefixes: Vec<PrefixLocation>,
    /// Patterns in order of appearance.
    pub regexes: Vec<Arc<Location>>,
}

/// One name among exact and prefix locations.
#[derive(Clone, Debug)]
pub struct PrefixLocation {
    /// The name.
    pub name: Box<[u8]>,
    /// `= name`
    pub exact: Option<Arc<Location>>,
    /// `name` or `^~ name`
    pub inclusive: Option<Arc<Location>>,
    /// Index of the longest other name that is a prefix of this one.
    pub parent: Option<usize>,
}

/// A set of request methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(pub u32);

impl Methods {
    /// `GET`
    pub const GET: Self = Self(1 << 1);
    /// `HEAD`
    pub const HEAD: Self = Self(1 << 2);

    /// The methods that `limit_except` knows; a method's bit is its place here plus one, as in nginx.
    const NAMES: [&str; 14] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
    ];

    /// The set of one method, whatever the case of its letters; None when it is not among those that can be limited.
    pub fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        Some(Self(1 << (index + 1)))
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// `allow` or `deny`
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// Allow or deny.
    pub allow: bool,
    /// Whom.
    pub subject: AccessSubject,
}

/// Whom an [`AccessRule`] is about.
#[derive(Clone, Debug)]
pub enum AccessSubject {
    /// `all`
    All,
    /// An address or network.
    Net(ipnet::IpNet),
    /// `unix:`
    Unix,
}

impl AccessRule {
    /// Whether the rule is about this client.
    pub fn applies(&self, client: &Addr) -> bool {
        match (&self.subject, client) {
            (AccessSubject::All, _) | (AccessSubject::Unix, Addr::Unix(_)) => true,
            (AccessSubject::Net(net), Addr::Inet(addr)) => {
                net.contains(&addr.ip().to_canonical()) || net.contains(&addr.ip())
            }
            _ => false,
        }
    }
}

/// `try_files`
#[derive(Clone, Debug)]
pub struct TryFiles {
    /// Paths to test; one that ended in `/` (taken off here) means a directory.
    pub candidates: Vec<(Template, bool)>,
    /// What happens when none is there.
    pub fallback: TryFallback,
}

/// Last argument of `try_files`.
#[derive(Clone, Debug)]
pub enum TryFallback {
    /// `=404`
    Status(u16),
    /// A URI or `@name`.
    Uri(Template),
}
