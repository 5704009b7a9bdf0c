//! Settings of TLS, of both sides: keys and roots come from the caller, nothing is read from the system.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::invalid_argument::InvalidArgument;

/// How a client makes sure that the server is who it should be.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.name)
    }
}

impl Tls {
    /// Trust what these certificates (DER) signed for the name (a domain or an IP address).
    pub fn new(roots: &[Vec<u8>], name: &str) -> Result<Self, InvalidArgument> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().map(|der| CertificateDer::from(&der[..])));
        if store.is_empty() {
            return Err(InvalidArgument(
                "TLS: no certificate to trust was given".into(),
            ));
        }
        let name = ServerName::try_from(name.to_owned()).map_err(|error| {
            InvalidArgument(format!("TLS: '{name}' is no name of a server: {error}"))
        })?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| InvalidArgument(format!("TLS: {error}")))?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }

    /// A connector for the application protocols `alpn` (`h2`), or none, and the server's name.
    pub fn connector(&self, alpn: &[&str]) -> (TlsConnector, ServerName<'static>) {
        let mut config = self.config.clone();
        if !alpn.is_empty() {
            let names = alpn.iter().map(|name| name.as_bytes().to_vec());
            Arc::make_mut(&mut config).alpn_protocols = names.collect();
        }
        (TlsConnector::from(config), self.name.clone())
    }
}

/// The server's side: a chain of certificates and a PKCS #8 key, all in DER.
pub fn acceptor(
    chain: &[Vec<u8>],
    key: &[u8],
    alpn: &[&str],
) -> Result<TlsAcceptor, InvalidArgument> {
    let wrong = |error: tokio_rustls::rustls::Error| InvalidArgument(format!("TLS: {error}"));
    let chain = chain.iter().map(|der| CertificateDer::from(der.clone()));
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.to_vec()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .map_err(wrong)?;
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
