//! The files between this controller and the enrollment worker.
