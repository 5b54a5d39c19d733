//! Golden scripts of the configuration service.

mod scripts;
