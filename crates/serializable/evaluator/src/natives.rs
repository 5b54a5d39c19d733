//! The functions that scripts call by name.

/// A library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    Bit,
    Json,
    Math,
    Redis,
    String,
    Table,
}

/// The meaning of a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Named {
    Native(Native),
    Library(Library),
    Number(f64),
    /// The null of JSON.
    Null,
}

macro_rules! natives {
    ($($native:ident $library:expr, $name:literal;)*) => {
        /// A function of a library, or one that is global.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Native {
            $(
                #[doc = $name]
                $native,
            )*
        }

        /// The function of this name in a library; without one, of those that are global.
        fn native(library: Option<Library>, name: &[u8]) -> Option<Native> {
            const NAMES: &[(Native, Option<Library>, &str)] = &[$((Native::$native, $library, $name)),*];
            let is_it = |(_, of, known): &&(Native, Option<Library>, &str)| *of == library && known.as_bytes() == name;
            NAMES.iter().find(is_it).map(|(native, ..)| *native)
        }
    };
}

natives! {
    Assert None, "assert";
    Ipairs None, "ipairs";
    Next None, "next";
    Pairs None, "pairs";
    ProtectedCall None, "pcall";
    RawEqual None, "rawequal";
    RawGet None, "rawget";
    RawSet None, "rawset";
    Select None, "select";
    ToNumber None, "tonumber";
    ToString None, "tostring";
    Type None, "type";
    Unpack None, "unpack";
    And Some(Library::Bit), "band";
    Or Some(Library::Bit), "bor";
    ExclusiveOr Some(Library::Bit), "bxor";
    Complement Some(Library::Bit), "bnot";
    ToBit Some(Library::Bit), "tobit";
    ShiftLeft Some(Library::Bit), "lshift";
    ShiftRight Some(Library::Bit), "rshift";
    ShiftArithmetic Some(Library::Bit), "arshift";
    Decode Some(Library::Json), "decode";
    Encode Some(Library::Json), "encode";
    Absolute Some(Library::Math), "abs";
    Ceiling Some(Library::Math), "ceil";
    Floor Some(Library::Math), "floor";
    Remainder Some(Library::Math), "fmod";
    Maximum Some(Library::Math), "max";
    Minimum Some(Library::Math), "min";
    Parts Some(Library::Math), "modf";
    Power Some(Library::Math), "pow";
    Random Some(Library::Math), "random";
    RandomSeed Some(Library::Math), "randomseed";
    SquareRoot Some(Library::Math), "sqrt";
    Call Some(Library::Redis), "call";
    TryCall Some(Library::Redis), "pcall";
    ErrorReply Some(Library::Redis), "error_reply";
    StatusReply Some(Library::Redis), "status_reply";
    Digest Some(Library::Redis), "sha1hex";
    Log Some(Library::Redis), "log";
    ReplicateCommands Some(Library::Redis), "replicate_commands";
    Byte Some(Library::String), "byte";
    Char Some(Library::String), "char";
    Find Some(Library::String), "find";
    Format Some(Library::String), "format";
    EachMatch Some(Library::String), "gmatch";
    Replace Some(Library::String), "gsub";
    Length Some(Library::String), "len";
    Lower Some(Library::String), "lower";
    Match Some(Library::String), "match";
    Repeat Some(Library::String), "rep";
    Reverse Some(Library::String), "reverse";
    Part Some(Library::String), "sub";
    Upper Some(Library::String), "upper";
    Concatenate Some(Library::Table), "concat";
    Count Some(Library::Table), "getn";
    Insert Some(Library::Table), "insert";
    Remove Some(Library::Table), "remove";
    Sort Some(Library::Table), "sort";
}

/// The meaning of a global name.
pub(crate) fn global(name: &str) -> Option<Named> {
    let library = match name {
        "bit" => Library::Bit,
        "cjson" => Library::Json,
        "math" => Library::Math,
        "redis" => Library::Redis,
        "string" => Library::String,
        "table" => Library::Table,
        _ => return native(None, name.as_bytes()).map(Named::Native),
    };
    Some(Named::Library(library))
}

/// The meaning of a name in a library.
pub(crate) fn field(library: Library, name: &[u8]) -> Option<Named> {
    if let Some(native) = native(Some(library), name) {
        return Some(Named::Native(native));
    }
    if library == Library::Json && name == b"null" {
        return Some(Named::Null);
    }
    let number = match (library, name) {
        (Library::Math, b"huge") => f64::INFINITY,
        (Library::Math, b"pi") => std::f64::consts::PI,
        (Library::Redis, b"LOG_DEBUG") => 0.0,
        (Library::Redis, b"LOG_VERBOSE") => 1.0,
        (Library::Redis, b"LOG_NOTICE") => 2.0,
        (Library::Redis, b"LOG_WARNING") => 3.0,
        _ => return None,
    };
    Some(Named::Number(number))
}
