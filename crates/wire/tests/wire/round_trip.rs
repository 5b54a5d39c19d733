//! What is encoded is read back, at exactly the length that was announced.

use std::fmt::Debug;

use proptest::prelude::*;
use quorate_core::Epoch;
use quorate_wire::{Packet, Wire, decode, decode_record, encode, encode_record};

use crate::generate::baselines::{self, Item};
use crate::generate::{configuration, granola};
use crate::{cases, generate};

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn every_packet_is_read_back(packet in generate::packet()) {
        let bytes = encode(&packet);
        prop_assert_eq!(bytes.len(), packet.encoded_len());
        prop_assert_eq!(decode::<Packet>(&bytes).unwrap(), packet);
    }

    #[test]
    fn every_record_is_read_back(epoch in generate::epoch(), record in generate::record()) {
        record_is_read_back(epoch, record)?;
    }

    #[test]
    fn every_record_on_a_log_is_read_back(epoch in generate::epoch(), fact in baselines::fact()) {
        record_is_read_back(epoch, fact)?;
    }

    #[test]
    fn every_record_of_granola_is_read_back(epoch in generate::epoch(), fact in granola::fact()) {
        record_is_read_back(epoch, fact)?;
    }

    #[test]
    fn every_record_of_the_configuration_is_read_back(
        epoch in generate::epoch(),
        fact in configuration::fact(),
    ) {
        record_is_read_back(epoch, fact)?;
    }

    #[test]
    fn every_record_of_the_quorum_store_is_read_back(
        epoch in generate::epoch(),
        record in generate::qwstore::record(),
    ) {
        record_is_read_back(epoch, record)?;
    }

    #[test]
    fn every_deployment_is_read_back(deployment in generate::deployment()) {
        prop_assert_eq!(decode(&encode(&deployment)), Ok(deployment));
    }

    #[test]
    fn every_record_of_a_drop_is_read_back(dropped in generate::dropped()) {
        prop_assert_eq!(decode(&encode(&dropped)), Ok(dropped));
    }

    #[test]
    fn every_keyspace_is_read_back(keyspace in generate::keyspace()) {
        prop_assert_eq!(decode(&encode(&keyspace)), Ok(keyspace));
    }
}

fn record_is_read_back<R: Wire + PartialEq + Debug>(epoch: Epoch, record: R) -> Result<(), TestCaseError> {
    let mut bytes = bytes::BytesMut::new();
    encode_record(epoch, &record, &mut bytes);
    prop_assert!(!bytes.is_empty(), "a log cannot hold an empty record");
    prop_assert!(
        epoch != Epoch::FIRST || bytes.len() == record.encoded_len(),
        "the first epoch costs nothing"
    );
    prop_assert_eq!(decode_record(&bytes).unwrap(), (epoch, record));
    Ok(())
}

/// Asserts that the debug forms of so many generated values hold each word at least five times.
fn assert_reached<T: Debug>(strategy: impl Strategy<Value = T>, count: usize, words: &[&str]) {
    let tally = generate::tally(strategy, count);
    for word in words {
        let times = tally.get(*word).copied().unwrap_or(0);
        assert!(times >= 5, "{word} is generated too rarely: {tally:?}");
    }
}

#[test]
fn the_generators_reach_every_answer_to_a_comparison() {
    let words = ["Idle", "Waiting", "Walking", "Done", "Passed", "Busy", "Unable"];
    assert_reached(generate::verify::answer(), 300, &words);
}

#[test]
fn the_generators_reach_every_variant() {
    let words = [
        "Envelope",
        "Hello",
        "Welcome",
        "Busy",
        "CatalogueChanged",
        "DirectoryRequest",
        "Directory",
        "StatusRequest",
        "Status",
        "Goodbye",
        "ReplicaService",
        "AcceptLoss",
        "AcceptLossReply",
        "DeclareLost",
        "DeclareLostReply",
        "Verify",
        "VerifyReply",
        "Position",
        "Below",
        "Space",
        "Unsupported",
        "Join",
        "JoinReply",
        "ReplicasRequest",
        "Replicas",
        "Settings",
        "Lives",
        "KnownLife",
        "Node",
        "Client",
        "Read",
        "ReadReply",
        "Scan",
        "ScanReply",
        "Recover",
        "CoordinatorChange",
        "CoordinatorChangeReply",
        "RecordOutcome",
        "RecordOutcomeReply",
        "Superseded",
        "RecoverReply",
        "ClockAhead",
        "CommitPrepared",
        "HeldReads",
        "QuorumRead",
        "QuorumReadReply",
        "QuorumScan",
        "QuorumScanReply",
        "SnapshotTooOld",
        "ReadValidated",
        "ReadValidatedReply",
        "Validated",
        "ClockProbe",
        "ClockProbeReply",
        "ReadInTurn",
        "ReadWaits",
        "Outdated",
        "ProposeInconsistent",
        "ProposeConsensus",
        "InconsistentReply",
        "ConsensusReply",
        "FinalizeInconsistent",
        "FinalizeConsensus",
        "Confirm",
        "HigherView",
        "StartViewChange",
        "DoViewChange",
        "StartView",
        "ViewQuery",
        "ViewQueryReply",
        "PartsMissing",
        "Arrived",
        "Ok",
        "Abstain",
        "Abort",
        "Retry",
        "Commit",
        "Committed",
        "Aborted",
        "Tentative",
        "Finalized",
        "Sync",
        "Memory",
    ];
    assert_reached(generate::packet(), 9_000, &words);
    let words = [
        "Initialised",
        "EpochEntered",
        "ViewEntered",
        "Voted",
        "VoteFinalized",
        "Decided",
        "DecisionExecuted",
        "Promised",
        "ViewPage",
        "ViewInstalled",
        "LifeNoted",
        "ReadsPromised",
    ];
    assert_reached(generate::record(), 500, &words);
}

/// Each type by itself, because the names of variants recur: an entry, a standing and a page are `Prepared`.
#[test]
fn the_generators_reach_every_variant_on_a_log() {
    let words = ["Tapir", "Baseline", "Configuration", "QwStore", "Granola", "Log", "Own"];
    assert_reached(generate::packet(), 500, &words);
    let words = [
        "Prepare",
        "PrepareOk",
        "StartViewChange",
        "DoViewChange",
        "StartView",
        "Fetch",
        "Fetched",
        "FromState",
        "FetchState",
        "WhichLife",
        "KnownLife",
        "NewLife",
        "LifeNoted",
        "Join",
        "EpochBegun",
        "EpochStarted",
    ];
    assert_reached(baselines::log_message(), 500, &words);
    let words = [
        "Read",
        "ReadReply",
        "Scan",
        "ScanReply",
        "Release",
        "Wounded",
        "NextTimestamp",
        "NextTimestampReply",
        "Prepare",
        "PrepareReply",
        "Validate",
        "ValidateReply",
        "ReadCurrent",
        "ReadCurrentReply",
        "ReadAt",
        "ReadAtReply",
        "SnapshotTooOld",
        "Coordinate",
        "CoordinateReply",
        "Decide",
        "Inquire",
        "InquireReply",
        "NotLeading",
        "AskFloor",
        "AskFloorReply",
        "Keys",
        "Range",
        "Prepared",
        "Ended",
        "TooOld",
        "Forgotten",
        "Proposed",
        "NotBefore",
    ];
    assert_reached(baselines::own_message(), 1_000, &words);
    let words = [
        "Appended",
        "ViewEntered",
        "LifeNoted",
        "ViewPage",
        "ViewInstalled",
        "Awaiting",
        "ViewState",
        "SnapshotBegun",
        "SnapshotEntries",
        "SnapshotPage",
        "SnapshotEnded",
    ];
    assert_reached(baselines::fact(), 500, &words);
    let words = ["Prepared", "Refused", "Decided", "Floor", "Ceiling"];
    assert_reached(baselines::item(), 500, &words);
    let kinds = baselines::item().prop_map(|item| match item {
        Item::Own(_) => "Own",
        Item::NextGroup(_) => "NextGroup",
    });
    assert_reached(kinds, 500, &["Own", "NextGroup"]);
    let words = ["Versions", "Prepared", "Ended", "Bounds"];
    assert_reached(baselines::page(), 500, &words);
}

#[test]
fn the_generators_reach_every_variant_of_the_configuration() {
    let words = [
        "Get",
        "GetReply",
        "Scan",
        "ScanReply",
        "Check",
        "CheckReply",
        "Write",
        "Settle",
        "WriteReply",
        "Grant",
        "Renew",
        "Renewed",
        "Release",
        "NoSuchLease",
        "Watch",
        "Unwatch",
        "Changes",
        "Forgotten",
        "NotLeading",
        "Refused",
        "Linearizable",
        "Stale",
        "Key",
        "Range",
        "Written",
        "NotHeld",
        "Full",
        "Settled",
        "Malformed",
        "TooLarge",
        "TooOld",
        "TooMany",
        "Duration",
    ];
    assert_reached(configuration::own_message(), 2_000, &words);
    assert_reached(configuration::entry(), 500, &["Write", "Settle", "Grant", "End"]);
    let words = ["Revisions", "Keys", "Changes", "Leases", "Clients", "Remembered", "Done"];
    assert_reached(configuration::page(), 500, &words);
}

#[test]
fn the_generators_reach_every_variant_of_granola() {
    let words = [
        "Request",
        "Inquire",
        "Begin",
        "Prepared",
        "Gathered",
        "Reply",
        "Vote",
        "Resolved",
        "Abandoned",
        "NotLeading",
        "AskFloor",
        "AskFloorReply",
        "Ended",
        "Forgotten",
        "TooOld",
        "Lost",
        "ClockAhead",
        "Committed",
        "Aborted",
        "Conflict",
        "Done",
        "Refused",
        "Commit",
        "Abort",
        "ReadOnly",
        "Independent",
        "Coordinated",
    ];
    assert_reached(granola::own_message(), 2_000, &words);
    assert_reached(granola::entry(), 500, &["Voted", "Floor", "Lost", "Nothing", "Final"]);
    let words = ["Application", "Keys", "Procedures", "Pending", "Ended", "Bounds"];
    assert_reached(granola::page(), 500, &words);
}

#[test]
fn the_generators_reach_every_variant_of_the_quorum_store() {
    let words = [
        "Read",
        "ReadReply",
        "Scan",
        "ScanReply",
        "Late",
        "ClockAhead",
        "Outdated",
        "Gather",
        "GatherReply",
        "FetchPuts",
        "Puts",
        "Complete",
        "CompleteReply",
        "RaiseFloor",
        "ProposeInconsistent",
        "InconsistentReply",
        "FinalizeInconsistent",
        "Confirm",
        "HigherView",
        "StartViewChange",
        "DoViewChange",
        "StartView",
        "ViewQuery",
        "ViewQueryReply",
        "PartsMissing",
        "Arrived",
    ];
    assert_reached(generate::qwstore::message(), 1_000, &words);
    let words = [
        "Initialised",
        "ViewEntered",
        "PutRecorded",
        "ViewPage",
        "ViewState",
        "ViewInstalled",
        "Refusing",
        "Completed",
        "FloorRaised",
        "SnapshotBegun",
        "SnapshotPage",
        "SnapshotEnded",
        "LifeNoted",
    ];
    assert_reached(generate::qwstore::record(), 500, &words);
}
