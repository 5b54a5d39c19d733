//! An archive that fails at chosen calls, for tests.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Archive, Directory, Object, Pending, Writing};
use crate::error::{Error, Result};

/// An archive in a folder whose calls fail from one number up to another.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Directory,
    calls: Arc<Calls>,
}

#[derive(Debug)]
struct Calls {
    made: AtomicU64,
    fail: Range<u64>,
}

impl Calls {
    fn call(&self, doing: &'static str, object: &str) -> Result<()> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        match self.fail.contains(&number) {
            true => Err(Error::Archive {
                doing,
                object: object.to_owned(),
                reason: format!("this is fault {number}"),
            }),
            false => Ok(()),
        }
    }
}

impl Faulty {
    /// The calls with these numbers fail, counted from zero.
    pub(crate) fn new(inner: &Directory, fail: Range<u64>) -> Self {
        Faulty { inner: inner.clone(), calls: Arc::new(Calls { made: AtomicU64::new(0), fail }) }
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.made.load(Ordering::Relaxed)
    }
}

impl Archive for Faulty {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn prepare(&self) -> Pending<'_, ()> {
        Box::pin(async {
            self.calls.call("prepare", "it")?;
            self.inner.prepare().await
        })
    }

    fn folders(&self) -> Pending<'_, Vec<String>> {
        Box::pin(async {
            self.calls.call("list", "all folders")?;
            self.inner.folders().await
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Pending<'a, Vec<Object>> {
        Box::pin(async move {
            self.calls.call("list", folder)?;
            self.inner.list(folder).await
        })
    }

    fn read<'a>(&'a self, name: &'a str, from: u64, bytes: u64) -> Pending<'a, Option<Bytes>> {
        Box::pin(async move {
            self.calls.call("read", name)?;
            self.inner.read(name, from, bytes).await
        })
    }

    fn write<'a>(&'a self, name: &'a str) -> Pending<'a, Box<dyn Writing>> {
        Box::pin(async move {
            self.calls.call("begin", name)?;
            let inner = self.inner.write(name).await?;
            let writing: Box<dyn Writing> = Box::new(FaultyWriting { inner, calls: Arc::clone(&self.calls) });
            Ok(writing)
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(async move {
            self.calls.call("delete", name)?;
            self.inner.delete(name).await
        })
    }
}

#[derive(Debug)]
struct FaultyWriting {
    inner: Box<dyn Writing>,
    calls: Arc<Calls>,
}

impl Writing for FaultyWriting {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, ()> {
        Box::pin(async move {
            self.calls.call("write", "an object")?;
            self.inner.write(bytes).await
        })
    }

    fn finish(self: Box<Self>) -> Pending<'static, u64> {
        Box::pin(async move {
            self.calls.call("finish", "an object")?;
            self.inner.finish().await
        })
    }

    fn abandon(self: Box<Self>) -> Pending<'static, ()> {
        Box::pin(async move {
            self.calls.call("abandon", "an object")?;
            self.inner.abandon().await
        })
    }
}
