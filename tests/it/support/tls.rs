//! TLS of tests' own clients, and the certificates under testdata.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// A file of testdata/tls.
pub(crate) fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("testdata/tls").join(name)
}

/// A configuration with the paths of certificates in the place of `{{tls}}`.
pub(crate) fn with_certificates(conf: &str) -> String {
    conf.replace("{{tls}}", &file("").to_string_lossy())
}

/// A client that trusts the authority of testdata, speaks these versions and offers these protocols.
pub(crate) fn client(
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.crt")).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_protocol_versions(versions)
        .with_root_certificates(roots)
        .with_no_client_auth();
    offering(config, protocols)
}

/// A client that shows this certificate of testdata.
pub(crate) fn client_with(certificate: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(file("ca.crt")).unwrap())
        .unwrap();
    let chain = vec![CertificateDer::from_pem_file(file(&format!("{certificate}.crt"))).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file(&format!("{certificate}.key"))).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    offering(config, &[])
}

fn offering(mut config: ClientConfig, protocols: &[&str]) -> Arc<ClientConfig> {
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    Arc::new(config)
}
