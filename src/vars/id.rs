//! Every variable that headwater knows, by name.
//!
//! The names, and which of them a configuration may assign, are those of nginx 1.31.5 (`http/ngx_http_variables.c`,
//! `stream/ngx_stream_variables.c` and the modules' own lists). `http` and `stream` each have names of their own;
//! what both have is one variable here.

use std::sync::Arc;

use super::SlotId;

/// A name such as the `x_real_ip` of `$http_x_real_ip`: lower case, `_` where a header has `-`.
pub type Name = Arc<str>;

/// What makes a variable of a family out of the rest of its name.
pub type Family = fn(Name) -> VarId;

macro_rules! builtins {
    (
        http { $($variant:ident $name:literal $doc:literal,)* }
        stream { $($stream_variant:ident $stream_name:literal $stream_doc:literal,)* }
        both { $($both_variant:ident $both_name:literal $both_doc:literal,)* }
    ) => {
        /// One variable, resolved when the configuration is read.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum VarId {
            $(
                #[doc = concat!("`$", $name, "`: ", $doc)]
                $variant,
            )*
            $(
                #[doc = concat!("`$", $stream_name, "`: ", $stream_doc)]
                $stream_variant,
            )*
            $(
                #[doc = concat!("`$", $both_name, "`: ", $both_doc)]
                $both_variant,
            )*
            /// `$arg_NAME`: an argument of the query string.
            Arg(Name),
            /// `$cookie_NAME`
            Cookie(Name),
            /// `$http_NAME`: a header of the request.
            Http(Name),
            /// `$proxy_protocol_tlv_NAME`: a fact that a proxy in front told.
            ProxyProtocolTlv(Name),
            /// `$sent_http_NAME`: a header of the response to the client.
            SentHttp(Name),
            /// `$sent_trailer_NAME`
            SentTrailer(Name),
            /// `$upstream_http_NAME`: a header of the upstream's response.
            UpstreamHttp(Name),
            /// `$upstream_trailer_NAME`
            UpstreamTrailer(Name),
            /// `$upstream_cookie_NAME`: a cookie that the upstream sets.
            UpstreamCookie(Name),
            /// `$1` to `$9`: the last pattern's captures.
            Capture(u8),
            /// A variable of the configuration's own.
            Slot(SlotId),
        }

        impl VarId {
            /// The variables that `http` alone has: the name without `$`, and what it is.
            pub const HTTP_VARIABLES: &'static [(&'static str, &'static str)] = &[$(($name, $doc),)*];

            /// Those that `stream` alone has.
            pub const STREAM_VARIABLES: &'static [(&'static str, &'static str)] =
                &[$(($stream_name, $stream_doc),)*];

            /// Those that both have.
            pub const SHARED_VARIABLES: &'static [(&'static str, &'static str)] =
                &[$(($both_name, $both_doc),)*];

            /// The variable of `http` with this fixed name or prefix (`http_`, `arg_`, ...); None when it is not
            /// headwater's own, so that it must be one of the configuration. `name` has no `$`.
            pub fn builtin(name: &str) -> Option<Self> {
                let name = &*name.to_ascii_lowercase();
                match name {
                    $($name => return Some(Self::$variant),)*
                    $($both_name => return Some(Self::$both_variant),)*
                    _ => {}
                }
                Self::prefixed(name)
            }

            /// The variable of `stream` with this fixed name or prefix (`proxy_protocol_tlv_`); None when it must be
            /// one of the configuration. `name` has no `$`.
            pub fn stream(name: &str) -> Option<Self> {
                let name = &*name.to_ascii_lowercase();
                match name {
                    $($stream_name => return Some(Self::$stream_variant),)*
                    $($both_name => return Some(Self::$both_variant),)*
                    _ => {}
                }
                match name.as_bytes() {
                    [digit @ b'1'..=b'9'] => Some(Self::Capture(digit - b'0')),
                    _ => name
                        .strip_prefix("proxy_protocol_tlv_")
                        .map(|rest| Self::ProxyProtocolTlv(rest.into())),
                }
            }
        }
    };
}

builtins! {
    http {
        Args "args" "The query string, without the question mark; `set` may change it.",
        BodyBytesSent "body_bytes_sent" "Bytes of the response's body that were sent to the client.",
        ConnectionRequests "connection_requests" "How many requests the connection has had, this one included.",
        ConnectionTime "connection_time" "How long the connection is open, in seconds with milliseconds.",
        ConnectionsActive "connections_active" "Connections of clients at the moment.",
        ConnectionsReading "connections_reading" "Connections on which a request's header is being read.",
        ConnectionsWaiting "connections_waiting" "Idle connections of clients.",
        ConnectionsWriting "connections_writing" "Connections on which a request is being answered.",
        ContentLength "content_length" "Content-Length of the request.",
        ContentType "content_type" "Content-Type of the request.",
        DocumentRoot "document_root" "The value of `root` or `alias` for the request.",
        DocumentUri "document_uri" "The same as `$uri`.",
        GzipRatio "gzip_ratio" "How many times smaller `gzip` made the response.",
        Host "host" "The host that the request asks for: of its line, of its Host, or the server's first name.",
        Http2 "http2" "`h2` for HTTP/2 over TLS, `h2c` without TLS; empty otherwise.",
        Https "https" "`on` where the connection is TLS; empty otherwise.",
        InvalidReferer "invalid_referer" "Empty; `1` for a bad Referer where `valid_referers` is there.",
        IsArgs "is_args" "A question mark when the request has a query string; empty otherwise.",
        LimitRate "limit_rate" "The rate of the response; `set` may change it.",
        Pipe "pipe" "`p` for a request that was sent before the one before it was answered; a dot otherwise.",
        ProxyAddXForwardedFor "proxy_add_x_forwarded_for" "X-Forwarded-For of the request with the client's address behind it.",
        ProxyHost "proxy_host" "Host and port of `proxy_pass`, as it is written there.",
        ProxyInternalBodyLength "proxy_internal_body_length" "Content-Length of the request that is passed on.",
        ProxyPort "proxy_port" "The port of `proxy_pass`, or the protocol's own.",
        QueryString "query_string" "The same as `$args`.",
        RealpathRoot "realpath_root" "The same as `$document_root`, with symbolic links resolved.",
        RemoteUser "remote_user" "The name in Basic authentication.",
        Request "request" "The request line, as it was sent.",
        RequestBody "request_body" "The request's body, once it was read and is in memory.",
        RequestBodyFile "request_body_file" "The file that the request's body was written to.",
        RequestCompletion "request_completion" "`OK` when the whole response was sent; empty otherwise.",
        RequestFilename "request_filename" "The path of the file that the URI stands for.",
        RequestId "request_id" "Sixteen random bytes in hexadecimal, the same throughout the request.",
        RequestLength "request_length" "Bytes of the request: line, header and body.",
        RequestMethod "request_method" "The request's method.",
        RequestPort "request_port" "The port in the request's host; empty without one.",
        RequestTime "request_time" "Seconds with milliseconds since the request's first byte.",
        RequestUri "request_uri" "The URI with its query string, as it was sent.",
        IsRequestPort "is_request_port" "A colon when `$request_port` is not empty.",
        LimitReqStatus "limit_req_status" "What `limit_req` said: PASSED, DELAYED, REJECTED, DELAYED_DRY_RUN or REJECTED_DRY_RUN.",
        Scheme "scheme" "`http` or `https`.",
        SslClientIssuerDnLegacy "ssl_client_i_dn_legacy" "Who issued the client's certificate, in the old form with slashes.",
        SslClientSubjectDnLegacy "ssl_client_s_dn_legacy" "Whose certificate the client's is, in the old form with slashes.",
        SslEarlyData "ssl_early_data" "`1` for a request that came before the handshake was complete; empty otherwise.",
        ServerProtocol "server_protocol" "The protocol of the request, `HTTP/1.1` for example.",
        TcpinfoRtt "tcpinfo_rtt" "The system's estimate of the round trip to the client, in microseconds.",
        TcpinfoRttvar "tcpinfo_rttvar" "How much that estimate varies.",
        TcpinfoSndCwnd "tcpinfo_snd_cwnd" "The congestion window of the client's connection.",
        TcpinfoRcvSpace "tcpinfo_rcv_space" "The receive window of the client's connection.",
        UpstreamCacheStatus "upstream_cache_status" "Empty: there is no cache.",
        UpstreamHeaderTime "upstream_header_time" "Seconds from the begin of a try to the response's header, a value a try.",
        UpstreamLastServerName "upstream_last_server_name" "Empty: the server name that TLS asked the last upstream server for.",
        UpstreamResponseLength "upstream_response_length" "Bytes of the upstream's response body, a value a try.",
        UpstreamResponseTime "upstream_response_time" "Seconds from the begin of a try to the response's last byte, a value a try.",
        UpstreamStatus "upstream_status" "The status of the upstream's response, a value a try.",
        Uri "uri" "The URI, decoded and normalised, as rewriting left it.",
    }
    stream {
        BytesReceived "bytes_received" "Bytes that came from the client.",
        Protocol "protocol" "TCP or UDP.",
        SessionTime "session_time" "Seconds with milliseconds since the session began.",
        SslPrereadAlpnProtocols "ssl_preread_alpn_protocols" "The protocols that the client offers in TLS, by commas.",
        SslPrereadProtocol "ssl_preread_protocol" "The highest version of TLS that the client offers.",
        SslPrereadServerName "ssl_preread_server_name" "The name that the client asks for in TLS.",
        UpstreamFirstByteTime "upstream_first_byte_time" "Seconds from the begin of a try to the upstream's first byte, a value a try.",
        UpstreamSessionTime "upstream_session_time" "Seconds from the begin of a try to its end, a value a try.",
    }
    both {
        BinaryRemoteAddr "binary_remote_addr" "The client's address in 4 or 16 bytes.",
        BytesSent "bytes_sent" "Bytes that were sent to the client.",
        Connection "connection" "The number of the connection, as in the error log.",
        Hostname "hostname" "The name of the machine.",
        LimitConnStatus "limit_conn_status" "What `limit_conn` said: PASSED, REJECTED or REJECTED_DRY_RUN.",
        Msec "msec" "The time now in seconds with milliseconds.",
        NginxVersion "nginx_version" "The version of nginx whose behaviour this is.",
        Pid "pid" "The number of the worker's process.",
        ProxyProtocolAddr "proxy_protocol_addr" "The client's address in the PROXY line.",
        ProxyProtocolPort "proxy_protocol_port" "The client's port in the PROXY line.",
        ProxyProtocolServerAddr "proxy_protocol_server_addr" "The server's address in the PROXY line.",
        ProxyProtocolServerPort "proxy_protocol_server_port" "The server's port in the PROXY line.",
        RealipRemoteAddr "realip_remote_addr" "The address of the connection, before `set_real_ip_from` put another in its place.",
        RealipRemotePort "realip_remote_port" "The port of the connection, likewise.",
        RemoteAddr "remote_addr" "The client's address.",
        RemotePort "remote_port" "The client's port.",
        ServerAddr "server_addr" "The address that the client connected to.",
        ServerName "server_name" "The first name of the server.",
        ServerPort "server_port" "The port that the client connected to.",
        SslAlpnProtocol "ssl_alpn_protocol" "The protocol that ALPN chose; empty without one.",
        SslCipher "ssl_cipher" "The cipher, as OpenSSL calls it.",
        SslCiphers "ssl_ciphers" "The ciphers that the client offered, with colons between; unknown ones in hexadecimal.",
        SslClientCert "ssl_client_cert" "The client's certificate in PEM, each line but the first after a tab.",
        SslClientEscapedCert "ssl_client_escaped_cert" "The client's certificate in PEM, escaped as in a URI.",
        SslClientFingerprint "ssl_client_fingerprint" "The SHA-1 fingerprint of the client's certificate.",
        SslClientIssuerDn "ssl_client_i_dn" "Who issued the client's certificate, in the form of RFC 2253.",
        SslClientRawCert "ssl_client_raw_cert" "The client's certificate in PEM.",
        SslClientSerial "ssl_client_serial" "The serial number of the client's certificate.",
        SslClientSigalg "ssl_client_sigalg" "With which algorithm the client signed.",
        SslClientSubjectDn "ssl_client_s_dn" "Whose certificate the client's is, in the form of RFC 2253.",
        SslClientVEnd "ssl_client_v_end" "When the client's certificate ends.",
        SslClientVRemain "ssl_client_v_remain" "Days until the client's certificate ends.",
        SslClientVStart "ssl_client_v_start" "When the client's certificate begins.",
        SslClientVerify "ssl_client_verify" "`SUCCESS`, `FAILED:` and the reason, or `NONE` without a certificate of the client.",
        SslCurve "ssl_curve" "The curve of the key exchange.",
        SslCurves "ssl_curves" "The curves that the client offered, with colons between; unknown ones in hexadecimal.",
        SslEchOuterServerName "ssl_ech_outer_server_name" "Empty: there is no Encrypted Client Hello.",
        SslEchStatus "ssl_ech_status" "Empty: there is no Encrypted Client Hello.",
        SslProtocol "ssl_protocol" "The version of TLS, `TLSv1.3` for example.",
        SslServerName "ssl_server_name" "The name that the client asked for in TLS.",
        SslSessionId "ssl_session_id" "The number of the session.",
        SslSessionReused "ssl_session_reused" "`r` for a session that was resumed; a dot otherwise.",
        SslSigalg "ssl_sigalg" "With which algorithm the server signed.",
        SslSigalgs "ssl_sigalgs" "The algorithms of signatures that the client offered, with colons between.",
        Status "status" "The status of the response or of the session.",
        TimeIso8601 "time_iso8601" "The local time, `2026-01-31T12:00:00+00:00` for example.",
        TimeLocal "time_local" "The local time, `31/Jan/2026:12:00:00 +0000` for example.",
        UpstreamAddr "upstream_addr" "The address that was asked, a value a try.",
        UpstreamBytesReceived "upstream_bytes_received" "Bytes that came from the upstream, a value a try.",
        UpstreamBytesSent "upstream_bytes_sent" "Bytes that were sent to the upstream, a value a try.",
        UpstreamConnectTime "upstream_connect_time" "Seconds that connecting took, a value a try.",
    }
}

impl VarId {
    /// The families: what their names begin with, and what they are. `stream` has that of the PROXY protocol alone.
    pub const FAMILIES: &'static [(&'static str, Family, &'static str)] = &[
        ("arg_", Self::Arg, "An argument of the query string."),
        ("cookie_", Self::Cookie, "A cookie of the request."),
        (
            "http_",
            Self::Http,
            "A header field of the request, in lower case with `_` for `-`.",
        ),
        (
            "proxy_protocol_tlv_",
            Self::ProxyProtocolTlv,
            "A fact of the PROXY line, by its name or its number.",
        ),
        (
            "sent_http_",
            Self::SentHttp,
            "A header field of the response to the client.",
        ),
        (
            "sent_trailer_",
            Self::SentTrailer,
            "A trailer field of the response to the client.",
        ),
        (
            "upstream_http_",
            Self::UpstreamHttp,
            "A header field of the upstream's response.",
        ),
        (
            "upstream_trailer_",
            Self::UpstreamTrailer,
            "A trailer field of the upstream's response.",
        ),
        (
            "upstream_cookie_",
            Self::UpstreamCookie,
            "A cookie that the upstream sets.",
        ),
    ];

    /// A variable of a family such as `http_x_real_ip`; `name` is lower case.
    fn prefixed(name: &str) -> Option<Self> {
        if let [digit @ b'1'..=b'9'] = name.as_bytes() {
            return Some(Self::Capture(digit - b'0'));
        }
        Self::FAMILIES
            .iter()
            .find_map(|(prefix, make, _)| name.strip_prefix(prefix).map(|rest| make(rest.into())))
    }

    /// Whether this is one of `$ssl_*`, which tell of a client's TLS. They have no value without TLS, and a configuration
    /// may define a variable of the same name (`NGX_HTTP_VAR_CHANGEABLE`).
    pub fn is_tls(&self) -> bool {
        matches!(
            self,
            Self::SslAlpnProtocol
                | Self::SslCipher
                | Self::SslCiphers
                | Self::SslClientCert
                | Self::SslClientEscapedCert
                | Self::SslClientFingerprint
                | Self::SslClientIssuerDn
                | Self::SslClientIssuerDnLegacy
                | Self::SslClientRawCert
                | Self::SslClientSerial
                | Self::SslClientSigalg
                | Self::SslClientSubjectDn
                | Self::SslClientSubjectDnLegacy
                | Self::SslClientVEnd
                | Self::SslClientVRemain
                | Self::SslClientVStart
                | Self::SslClientVerify
                | Self::SslCurve
                | Self::SslCurves
                | Self::SslEarlyData
                | Self::SslEchOuterServerName
                | Self::SslEchStatus
                | Self::SslProtocol
                | Self::SslServerName
                | Self::SslSessionId
                | Self::SslSessionReused
                | Self::SslSigalg
                | Self::SslSigalgs
        )
    }

    /// Whether `set` may assign this built-in variable (`NGX_HTTP_VAR_CHANGEABLE`).
    pub fn is_changeable(&self) -> bool {
        matches!(self, Self::Args | Self::LimitRate | Self::Slot(_))
    }
}
