//! Texts and records that name users and let them in: grants as text, entries of access control, tokens, and credentials of a handshake.

use quorate_access::{
    Access, Claim, ClockTime, Entry, Grant, PasswordHash, Right, Role, Token, User, Visitor, Wish,
};
use quorate_core::{Key, Random, Value};
use quorate_credentials::token_hash;
use quorate_wire::{Credential, Wire, decode, encode};

use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "credentials",
    what: "grants, entries of users, roles and tokens, tokens and credentials: refused, or read as they are written, and never more allowed than is granted",
    draw,
    run,
};

const GRANTS: [&str; 8] = [
    "read:accounts",
    "read,write:accounts:app/",
    "administer:*",
    "coordinate,deploy:a.b-c_d",
    "write:_channels:news.",
    r"read:*:\x00\xff\\\n",
    "read,write,deploy,coordinate,administer:*",
    "read:accounts:a:b",
];

/// The kinds of input: what the first byte chooses.
const KINDS: u64 = 6;

fn grant(random: &mut Random) -> Grant {
    let text = GRANTS[random.index(GRANTS.len())];
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn bytes<const LENGTH: usize>(random: &mut Random) -> Value {
    let bytes: [u8; LENGTH] = std::array::from_fn(|_| random.next_u64() as u8);
    Value::copy_from_slice(&bytes)
}

fn user(random: &mut Random) -> User {
    let password = PasswordHash {
        memory_kib: random.between(8, 40_000) as u32,
        passes: random.between(1, 4) as u32,
        lanes: 1,
        salt: bytes::<16>(random),
        hash: bytes::<32>(random),
    };
    User {
        password: random.chance(0.5).then_some(password),
        certificates: (0..random.below(3)).map(|number| format!("ada{number}.example")).collect(),
        grants: (0..random.below(4)).map(|_| grant(random)).collect(),
        is_disabled: random.chance(0.2),
        ..User::new("ada")
    }
}

/// A kind, and an input of it.
fn draw(random: &mut Random) -> Vec<u8> {
    let kind = random.below(KINDS);
    let input = match kind {
        0 => GRANTS[random.index(GRANTS.len())].as_bytes().to_vec(),
        1 => encode(&user(random)).to_vec(),
        2 => {
            let grants = (0..random.below(4)).map(|_| grant(random)).collect();
            encode(&Role { name: "readers".to_owned(), grants }).to_vec()
        }
        3 => {
            let token = Token {
                user: "ada".to_owned(),
                hash: bytes::<32>(random),
                created_at: ClockTime::from_micros(random.next_u64()),
                expires_at: random.chance(0.5).then(|| ClockTime::from_micros(random.next_u64())),
                note: "for backups".to_owned(),
            };
            encode(&token).to_vec()
        }
        4 => {
            let digits: String = (0..32).map(|_| format!("{:02x}", random.below(256))).collect();
            format!("quorate_{digits}").into_bytes()
        }
        _ => {
            let credential = match random.chance(0.5) {
                true => Credential::password("ada", bytes::<12>(random)),
                false => Credential::token(bytes::<20>(random)),
            };
            encode(&credential).to_vec()
        }
    };
    [vec![kind as u8], input].concat()
}

fn run(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else { return };
    match u64::from(*kind) % KINDS {
        0 => {
            if let Ok(grant) = String::from_utf8_lossy(input).parse::<Grant>() {
                assert_eq!(grant.to_string().parse(), Ok(grant));
            }
        }
        1 => entry::<User>(input, |user| quorate_access::user_key(&user.name)),
        2 => entry::<Role>(input, |role| quorate_access::role_key(&role.name)),
        3 => entry::<Token>(input, |token| {
            token.id().map_or_else(|| Key::from("token/"), quorate_access::token_key)
        }),
        4 => {
            let text = std::str::from_utf8(input).unwrap_or_default();
            let digits = text.strip_prefix("quorate_").unwrap_or_default();
            let is_lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
            let has_form = digits.len() == 64 && digits.bytes().all(is_lower);
            assert_eq!(token_hash(input).is_some(), has_form);
        }
        _ => {
            if let Ok(credential) = decode::<Credential>(input) {
                assert_eq!(decode(&encode(&credential)), Ok(credential.clone()));
                let told = format!("{credential:?}");
                assert!(told.ends_with("…)"), "a secret is told");
            }
        }
    }
}

/// An entry is refused, or is the same when it is read again; and a visitor that has not logged in may do nothing once it is there.
fn entry<T: Wire + PartialEq + std::fmt::Debug>(input: &[u8], key: impl Fn(&T) -> Key) {
    let Ok(read) = decode::<T>(input) else { return };
    let (key, value) = (key(&read), Value::copy_from_slice(input));
    let Ok(found) = Entry::read(&key, &value) else { return };
    let again = encode(&read);
    assert_eq!(Entry::read(&key, &again), Ok(found));
    let access = Access::read([(&key, &value)]).expect("what is an entry is read as one");
    for claim in Claim::ALL {
        let is_allowed =
            access.admit(Visitor::Nobody, Wish::In("accounts", claim), ClockTime::from_micros(1)).is_ok();
        assert_eq!(is_allowed, !access.is_in_force());
    }
    for right in Right::ALL {
        let somewhere = access.admit(Visitor::Nobody, Wish::Somewhere(right), ClockTime::from_micros(1));
        assert_eq!(somewhere.is_ok(), !access.is_in_force());
    }
}
