//! Compressed certificates (`ssl_certificate_compression`, RFC 8879).
//!
//! Mirrors `ngx_ssl_certificate_compression`, which has OpenSSL compress with what it was built with.

use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};
use rustls::{
    CertificateCompressionAlgorithm,
    compress::{CertCompressor, CompressionFailed, CompressionLevel},
};

/// The algorithm that every client has which has any.
// DIFFERS(certificate-compression): OpenSSL may have brotli and zstd too.
#[derive(Debug)]
pub(super) struct Zlib;

impl CertCompressor for Zlib {
    fn compress(
        &self,
        input: Vec<u8>,
        level: CompressionLevel,
    ) -> Result<Vec<u8>, CompressionFailed> {
        let level = match level {
            CompressionLevel::Interactive => Compression::default(),
            CompressionLevel::Amortized => Compression::best(),
        };
        let mut encoder = ZlibEncoder::new(Vec::new(), level);
        let written = encoder.write_all(&input).and_then(|()| encoder.finish());
        written.map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}
