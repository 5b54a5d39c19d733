//! The runtime on real sockets: who is served, who is refused, and that nobody else notices.

mod connections;
mod delay;
mod harness;
mod hostile;
mod tls;
