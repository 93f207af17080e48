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
type Family = fn(Name) -> VarId;

macro_rules! builtins {
    (
        http { $($variant:ident $name:literal,)* }
        stream { $($stream_variant:ident $stream_name:literal,)* }
        both { $($both_variant:ident $both_name:literal,)* }
    ) => {
        /// One variable, resolved when the configuration is read.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum VarId {
            $(
                #[doc = concat!("`$", $name, "`")]
                $variant,
            )*
            $(
                #[doc = concat!("`$", $stream_name, "`")]
                $stream_variant,
            )*
            $(
                #[doc = concat!("`$", $both_name, "`")]
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
            /// The names of all variables of `http` with a fixed name, without `$`.
            pub const BUILTIN_NAMES: &'static [&'static str] = &[$($name,)* $($both_name,)*];

            /// The names of all variables of `stream` with a fixed name, without `$`.
            pub const STREAM_NAMES: &'static [&'static str] = &[$($stream_name,)* $($both_name,)*];

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
        Args "args",
        BodyBytesSent "body_bytes_sent",
        ConnectionRequests "connection_requests",
        ConnectionTime "connection_time",
        ConnectionsActive "connections_active",
        ConnectionsReading "connections_reading",
        ConnectionsWaiting "connections_waiting",
        ConnectionsWriting "connections_writing",
        ContentLength "content_length",
        ContentType "content_type",
        DocumentRoot "document_root",
        DocumentUri "document_uri",
        GzipRatio "gzip_ratio",
        Host "host",
        Https "https",
        InvalidReferer "invalid_referer",
        IsArgs "is_args",
        LimitRate "limit_rate",
        Pipe "pipe",
        ProxyAddXForwardedFor "proxy_add_x_forwarded_for",
        ProxyHost "proxy_host",
        ProxyInternalBodyLength "proxy_internal_body_length",
        ProxyPort "proxy_port",
        QueryString "query_string",
        RealpathRoot "realpath_root",
        RemoteUser "remote_user",
        Request "request",
        RequestBody "request_body",
        RequestBodyFile "request_body_file",
        RequestCompletion "request_completion",
        RequestFilename "request_filename",
        RequestId "request_id",
        RequestLength "request_length",
        RequestMethod "request_method",
        RequestPort "request_port",
        RequestTime "request_time",
        RequestUri "request_uri",
        IsRequestPort "is_request_port",
        LimitReqStatus "limit_req_status",
        Scheme "scheme",
        ServerProtocol "server_protocol",
        TcpinfoRtt "tcpinfo_rtt",
        TcpinfoRttvar "tcpinfo_rttvar",
        TcpinfoSndCwnd "tcpinfo_snd_cwnd",
        TcpinfoRcvSpace "tcpinfo_rcv_space",
        UpstreamCacheStatus "upstream_cache_status",
        UpstreamHeaderTime "upstream_header_time",
        UpstreamLastServerName "upstream_last_server_name",
        UpstreamResponseLength "upstream_response_length",
        UpstreamResponseTime "upstream_response_time",
        UpstreamStatus "upstream_status",
        Uri "uri",
    }
    stream {
        BytesReceived "bytes_received",
        Protocol "protocol",
        SessionTime "session_time",
        SslPrereadAlpnProtocols "ssl_preread_alpn_protocols",
        SslPrereadProtocol "ssl_preread_protocol",
        SslPrereadServerName "ssl_preread_server_name",
        UpstreamFirstByteTime "upstream_first_byte_time",
        UpstreamSessionTime "upstream_session_time",
    }
    both {
        BinaryRemoteAddr "binary_remote_addr",
        BytesSent "bytes_sent",
        Connection "connection",
        Hostname "hostname",
        LimitConnStatus "limit_conn_status",
        Msec "msec",
        NginxVersion "nginx_version",
        Pid "pid",
        ProxyProtocolAddr "proxy_protocol_addr",
        ProxyProtocolPort "proxy_protocol_port",
        ProxyProtocolServerAddr "proxy_protocol_server_addr",
        ProxyProtocolServerPort "proxy_protocol_server_port",
        RealipRemoteAddr "realip_remote_addr",
        RealipRemotePort "realip_remote_port",
        RemoteAddr "remote_addr",
        RemotePort "remote_port",
        ServerAddr "server_addr",
        ServerName "server_name",
        ServerPort "server_port",
        Status "status",
        TimeIso8601 "time_iso8601",
        TimeLocal "time_local",
        UpstreamAddr "upstream_addr",
        UpstreamBytesReceived "upstream_bytes_received",
        UpstreamBytesSent "upstream_bytes_sent",
        UpstreamConnectTime "upstream_connect_time",
    }
}

impl VarId {
    /// A variable of a family such as `http_x_real_ip`; `name` is lower case.
    fn prefixed(name: &str) -> Option<Self> {
        let families: [(&str, Family); 9] = [
            ("arg_", Self::Arg),
            ("cookie_", Self::Cookie),
            ("http_", Self::Http),
            ("proxy_protocol_tlv_", Self::ProxyProtocolTlv),
            ("sent_http_", Self::SentHttp),
            ("sent_trailer_", Self::SentTrailer),
            ("upstream_http_", Self::UpstreamHttp),
            ("upstream_trailer_", Self::UpstreamTrailer),
            ("upstream_cookie_", Self::UpstreamCookie),
        ];
        if let [digit @ b'1'..=b'9'] = name.as_bytes() {
            return Some(Self::Capture(digit - b'0'));
        }
        families
            .iter()
            .find_map(|(prefix, make)| name.strip_prefix(prefix).map(|rest| make(rest.into())))
    }

    /// Whether `set` may assign this built-in variable (`NGX_HTTP_VAR_CHANGEABLE`).
    pub fn is_changeable(&self) -> bool {
        matches!(self, Self::Args | Self::LimitRate | Self::Slot(_))
    }
}
