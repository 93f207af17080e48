//! Pure replays of recorded sequences, arithmetic and properties.
