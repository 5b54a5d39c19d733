//! The bugs that can be planted, so that tests and the simulator can prove that they would be noticed.

use quorate_core::rules::Hunt;

quorate_core::plants! {
    SnapshotIgnored = "S1", "6.3", Hunt::Scripted,
        "a final timestamp is the greatest that was proposed, although the snapshot is above it";
    BlindWritesIndependent = "S2", "6.5", Hunt::ALL_FAULTS,
        "a transaction that has written over one of its node without reading it does not depend on it";
    WaitingReadersUnnoted = "S3", "6.3", Hunt::ALL_FAULTS,
        "a reader that has had to wait for a pending version is not noted";
    ReadersForgotten = "S4", "6.6", Hunt::ALL_FAULTS,
        "a replica that has restarted votes as if nobody had read at it before";
    SafeWithoutVote = "S5", "6.2", Hunt::Scripted,
        "a transaction counts as safe although others may commit without a vote of its node";
    LaggingReplicaServes = "S6", "6.5", Hunt::ALL_FAULTS,
        "a replica serves snapshots that it was not granted";
    SessionIgnored = "S7", "5", Hunt::ALL_FAULTS,
        "a snapshot is the clock alone, whatever its session has seen";
    ReadOnlyAtOnce = "S8", "6.4", Hunt::ALL_FAULTS,
        "a read-only transaction that has read speculatively is final at once";
    CacheReadersUnnoted = "S9", "6.5", Hunt::ALL_FAULTS,
        "a reader that finds nothing in the cache leaves no trace there";
    ConflictsMixed = "S10", "6.2", Hunt::Scripted,
        "a snapshot may hold a local commit that is unsafe and a final one that came later";
    OrphansKept = "S12", "6.6", Hunt::Scripted,
        "a prepare that comes after its abort is let in";
    FloorIgnored = "S13", "6.1", Hunt::Scripted,
        "a snapshot below the floor reads what is left there";
    DoomedUntold = "S14", "3", Hunt::Scripted,
        "the client of a transaction that is doomed hears of it only when it commits";
    ForeignSpeculation = "S15", "6.2", Hunt::Scripted,
        "a prepared version of any node is read before it is final";
    CacheEmpty = "S16", "6.5", Hunt::ALL_FAULTS,
        "what a local commit has written to shards of other nodes is not kept for its node's readers";
    StaleDependentsKept = "S17", "6.5", Hunt::ALL_FAULTS,
        "a transaction survives although it has read from one that became final above its snapshot";
    DependenciesIgnored = "S18", "6.4", Hunt::ALL_FAULTS,
        "a transaction becomes final before those that it depends on";
    MissedLocally = "S19", "5", Hunt::Scripted,
        "a transaction goes on that has missed a local commit of its node, because that became final above its snapshot";
    EarlierVotesCount = "S20", "6.5", Hunt::Scripted,
        "a vote counts although another leader has let the transaction in than the one that had announced it to the replica";
    DeposedVouch = "S21", "6.6", Hunt::Scripted,
        "a leader says of a commit that it has not let in that its shard has applied it, without knowing that it still leads";
    PendingPassedOver = "S22", "6.5", Hunt::ALL_FAULTS,
        "consumers of changes are told that nothing else commits below a snapshot, whether something is pending there or not";
    ConsumersUnnoted = "S23", "6.3", Hunt::ALL_FAULTS,
        "a consumer of changes is not noted as a reader of all keys";
    BackupsUnnoted = "S24", "6.3", Hunt::ALL_FAULTS,
        "a reader of all keys for a backup is not noted";
    BackupsDoNotWait = "S25", "6.3", Hunt::ALL_FAULTS,
        "a reader of all keys for a backup does not wait for what may commit below its snapshot";
    IndexListOverlooked = "S26", "6.5", Hunt::ALL_FAULTS,
        "a shard lets a transaction in that has not read its index list";
    IndexListChangedBeside = "S27", "6.5", Hunt::ALL_FAULTS,
        "a shard changes its index list while transactions are pending that go by an earlier one";
    DeletionsUntold = "S28", "6.5", Hunt::ALL_FAULTS,
        "a replica does not tell of deleted keys in a range, and the cache of a home shows an older version";
    ExpiryUnwritten = "S29", "6.5", Hunt::ALL_FAULTS,
        "a transaction that finds a value over does not delete its key";
    ExpiredSnapshot = "S30", "6.4", Hunt::ALL_FAULTS,
        "a read-only transaction that finds a value over tells so without deleting its key";
    SweptUnread = "S31", "6.5", Hunt::ALL_FAULTS,
        "the sweeper deletes keys by the entries of their expiries, and does not read what they hold";
}

/// The rules that the machines of this crate follow.
pub type Rules = quorate_core::rules::Rules<Plant>;
