//! The agent of Lucia Nodes: makes the key, proves it, and runs on every node.
//!
//! Reading order, each naming only those to its left:
//! host < units < directory, keys < client < identity < owners < inventory, install < managed < cli
//!
//! | module | holds |
//! |---|---|
//! | [`host`] | paths, clocks, boot and machine ids, systemd's socket, the private directory, the status file |
//! | [`units`] | the closed list of programs, and PID 1 that runs them |
//! | [`directory`] | sssd and sshd as the worker's answer says: written, proven, brought back |
//! | [`keys`] | SSH keys as owners ordered them: written, withdrawn |
//! | [`client`] | where the controller is, the one connection to it, what a refusal means, how long to wait |
//! | [`identity`] | key, CSR, answer and certificate; enrolment and renewal decided from times alone |
//! | [`owners`] | who may order this node, and what became of it |
//! | [`orders`] | what each kind of order does here, and what is in force |
//! | [`inventory`] | what the machine is |
//! | [`install`] | the installer's verbs: discover, wait-install, installation-guard, stage-managed |
//! | [`managed`] | `managed-run`: its four refusals and its loops |
//! | [`cli`] | verbs, help, exit codes |
//!
//! Two rules hold everywhere. No answer of any kind makes the agent delete a key or a certificate (design.md I5).
//! Nothing in here starts a program (design.md N1).

pub mod cli;
pub mod client;
pub mod directory;
pub mod host;
pub mod identity;
pub mod install;
pub mod inventory;
pub mod keys;
pub mod managed;
pub mod orders;
pub mod owners;
pub mod units;
