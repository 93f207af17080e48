//! HTTP/2 from clients.
//!
//! Mirrors `ngx_http_v2_main_conf_t` and `ngx_http_v2_srv_conf_t` (`http/v2/ngx_http_v2_module.h`); the size of frames is
//! a location's: [`Core::http2_chunk_size`](super::Core::http2_chunk_size).

layered! {
    /// `http2` and `http2_*` of `server`.
    pub struct Http2 / Http2Draft {
        /// `http2`; the servers of an address with [`Listen::http2`](super::Listen::http2) speak it too.
        enabled: bool = false,
        /// `http2_max_concurrent_streams`
        max_concurrent_streams: u32 = 128,
        /// `http2_body_preread_size`, bytes: what of a body may come before it is asked for.
        body_preread_size: usize = 65536,
        /// `http2_recv_buffer_size`, bytes, of `http` alone; no meaning here.
        recv_buffer_size: usize = 256 * 1024,
        /// `http2_pool_size`, bytes; no meaning here.
        pool_size: usize = 4096,
        /// `http2_streams_index_size`; no meaning here.
        streams_index_size: usize = 32,
    }
}
