//! `ssl_conf_command` and its kin: the part of OpenSSL's commands that has a meaning here.
//!
//! Mirrors `ngx_ssl_conf_commands` and OpenSSL's `SSL_CONF_cmd`. Names are compared without case. A command that is not
//! known is an error where it stands, so that nothing which was asked for is passed over; the known ones are put into the
//! other settings when these are merged.

use std::{path::Path, sync::Arc};

use crate::{
    conf::model::{Pem, PemName, Protocols, Ssl, UpstreamSsl},
    vars::Template,
};

/// A command that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    Ciphersuites,
    CipherString,
    Curves,
    Certificate,
    PrivateKey,
    /// Versions before this one are not spoken.
    MinProtocol(usize),
    /// Versions after this one are not spoken.
    MaxProtocol(usize),
    /// Versions by number, on or off.
    Protocol(Vec<(usize, bool)>),
    /// Options by name, on or off.
    Options(Vec<(Switch, bool)>),
}

/// An option of the command `Options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    SessionTicket,
    ServerPreference,
    /// What is asked for is so anyway, or is about what is not there.
    Moot,
    /// It would only change which of the ciphers is taken.
    Ignored,
}

/// Whether a command is known; the words of its value that have no effect are an answer worth a warning.
pub(crate) fn check(name: &str, value: &str) -> Option<Vec<String>> {
    let Command::Options(switches) = Command::new(name, value)? else {
        return Some(Vec::new());
    };
    let words = value.split(',').zip(switches);
    let ignored = words.filter(|(_, (switch, _))| *switch == Switch::Ignored);
    Some(ignored.map(|(word, _)| word.trim().to_owned()).collect())
}

impl Command {
    fn new(name: &str, value: &str) -> Option<Self> {
        Some(match &*name.to_ascii_lowercase() {
            "ciphersuites" => Self::Ciphersuites,
            "cipherstring" => Self::CipherString,
            "curves" | "groups" => Self::Curves,
            "certificate" => Self::Certificate,
            "privatekey" => Self::PrivateKey,
            "minprotocol" if value == "None" => Self::MinProtocol(0),
            "minprotocol" => Self::MinProtocol(version(value)?),
            "maxprotocol" if value == "None" => Self::MaxProtocol(VERSIONS.len()),
            "maxprotocol" => Self::MaxProtocol(version(value)?),
            "protocol" => Self::Protocol(protocols(value)?),
            "options" => Self::Options(words(value).map(switch).collect::<Option<_>>()?),
            _ => return None,
        })
    }
}

/// The words of a list, each with whether it is turned on.
fn words(list: &str) -> impl Iterator<Item = (&str, bool)> {
    list.split(',').map(|word| {
        let word = word.trim();
        match word.strip_prefix('-') {
            Some(word) => (word, false),
            None => (word.strip_prefix('+').unwrap_or(word), true),
        }
    })
}

fn protocols(list: &str) -> Option<Vec<(usize, bool)>> {
    let mut changes = Vec::new();
    for (word, on) in words(list) {
        if word.eq_ignore_ascii_case("all") {
            changes.extend((0..VERSIONS.len()).map(|version| (version, on)));
        } else {
            changes.push((version(word)?, on));
        }
    }
    Some(changes)
}

fn version(name: &str) -> Option<usize> {
    VERSIONS
        .iter()
        .position(|version| version.eq_ignore_ascii_case(name))
}

fn switch((word, on): (&str, bool)) -> Option<(Switch, bool)> {
    let known = SWITCHES
        .iter()
        .find(|(name, ..)| name.eq_ignore_ascii_case(word));
    let (_, switch, only) = known?;
    only.is_none_or(|only| only == on).then_some((*switch, on))
}

/// What commands may change of a server or of a proxy.
struct Settings<'a> {
    protocols: &'a mut Protocols,
    ciphers: &'a mut Arc<str>,
    ciphersuites: &'a mut Option<Arc<str>>,
    curves: &'a mut Arc<str>,
    /// Certificate and key that a command names.
    pair: (Option<PemName>, Option<PemName>),
    /// `SessionTicket` and `ServerPreference`, where said.
    switches: (Option<bool>, Option<bool>),
}

impl Settings<'_> {
    fn follow(&mut self, commands: &[(Arc<str>, Arc<str>)], directory: &Path) {
        for (name, value) in commands {
            match Command::new(name, value) {
                Some(Command::Ciphersuites) => *self.ciphersuites = Some(Arc::clone(value)),
                Some(Command::CipherString) => *self.ciphers = Arc::clone(value),
                Some(Command::Curves) => *self.curves = Arc::clone(value),
                Some(Command::Certificate) => self.pair.0 = Some(file(value, directory)),
                Some(Command::PrivateKey) => self.pair.1 = Some(file(value, directory)),
                Some(Command::MinProtocol(least)) => self.limit(|version| version >= least),
                Some(Command::MaxProtocol(most)) => self.limit(|version| version <= most),
                Some(Command::Protocol(changes)) => {
                    for (version, on) in changes {
                        *flags(self.protocols)[version] = on;
                    }
                }
                Some(Command::Options(switches)) => self.turn(&switches),
                None => {}
            }
        }
    }

    fn limit(&mut self, within: impl Fn(usize) -> bool) {
        for (version, flag) in flags(self.protocols).into_iter().enumerate() {
            *flag &= within(version);
        }
    }

    fn turn(&mut self, switches: &[(Switch, bool)]) {
        for (switch, on) in switches {
            match switch {
                Switch::SessionTicket => self.switches.0 = Some(*on),
                Switch::ServerPreference => self.switches.1 = Some(*on),
                Switch::Moot | Switch::Ignored => {}
            }
        }
    }
}

/// The versions of [`VERSIONS`].
fn flags(protocols: &mut Protocols) -> [&mut bool; 5] {
    [
        &mut protocols.ssl3,
        &mut protocols.tls1,
        &mut protocols.tls11,
        &mut protocols.tls12,
        &mut protocols.tls13,
    ]
}

fn file(name: &Arc<str>, directory: &Path) -> PemName {
    let template = match Pem::new(name.as_bytes(), directory) {
        Pem::File(path) => Template::literal(path.as_os_str().as_encoded_bytes()),
        _ => Template::literal(name.as_bytes()),
    };
    PemName {
        written: Arc::clone(name),
        template,
    }
}

/// Follows the commands of a server.
pub(super) fn apply_server(ssl: &mut Ssl) {
    let mut settings = Settings {
        protocols: &mut ssl.protocols,
        ciphers: &mut ssl.ciphers,
        ciphersuites: &mut ssl.ciphersuites,
        curves: &mut ssl.ecdh_curve,
        pair: (None, None),
        switches: (None, None),
    };
    settings.follow(&ssl.conf_commands, &ssl.directory);
    let Settings { pair, switches, .. } = settings;
    if let (Some(certificate), Some(key)) = pair {
        ssl.certificate_key.truncate(ssl.certificate.len());
        ssl.certificate.push(certificate);
        ssl.certificate_key.push(key);
    }
    ssl.session_tickets = switches.0.unwrap_or(ssl.session_tickets);
    ssl.prefer_server_ciphers = switches.1.unwrap_or(ssl.prefer_server_ciphers);
}

/// Follows the commands of a proxy; what only a server decides is left alone.
pub(super) fn apply_upstream(ssl: &mut UpstreamSsl) {
    let mut settings = Settings {
        protocols: &mut ssl.protocols,
        ciphers: &mut ssl.ciphers,
        ciphersuites: &mut ssl.ciphersuites,
        curves: &mut ssl.ecdh_curve,
        pair: (None, None),
        switches: (None, None),
    };
    settings.follow(&ssl.conf_commands, &ssl.directory);
    if let (Some(certificate), Some(key)) = settings.pair {
        ssl.certificate = Some(certificate);
        ssl.certificate_key = Some(key);
    }
}

/// Versions as OpenSSL names them; `SSLv2` is not among them.
const VERSIONS: [&str; 5] = ["SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Known options, what becomes of them, and the one way in which they may be turned if there is only one.
const SWITCHES: [(&str, Switch, Option<bool>); 16] = [
    ("SessionTicket", Switch::SessionTicket, None),
    ("ServerPreference", Switch::ServerPreference, None),
    ("PrioritizeChaCha", Switch::Ignored, None),
    ("AllowNoDHEKEX", Switch::Moot, None),
    ("Bugs", Switch::Moot, None),
    ("ClientRenegotiation", Switch::Moot, Some(false)),
    ("Compression", Switch::Moot, None),
    ("DHSingle", Switch::Moot, None),
    ("ECDHSingle", Switch::Moot, None),
    ("EmptyFragments", Switch::Moot, None),
    ("EncryptThenMac", Switch::Moot, None),
    ("KTLS", Switch::Moot, None),
    ("NoRenegotiation", Switch::Moot, Some(true)),
    ("NoResumptionOnRenegotiation", Switch::Moot, None),
    ("UnsafeLegacyRenegotiation", Switch::Moot, Some(false)),
    ("UnsafeLegacyServerConnect", Switch::Moot, Some(false)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conf::model::SslDraft;

    fn apply(commands: &[(&str, &str)]) -> Ssl {
        let mut ssl = SslDraft::default().build();
        ssl.directory = Path::new("/etc/x").into();
        ssl.conf_commands = commands
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        for (name, value) in commands {
            assert!(check(name, value).is_some(), "{name} {value}");
        }
        apply_server(&mut ssl);
        ssl
    }

    #[test]
    fn commands_change_the_other_settings() {
        let ssl = apply(&[
            ("MinProtocol", "TLSv1.3"),
            ("ciphersuites", "TLS_AES_128_GCM_SHA256"),
            ("CipherString", "HIGH"),
            ("Groups", "X25519"),
            ("Options", "-SessionTicket, +ServerPreference,KTLS"),
            ("Certificate", "a.crt"),
            ("PrivateKey", "/k.pem"),
        ]);
        assert!(ssl.protocols.tls13 && !ssl.protocols.tls12);
        assert_eq!(ssl.ciphersuites.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
        assert_eq!((&*ssl.ciphers, &*ssl.ecdh_curve), ("HIGH", "X25519"));
        assert!(ssl.prefer_server_ciphers && !ssl.session_tickets);
        let pairs: Vec<_> = ssl.certificates().collect();
        assert_eq!(pairs[0].0.as_literal(), Some(&b"/etc/x/a.crt"[..]));
        assert_eq!(pairs[0].1.as_literal(), Some(&b"/k.pem"[..]));
    }

    #[test]
    fn versions_are_added_and_taken_away() {
        let ssl = apply(&[("Protocol", "-ALL,TLSv1.2")]);
        assert_eq!(
            ssl.protocols,
            Protocols {
                tls12: true,
                ..Protocols::default()
            }
        );
        let ssl = apply(&[("MaxProtocol", "TLSv1.2"), ("MinProtocol", "None")]);
        assert!(ssl.protocols.tls12 && !ssl.protocols.tls13);
    }

    #[test]
    fn what_is_not_known_is_no_command() {
        for (name, value) in [
            ("VerifyMode", "Require"),
            ("Options", "ClientRenegotiation"),
            ("Options", "-NoRenegotiation"),
            ("Options", "NoSuchThing"),
            ("Options", ""),
            ("MinProtocol", "TLSv2"),
        ] {
            assert_eq!(check(name, value), None, "{name} {value}");
        }
        let ignored = check("options", "KTLS, PrioritizeChaCha").unwrap();
        assert_eq!(ignored, ["PrioritizeChaCha"]);
    }
}
