//! What is encoded is read back, at exactly the length that was announced.

use proptest::prelude::*;
use quorate_core::Epoch;
use quorate_wire::{Packet, Wire, decode, decode_record, encode, encode_record};

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
        let mut bytes = bytes::BytesMut::new();
        encode_record(epoch, &record, &mut bytes);
        prop_assert!(!bytes.is_empty(), "a log cannot hold an empty record");
        prop_assert!(epoch != Epoch::FIRST || bytes.len() == record.encoded_len(), "the first epoch costs nothing");
        prop_assert_eq!(decode_record(&bytes).unwrap(), (epoch, record));
    }

    #[test]
    fn every_keyspace_is_read_back(keyspace in generate::keyspace()) {
        prop_assert_eq!(decode(&encode(&keyspace)), Ok(keyspace));
    }
}

#[test]
fn the_generators_reach_every_variant() {
    let packets = generate::tally(generate::packet(), 3_000);
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
        "Unsupported",
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
    for word in words {
        assert!(
            packets.get(word).is_some_and(|&count| count >= 5),
            "{word} is generated too rarely: {packets:?}"
        );
    }
    let records = generate::tally(generate::record(), 500);
    let words = [
        "Initialised",
        "ViewEntered",
        "Voted",
        "VoteFinalized",
        "Decided",
        "DecisionExecuted",
        "Promised",
        "ViewPage",
        "ViewInstalled",
        "ReadsPromised",
    ];
    for word in words {
        assert!(
            records.get(word).is_some_and(|&count| count >= 5),
            "{word} is generated too rarely: {records:?}"
        );
    }
}
