//! What OpenSSL would say of a handshake that failed, for the error log.

use std::{fmt, io};

use rustls::{AlertDescription, Error};

use crate::common::errno::Errno;

/// nginx's message for a handshake with a peer that failed; written only when it is shown.
// DIFFERS(tls-words): OpenSSL's words are others.
pub fn handshake_failure(error: &io::Error) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return f.write_str("peer closed connection in SSL handshake");
        }
        f.write_str("SSL_do_handshake() failed (")?;
        match tls_error(error) {
            None => write!(f, "{}", Errno(error))?,
            Some(error) => write!(f, "SSL: {}", reason(error))?,
        }
        f.write_str(")")
    })
}

/// nginx's message for a `call` that failed on a connection, which may speak TLS; written only when it is shown. A client
/// that resets its connection is told of at a level that is seldom on.
pub fn failure(call: &str, error: &io::Error) -> impl fmt::Display {
    fmt::from_fn(move |f| match tls_error(error) {
        None => write!(f, "{call} failed ({})", Errno(error)),
        // It is nginx's own.
        Some(Error::General(text)) => f.write_str(text),
        Some(error) => {
            let call = if call == "recv()" {
                "SSL_read()"
            } else {
                "SSL_write()"
            };
            write!(f, "{call} failed (SSL: {})", reason(error))
        }
    })
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// OpenSSL's words where it has some for this, rustls's otherwise.
fn reason(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => {
            let (number, text) = (u8::from(*alert), alert_text(*alert));
            let code = 0x0A00_03E8 + u32::from(number);
            format!("error:{code:08X}:SSL routines::{text}:SSL alert number {number}")
        }
        Error::InvalidMessage(_) => "error:0A00010B:SSL routines::wrong version number".to_owned(),
        Error::NoApplicationProtocol => {
            "error:0A0000EB:SSL routines::no application protocol".to_owned()
        }
        Error::PeerIncompatible(_) => {
            format!("error:0A0000C1:SSL routines::no shared cipher:{error}")
        }
        other => other.to_string(),
    }
}

fn alert_text(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::UnexpectedMessage => "ssl/tls alert unexpected message",
        AlertDescription::BadRecordMac => "ssl/tls alert bad record mac",
        AlertDescription::HandshakeFailure => "ssl/tls alert handshake failure",
        AlertDescription::BadCertificate => "ssl/tls alert bad certificate",
        AlertDescription::UnsupportedCertificate => "ssl/tls alert unsupported certificate",
        AlertDescription::CertificateRevoked => "ssl/tls alert certificate revoked",
        AlertDescription::CertificateExpired => "ssl/tls alert certificate expired",
        AlertDescription::CertificateUnknown => "ssl/tls alert certificate unknown",
        AlertDescription::IllegalParameter => "ssl/tls alert illegal parameter",
        AlertDescription::UnknownCA => "tlsv1 alert unknown ca",
        AlertDescription::AccessDenied => "tlsv1 alert access denied",
        AlertDescription::DecodeError => "tlsv1 alert decode error",
        AlertDescription::DecryptError => "tlsv1 alert decrypt error",
        AlertDescription::ProtocolVersion => "tlsv1 alert protocol version",
        AlertDescription::InsufficientSecurity => "tlsv1 alert insufficient security",
        AlertDescription::InternalError => "tlsv1 alert internal error",
        AlertDescription::UserCanceled => "tlsv1 alert user cancelled",
        AlertDescription::MissingExtension => "tlsv13 alert missing extension",
        AlertDescription::UnsupportedExtension => "tlsv1 unsupported extension",
        AlertDescription::UnrecognisedName => "tlsv1 unrecognized name",
        AlertDescription::CertificateRequired => "tlsv13 alert certificate required",
        AlertDescription::NoApplicationProtocol => "tlsv1 alert no application protocol",
        _ => "reason unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openssl_has_its_own_words() {
        let tls = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let alert = tls(Error::AlertReceived(AlertDescription::HandshakeFailure));
        assert_eq!(
            handshake_failure(&alert).to_string(),
            "SSL_do_handshake() failed (SSL: error:0A000410:SSL routines::ssl/tls alert handshake failure:SSL alert number 40)"
        );
        let text = handshake_failure(&io::ErrorKind::UnexpectedEof.into()).to_string();
        assert_eq!(text, "peer closed connection in SSL handshake");
        let text = failure("recv()", &io::Error::from_raw_os_error(104)).to_string();
        assert_eq!(text, "recv() failed (104: Connection reset by peer)");
        let alert = tls(Error::AlertReceived(AlertDescription::CertificateRequired));
        assert_eq!(
            failure("recv()", &alert).to_string(),
            "SSL_read() failed (SSL: error:0A00045C:SSL routines::tlsv13 alert certificate required:SSL alert number 116)"
        );
    }
}
