//! Types without values that stand for certificates where TLS is not built in.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use quorate_wire::Peer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;

use super::Secured;

/// The certificates by which connections are secured: there are none without the feature `tls`.
#[derive(Clone, Debug)]
pub enum Tls {}

/// The identity that the certificate of a peer proves: there is none without the feature `tls`.
#[derive(Clone, Debug)]
pub enum Certified {}

/// A connection that is encrypted: there is none.
pub(super) enum Encrypted {}

#[derive(Clone)]
pub(super) enum Session {}

pub(super) async fn accept_secured(tls: &Tls, _: TcpStream) -> Secured {
    match *tls {}
}

pub(super) async fn connect_secured(tls: &Tls, _: TcpStream) -> Secured {
    match *tls {}
}

pub(crate) fn contradiction(_: Option<&Certified>, _: Peer) -> Option<String> {
    None
}

pub(crate) fn is_same(_: Option<&Certified>, _: Option<&Certified>) -> bool {
    true
}

pub(crate) fn outlived(tls: &Tls, _: &Certified) -> Option<String> {
    match *tls {}
}

impl AsyncRead for Encrypted {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        match *self {}
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}

impl Session {
    pub(super) fn of(encrypted: Encrypted) -> (TcpStream, Session) {
        match encrypted {}
    }

    pub(super) fn decrypt(&self, _: &mut BytesMut, _: &mut BytesMut) -> io::Result<Option<usize>> {
        match *self {}
    }

    pub(super) fn try_write(&self, _: &[u8], _: &OwnedWriteHalf) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn try_flush(&self, _: &OwnedWriteHalf) -> io::Result<()> {
        match *self {}
    }
}
