//! Owns [`Tls`]: an authority made for one test, and certificates that it signed.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::folder::Folder;

/// Files in PEM, which go with the guard.
#[derive(Debug)]
pub struct Tls {
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    client: (PathBuf, PathBuf),
    _folder: Folder,
}

impl Tls {
    /// An authority, a server's certificate for 127.0.0.1 and `localhost`, and a client's.
    pub fn new() -> Result<Self, String> {
        let folder = Folder::new()?;
        let issuer = authority().map_err(|error| error.to_string())?;
        let ca = folder.write("ca.pem", issuer.1)?;
        let sign = |name: &str, usage| {
            let (certificate, key) =
                signed(name, usage, &issuer.0).map_err(|error| error.to_string())?;
            let certificate = folder.write(&format!("{name}.pem"), certificate)?;
            Ok::<_, String>((certificate, folder.write(&format!("{name}.key"), key)?))
        };
        let server = sign("server", ExtendedKeyUsagePurpose::ServerAuth)?;
        let client = sign("client", ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self { ca, server, client, _folder: folder })
    }

    /// The certificate of the authority, which clients are to trust.
    #[must_use]
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// The server's certificate.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.server.0
    }

    /// The server's key.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.server.1
    }

    /// A client's certificate, for a server that asks for one.
    #[must_use]
    pub fn client_certificate(&self) -> &Path {
        &self.client.0
    }

    /// The client's key.
    #[must_use]
    pub fn client_key(&self) -> &Path {
        &self.client.1
    }
}

/// The authority, and its certificate.
fn authority() -> Result<(Issuer<'static, KeyPair>, String), rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Tollkeeper test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

/// A certificate and its key.
fn signed(
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(String, String), rcgen::Error> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
