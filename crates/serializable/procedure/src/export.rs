//! The macro that makes a module of a procedure.

/// Makes the crate that it stands in a WebAssembly module that runs this procedure, an expression that is the
/// same each time: a unit struct, or a constant. Where the target is no WebAssembly it does nothing.
///
/// It brings the allocator and, because the crate is `no_std`, the handler of panics; so it is used once in a
/// module.
#[macro_export]
macro_rules! export {
    ($procedure:expr) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[global_allocator]
            static ALLOCATOR: $crate::guest::Bump = $crate::guest::Bump::new();

            #[panic_handler]
            fn panicked(info: &::core::panic::PanicInfo<'_>) -> ! {
                $crate::guest::panicked(info)
            }

            #[expect(unsafe_code, reason = "the name by which the host finds it")]
            #[unsafe(export_name = "call")]
            extern "C" fn call(arguments_length: usize) -> i32 {
                $crate::guest::call(&$procedure, arguments_length)
            }

            #[expect(unsafe_code, reason = "the name by which the host finds it")]
            #[unsafe(export_name = "footprint")]
            extern "C" fn footprint(arguments_length: usize) -> i32 {
                $crate::guest::footprint(&$procedure, arguments_length)
            }
        };
    };
}
