//! Owns [`Route`]: how a server is reached, over TCP, TLS or a socket in the file system.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::select_ok;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_rustls::TlsConnector;
use tollkeeper_core::HostPort;

use super::Fault;
use super::wire::Stream;

/// Whom we trust to be a server of ours.
#[derive(Clone)]
pub(super) struct Trust(TlsConnector);

impl Trust {
    /// `ca` is a PEM text of the authorities that are trusted instead of the system's.
    pub(super) fn new(ca: Option<&[u8]>) -> Result<Self, Fault> {
        connector(ca).map(Self).map_err(unconnected)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// The way to a server.
pub(super) enum Route {
    Tcp { place: HostPort, tls: Option<(TlsConnector, ServerName<'static>)> },
    Unix { path: PathBuf },
}

impl Route {
    /// The way to a port, with TLS where somebody is trusted.
    pub(super) fn tcp(place: &HostPort, trust: Option<&Trust>) -> Result<Self, Fault> {
        let secured = |Trust(connector): &Trust| {
            let name = ServerName::try_from(place.host.clone())
                .map_err(|_| unconnected("its name cannot stand in a certificate".to_owned()))?;
            Ok((connector.clone(), name))
        };
        Ok(Self::Tcp { place: place.clone(), tls: trust.map(secured).transpose()? })
    }

    /// What a server may be that stays silent: one that waits for the end of a line.
    pub(super) fn if_silent(&self) -> &'static str {
        match self {
            Self::Tcp { tls: Some(_), .. } => " (if it does not speak TLS, write redis://)",
            _ => "",
        }
    }

    /// What a server may be that hangs up, or does not speak as Redis does.
    pub(super) fn if_strange(&self) -> &'static str {
        match self {
            Self::Tcp { tls: None, .. } => " (if it speaks TLS, write rediss://)",
            _ => "",
        }
    }

    pub(super) async fn open(&self) -> Result<Box<dyn Stream>, Fault> {
        match self {
            Self::Tcp { place, tls: None } => Ok(Box::new(connect(place).await?)),
            Self::Tcp { place, tls: Some((connector, name)) } => {
                let stream = connect(place).await?;
                let secured = connector.connect(name.clone(), stream).await;
                Ok(Box::new(secured.map_err(|error| unconnected(tls_trouble(&error)))?))
            }
            Self::Unix { path } => {
                let stream = UnixStream::connect(path).await;
                Ok(Box::new(stream.map_err(|error| unconnected(trouble(&error)))?))
            }
        }
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Route")
    }
}

/// The first of a host's addresses that takes the connection.
async fn connect(place: &HostPort) -> Result<TcpStream, Fault> {
    let found = lookup_host((place.host.as_str(), place.port)).await;
    let found = found.map_err(|error| unconnected(nowhere(&format!(": {error}"))))?;
    let tries: Vec<_> = found.map(|address| Box::pin(TcpStream::connect(address))).collect();
    if tries.is_empty() {
        return Err(unconnected(nowhere("")));
    }
    let (stream, _) = select_ok(tries).await.map_err(|error| unconnected(trouble(&error)))?;
    // A call is not to wait until the one before it was acknowledged.
    stream.set_nodelay(true).map_err(|error| unconnected(trouble(&error)))?;
    Ok(stream)
}

fn connector(ca: Option<&[u8]>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| error.to_string());
                let added = certificate
                    .and_then(|certificate| roots.add(certificate).map_err(|e| e.to_string()));
                added.map_err(|error| format!("`store.ca` cannot be read: {error}"))?;
            }
            if roots.is_empty() {
                return Err("`store.ca` holds no certificate in PEM".to_owned());
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(system.certs);
            if roots.is_empty() {
                let why = system.errors.first().map_or_else(String::new, |e| format!(": {e}"));
                return Err(format!(
                    "the system trusts no authority{why}; let `store.ca` name one"
                ));
            }
        }
    }
    // Chosen here: a program that holds two providers must choose one or panic.
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// What to do where nobody says anything.
pub(super) const NO_WAY: &str =
    "check the host in `store.url`, and whether a firewall lets this machine through to it";

fn unconnected(text: String) -> Fault {
    Fault::Unconnected { text }
}

fn nowhere(why: &str) -> String {
    format!("its name leads nowhere{why}; check the host in `store.url`")
}

fn trouble(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            format!("nobody listens there: {error}; is the server running?")
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::TimedOut => {
            format!("{error}; {NO_WAY}")
        }
        _ => error.to_string(),
    }
}

fn tls_trouble(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "its certificate is signed by an authority that is not trusted; let `store.ca` name \
             that authority"
            .to_owned(),
        Some(rustls::Error::InvalidCertificate(why)) => {
            format!("its certificate is not accepted: {why}")
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS; if it is not meant to, write redis://".to_owned()
        }
        _ if error.kind() == ErrorKind::UnexpectedEof => {
            "it closed the connection instead of speaking TLS".to_owned()
        }
        _ => format!("no agreement on TLS: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_leaves_at_once() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let place = HostPort { host: host.to_owned(), port };
            assert!(connect(&place).await.unwrap().nodelay().unwrap());
        }
    }

    #[test]
    fn whoever_cannot_be_reached_is_told_with_what_to_do() {
        for (kind, advice) in [
            (ErrorKind::ConnectionRefused, "is the server running?"),
            (ErrorKind::HostUnreachable, NO_WAY),
            (ErrorKind::NetworkUnreachable, NO_WAY),
            (ErrorKind::TimedOut, NO_WAY),
        ] {
            let told = trouble(&io::Error::from(kind));
            assert!(told.ends_with(advice) && told.contains(&kind.to_string()), "{told}");
        }
    }

    #[test]
    fn a_ca_without_a_certificate_is_refused() {
        for (ca, said) in [
            ("", "`store.ca` holds no certificate in PEM"),
            ("no PEM", "`store.ca` holds no certificate in PEM"),
            ("-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n", "cannot be read"),
            ("-----BEGIN CERTIFICATE-----\n", "`store.ca` cannot be read"),
        ] {
            let Err(Fault::Unconnected { text }) = Trust::new(Some(ca.as_bytes())) else {
                panic!("{ca}")
            };
            assert!(text.contains(said), "{text}");
        }
    }
}
