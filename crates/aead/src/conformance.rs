//! What every backend must pass.
