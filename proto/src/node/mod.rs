//! What a node and the controller tell each other.

pub mod agent;
pub mod answer;
pub mod challenge;
pub mod directory;
pub mod enrollment;
pub mod feature;
pub mod first_contact;
pub mod heartbeat;
pub mod inventory;
pub mod phase;
pub mod report;
pub mod state;
