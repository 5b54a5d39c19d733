//! An archive in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.
//!
//! Credentials and endpoints come from the environment, by the names that the tools of these stores have given them, and are never printed. A large object is uploaded in parts, few
//! of which are in memory at a time.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    BackoffConfig, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig, WriteMultipart,
};

use super::{Archive, Object, Pending, Writing};
use crate::error::{Error, Result};

/// The bytes of a part of an upload: the least that all stores take.
const PART_BYTES: usize = 5 * 1024 * 1024;

/// Parts of an object that are on their way at a time.
const PARTS_UNDER_WAY: usize = 2;

/// Between two tries of one request at most.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// An archive in an object store.
#[derive(Clone)]
pub struct Bucket {
    /// The scheme, the bucket and the prefix.
    location: String,
    kind: Kind,
    prefix: String,
    store: Arc<dyn ObjectStore>,
}

impl fmt::Debug for Bucket {
    /// Nothing of the store, which has credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Bucket").field(&self.location).finish()
    }
}

/// The kind of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    S3,
    Google,
    Azure,
}

impl Kind {
    /// The variables that hold credentials.
    fn credentials(self) -> &'static str {
        match self {
            Kind::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if they are temporary, AWS_SESSION_TOKEN"
            }
            Kind::Google => "GOOGLE_APPLICATION_CREDENTIALS",
            Kind::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }

    /// The variable that says where the store is.
    fn endpoint(self) -> &'static str {
        match self {
            Kind::S3 => "AWS_ENDPOINT_URL and AWS_REGION",
            Kind::Google => "GOOGLE_APPLICATION_CREDENTIALS",
            Kind::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ENDPOINT",
        }
    }

    fn bucket(self) -> &'static str {
        match self {
            Kind::S3 | Kind::Google => "bucket",
            Kind::Azure => "container",
        }
    }
}

impl Bucket {
    /// The archive in this bucket and below this prefix (`BUCKET/PREFIX`), of a store of this scheme, as the environment says. Nothing is asked of the store
    /// yet.
    ///
    /// # Errors
    /// No bucket is named, or the environment does not say what has to be known of the store.
    pub fn open(scheme: &str, path: &str, patience: Duration) -> Result<Self> {
        let text = |text: OsString| text.into_string().ok();
        let variables = env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
        Bucket::open_with(scheme, path, patience, &variables.collect::<Vec<_>>())
    }

    /// As [`Bucket::open`], with these variables in place of the environment.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub fn open_with(
        scheme: &str,
        path: &str,
        patience: Duration,
        variables: &[(String, String)],
    ) -> Result<Self> {
        let location = format!("{scheme}://{}", path.trim_end_matches('/'));
        let refused = |reason: String| Error::Location { location: location.clone(), reason };
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(refused(format!("name a bucket, as {scheme}://BUCKET/PREFIX")));
        }
        let prefix = prefix.trim_matches('/').to_owned();
        Path::parse(&prefix).map_err(|error| refused(format!("this is no prefix ({error})")))?;
        // TLS as everywhere in this program, in place of what a library would choose.
        static TLS: Once = Once::new();
        TLS.call_once(|| {
            // An error says that the process has chosen already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let (kind, store) = match scheme {
            "gs" => (Kind::Google, google(bucket, patience, variables)),
            "az" => (Kind::Azure, azure(bucket, patience, variables)),
            _ => (Kind::S3, s3(bucket, patience, variables)),
        };
        let store = store.map_err(|error| {
            let text = without_queries(&error.to_string());
            refused(format!("{text}; the environment says how the store is reached: {}", kind.credentials()))
        })?;
        Ok(Bucket { location, kind, prefix, store })
    }

    fn path(&self, name: &str) -> Path {
        Path::from_iter(
            [self.prefix.as_str(), name]
                .into_iter()
                .flat_map(|part| part.split('/'))
                .filter(|part| !part.is_empty()),
        )
    }

    /// An error of the store, in words that say what can be done.
    fn error(&self, doing: &'static str, name: &str, error: object_store::Error) -> Error {
        let object = match name.is_empty() {
            true => self.location.clone(),
            false => format!("{}/{name}", self.location),
        };
        Error::Archive { doing, object, reason: self.reason(&error) }
    }

    fn reason(&self, error: &object_store::Error) -> String {
        let text = without_queries(&error.to_string());
        let (kind, says) = (self.kind, text.to_ascii_lowercase());
        let has = |parts: &[&str]| parts.iter().any(|part| says.contains(part));
        let remedy = if has(&["nosuchbucket", "containernotfound", "bucket does not exist"]) {
            format!("there is no such {}: create it, or name another one", kind.bucket())
        } else if has(&[
            "invalidaccesskeyid",
            "signaturedoesnotmatch",
            "expiredtoken",
            "authenticationfailed",
        ]) || matches!(error, object_store::Error::Unauthenticated { .. })
        {
            format!("the store does not accept the credentials: look at {}", kind.credentials())
        } else if matches!(error, object_store::Error::PermissionDenied { .. }) || has(&["accessdenied"]) {
            format!(
                "access is denied: the owner of the credentials must be allowed to list the {}, and to read, write and delete objects in it",
                kind.bucket()
            )
        } else if has(&[
            "507 ",
            "quotaexceeded",
            "storagefull",
            "insufficient storage",
            "insufficientstorage",
        ]) {
            "the store is full: make room, or raise the quota; then the same command goes on with what is there already".to_owned()
        } else if has(&["169.254.169.254", "metadata.google", "169.254.170.2"]) {
            format!("there are no credentials: set {}", kind.credentials())
        } else if has(&["error sending request", "connect", "dns", "timed out", "timeout"]) {
            format!(
                "the store cannot be reached, and was asked again for as long as the patience lasts: look at the network, and at {}",
                kind.endpoint()
            )
        } else if has(&["without location"]) {
            "the bucket is in another region: set AWS_REGION".to_owned()
        } else {
            "it was asked again where that could help, for as long as the patience lasts".to_owned()
        };
        format!("{remedy} ({text})")
    }

    async fn objects(&self, folder: &str) -> Result<Vec<Object>> {
        let path = self.path(folder);
        let listed = self.store.list_with_delimiter(Some(&path)).await;
        let listed = listed.map_err(|error| self.error("list", folder, error))?;
        let now = SystemTime::now();
        let object = |meta: object_store::ObjectMeta| {
            let written = SystemTime::from(meta.last_modified);
            let age = now.duration_since(written).unwrap_or(Duration::ZERO);
            Some(Object { name: meta.location.filename()?.to_owned(), bytes: meta.size, age })
        };
        let mut objects: Vec<Object> = listed.objects.into_iter().filter_map(object).collect();
        objects.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(objects)
    }

    async fn folder_names(&self) -> Result<Vec<String>> {
        let path = self.path("");
        let listed = self.store.list_with_delimiter(Some(&path)).await;
        let listed = listed.map_err(|error| self.error("list", "", error))?;
        let folders = listed.common_prefixes.iter();
        let mut names: Vec<String> = folders.filter_map(|path| Some(path.filename()?.to_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }

    async fn read_part(&self, name: &str, from: u64, bytes: u64) -> Result<Option<Bytes>> {
        let range = GetRange::Bounded(from..from.saturating_add(bytes));
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        let failed = |error| self.error("read", name, error);
        match self.store.get_opts(&self.path(name), options).await {
            Ok(found) => found.bytes().await.map(Some).map_err(failed),
            Err(error @ object_store::Error::NotFound { .. }) if self.is_of_object(&error) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// True if what was not found is the object, and not the bucket.
    fn is_of_object(&self, error: &object_store::Error) -> bool {
        let says = error.to_string().to_ascii_lowercase();
        !says.contains("nosuchbucket")
            && !says.contains("containernotfound")
            && !says.contains("bucket does not exist")
    }
}

impl Archive for Bucket {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn prepare(&self) -> Pending<'_, ()> {
        // A store has no folders that would have to be made.
        Box::pin(async { Ok(()) })
    }

    fn folders(&self) -> Pending<'_, Vec<String>> {
        Box::pin(self.folder_names())
    }

    fn list<'a>(&'a self, folder: &'a str) -> Pending<'a, Vec<Object>> {
        Box::pin(self.objects(folder))
    }

    fn read<'a>(&'a self, name: &'a str, from: u64, bytes: u64) -> Pending<'a, Option<Bytes>> {
        Box::pin(self.read_part(name, from, bytes))
    }

    fn write<'a>(&'a self, name: &'a str) -> Pending<'a, Box<dyn Writing>> {
        Box::pin(async move {
            let upload = Upload {
                bucket: self.clone(),
                name: name.to_owned(),
                first: BytesMut::new(),
                parts: None,
                bytes: 0,
            };
            let upload: Box<dyn Writing> = Box::new(upload);
            Ok(upload)
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            match self.store.delete(&self.path(name)).await {
                Ok(()) => Ok(()),
                Err(error @ object_store::Error::NotFound { .. }) if self.is_of_object(&error) => Ok(()),
                Err(error) => Err(self.error("delete", name, error)),
            }
        })
    }
}

/// An object that is uploaded: in one request if it is small, else in parts.
#[derive(Debug)]
struct Upload {
    bucket: Bucket,
    name: String,
    /// The beginning, until there is enough for a part.
    first: BytesMut,
    parts: Option<WriteMultipart>,
    bytes: u64,
}

impl Upload {
    async fn add(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if self.parts.is_none() {
            self.first.extend_from_slice(&bytes);
            if self.first.len() <= PART_BYTES {
                return Ok(());
            }
            let upload = self.bucket.store.put_multipart(&self.bucket.path(&self.name)).await;
            let upload = upload.map_err(|error| self.bucket.error("write", &self.name, error))?;
            let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            parts.put(std::mem::take(&mut self.first).freeze());
            self.parts = Some(parts);
            return Ok(());
        }
        if let Some(parts) = &mut self.parts {
            let room = parts.wait_for_capacity(PARTS_UNDER_WAY).await;
            room.map_err(|error| self.bucket.error("write", &self.name, error))?;
            parts.put(bytes);
        }
        Ok(())
    }

    async fn close(self) -> Result<u64> {
        let Upload { bucket, name, first, parts, bytes } = self;
        let ended = match parts {
            Some(parts) => parts.finish().await.map(|_| ()),
            None => bucket.store.put(&bucket.path(&name), first.freeze().into()).await.map(|_| ()),
        };
        ended.map(|()| bytes).map_err(|error| bucket.error("write", &name, error))
    }
}

impl Writing for Upload {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, ()> {
        Box::pin(self.add(bytes))
    }

    fn finish(self: Box<Self>) -> Pending<'static, u64> {
        Box::pin(self.close())
    }

    fn abandon(self: Box<Self>) -> Pending<'static, ()> {
        Box::pin(async move {
            let Upload { bucket, name, parts, .. } = *self;
            match parts {
                Some(parts) => parts.abort().await.map_err(|error| bucket.error("give up", &name, error)),
                None => Ok(()),
            }
        })
    }
}

fn retries(patience: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig { max_backoff: BACKOFF_MAX, ..BackoffConfig::default() },
        // The patience is the bound.
        max_retries: usize::MAX,
        retry_timeout: patience,
    }
}

/// The variables that configure a store: those that begin so, and whose names the store knows.
fn known<'a, K: FromStr>(
    variables: &'a [(String, String)],
    begins: &'a str,
) -> impl Iterator<Item = (K, &'a String)> {
    let known = move |(name, value): &'a (String, String)| {
        let key = name.starts_with(begins).then(|| name.to_ascii_lowercase().parse().ok())??;
        Some((key, value))
    };
    variables.iter().filter_map(known)
}

fn s3(
    bucket: &str,
    patience: Duration,
    variables: &[(String, String)],
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let endpoint = |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
    let endpoint = endpoint("AWS_ENDPOINT_URL_S3").or(endpoint("AWS_ENDPOINT_URL"));
    // Plain text was asked for by the URL, as the tools of the store take it.
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let mut builder = AmazonS3Builder::new().with_allow_http(is_plain);
    for (key, value) in known::<AmazonS3ConfigKey>(variables, "AWS_") {
        builder = builder.with_config(key, value);
    }
    Ok(Arc::new(builder.with_bucket_name(bucket).with_retry(retries(patience)).build()?))
}

fn google(
    bucket: &str,
    patience: Duration,
    variables: &[(String, String)],
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in known::<GoogleConfigKey>(variables, "GOOGLE_") {
        builder = builder.with_config(key, value);
    }
    Ok(Arc::new(builder.with_bucket_name(bucket).with_retry(retries(patience)).build()?))
}

fn azure(
    container: &str,
    patience: Duration,
    variables: &[(String, String)],
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in known::<AzureConfigKey>(variables, "AZURE_") {
        builder = builder.with_config(key, value);
    }
    Ok(Arc::new(builder.with_container_name(container).with_retry(retries(patience)).build()?))
}

/// A text without what stands behind the question mark of an address: signatures may.
fn without_queries(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut is_address, mut is_query) = (false, false);
    for (at, symbol) in text.char_indices() {
        is_address |= text[at..].starts_with("://");
        if symbol.is_whitespace() || matches!(symbol, '"' | ')' | '<' | '>') {
            (is_address, is_query) = (false, false);
        }
        if is_address && symbol == '?' {
            is_query = true;
        }
        if !is_query {
            kept.push(symbol);
        }
    }
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
