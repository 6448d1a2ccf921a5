//! Owns [`Certificate`]: what the doors show to clients that come by TLS, and how it is renewed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tollkeeper_policy::Tls;

/// The only protocol that the doors speak.
const ALPN: &[u8] = b"http/1.1";

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("`tls.{field}`: {}: {reason}", path.display())]
    File {
        /// The field that names it.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate and the key do not go together, or are of a kind that is not known.
    #[error("`tls`: {0}; expected a certificate and the private key that belongs to it")]
    Unfit(#[from] rustls::Error),
}

/// A certificate that can be renewed while connections come in.
#[derive(Debug)]
pub(crate) struct Certificate {
    config: ArcSwap<ServerConfig>,
}

impl Certificate {
    pub(crate) fn open(tls: &Tls) -> Result<Self, TlsError> {
        Ok(Self { config: ArcSwap::from_pointee(config(tls)?) })
    }

    /// Shows another, for connections from now on.
    pub(crate) fn show(&self, other: Self) {
        self.config.store(other.config.into_inner());
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

fn config(tls: &Tls) -> Result<ServerConfig, TlsError> {
    let chain = CertificateDer::pem_file_iter(&tls.certificate).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> =
        chain.map_err(|error| file("certificate", &tls.certificate, &error))?;
    if chain.is_empty() {
        let error = PemError::NoItemsFound;
        return Err(file("certificate", &tls.certificate, &error));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key);
    let key = key.map_err(|error| file("key", &tls.key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn file(field: &'static str, path: &Path, error: &PemError) -> TlsError {
    let reason = match error {
        PemError::NoItemsFound => format!("there is no {field} in it; expected a PEM file"),
        PemError::Io(error) => error.to_string(),
        // What else could be told may hold a part of the key.
        _ => "it is no PEM file".to_owned(),
    };
    TlsError::File { field, path: path.to_owned(), reason }
}
