//! TLS in the server itself. A certificate that was replaced on the disk is used by the next connection.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use super::limits::{Stamp, stamp};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} can't be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no PEM file of what it should be: {source}", path.display())]
    Malformed { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error("the certificate and its key can't be used: {0}")]
    Unusable(#[from] rustls::Error),
}

/// A certificate and its key, which are read from files and read again when the files change.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
    read: Mutex<(Stamp, Stamp)>,
}

impl Tls {
    pub fn from_files(certificate: PathBuf, key: PathBuf) -> Result<Tls, TlsError> {
        let stamps = stamps(&certificate, &key)?;
        let config = load(&certificate, &key)?;
        Ok(Tls { certificate, key, current: RwLock::new(Arc::new(config)), read: Mutex::new(stamps) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Reads the files again if they have changed. If certificate and key don't match, as happens while they
    /// are being replaced, the old pair stays in use.
    pub(super) fn reload(&self) -> Result<bool, TlsError> {
        let stamps = stamps(&self.certificate, &self.key)?;
        if *self.read.lock().unwrap_or_else(PoisonError::into_inner) == stamps {
            return Ok(false);
        }
        let config = load(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = stamps;
        Ok(true)
    }
}

fn stamps(certificate: &PathBuf, key: &PathBuf) -> Result<(Stamp, Stamp), TlsError> {
    let of =
        |path: &PathBuf| stamp(path).map_err(|source| TlsError::Unreadable { path: path.clone(), source });
    Ok((of(certificate)?, of(key)?))
}

fn load(certificate: &PathBuf, key: &PathBuf) -> Result<ServerConfig, TlsError> {
    let malformed = |path: &PathBuf| {
        let path = path.clone();
        move |source| TlsError::Malformed { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(malformed(certificate))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(malformed(certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(malformed(key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
