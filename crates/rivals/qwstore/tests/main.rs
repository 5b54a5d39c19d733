//! Tests of coordinators and replicas together, and of each by itself.

mod alone;
mod scripts;
