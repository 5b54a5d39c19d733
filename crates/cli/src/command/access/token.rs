//! `quorate token`: bearer tokens of users.

use std::time::Duration;

use clap::{Args, Subcommand};
use quorate::Database;
use quorate::rights::{Token, TokenId};
use serde_json::{Value, json};

use crate::command::Common;
use crate::exit::{Outcome, Verdict};
use crate::output::{Align, Table, print_json};
use crate::runtime::block_on;

/// Create, list and revoke tokens: who shows one acts as its user.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate token create shop --days 90 --note \"the web shop\"   prints the token, this one time
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:7480/v1/keyspaces
  quorate token list
  quorate token revoke 1f0c5a7be29d4c31                       its connections may do nothing from then on")]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token for a user, and print it. It is kept nowhere: who loses it revokes it and creates another.
    Create {
        /// The user.
        #[arg(id = "owner", value_name = "USER")]
        user: String,
        /// It expires after so many days; by default it is good until it is revoked.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: Option<u32>,
        /// A note for people.
        #[arg(long, default_value = "")]
        note: String,
        #[command(flatten)]
        common: Common,
    },
    /// List the tokens, without themselves.
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Revoke a token.
    Revoke {
        /// Its id, as `quorate token list` shows it.
        id: TokenId,
        #[command(flatten)]
        common: Common,
    },
}

impl TokenArguments {
    pub(crate) fn run(self) -> Outcome {
        let (Action::Create { common, .. } | Action::List { common } | Action::Revoke { common, .. }) =
            &self.action;
        let common = common.clone();
        block_on(async { common.connected(async |db| self.action.act(db, common.json).await).await })
    }
}

impl Action {
    async fn act(self, db: &Database, json: bool) -> Outcome {
        match self {
            Action::Create { user, days, note, .. } => {
                let lifetime = days.map(|days| Duration::from_secs(u64::from(days) * 24 * 3600));
                let (id, secret) = db.create_token(&user, lifetime, &note).await?;
                if json {
                    let told = json!({ "id": id.to_string(), "user": user, "token": secret.reveal() });
                    print_json(&told)?;
                } else {
                    outln!("{}", secret.reveal());
                    errln!("token {id} of user {user} is shown this one time: keep it, or revoke it");
                }
            }
            Action::List { .. } => {
                let access = db.access().await?;
                if json {
                    let tokens: Vec<Value> = access.tokens().map(|(id, token)| to_json(id, token)).collect();
                    print_json(&json!({ "tokens": tokens }))?;
                } else {
                    outln!("{}", table(access.tokens()));
                }
            }
            Action::Revoke { id, .. } => {
                db.revoke_token(id).await?;
                if json {
                    print_json(&json!({ "token": id.to_string(), "done": "is revoked" }))?;
                } else {
                    outln!("token {id} is revoked");
                }
            }
        }
        Ok(Verdict::Good)
    }
}

fn table<'a>(tokens: impl Iterator<Item = (TokenId, &'a Token)>) -> Table {
    let mut table = Table::new(&[
        ("token", Align::Left),
        ("user", Align::Left),
        ("expires at, in seconds since 1970", Align::Right),
        ("note", Align::Left),
    ]);
    for (id, token) in tokens {
        let end =
            token.expires_at.map_or("never".to_owned(), |end| (end.as_micros() / 1_000_000).to_string());
        table.row([id.to_string(), token.user.clone(), end, token.note.clone()]);
    }
    table
}

fn to_json(id: TokenId, token: &Token) -> Value {
    json!({
        "id": id.to_string(),
        "user": token.user,
        "created_at_us": token.created_at.as_micros(),
        "expires_at_us": token.expires_at.map(|end| end.as_micros()),
        "note": token.note,
    })
}
