//! The bench of our own share of a call is in `benches/`. It has a package of its own, so that nobody else builds what it needs.
