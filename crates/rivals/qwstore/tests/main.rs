//! Tests of coordinators and replicas together.

mod scripts;
