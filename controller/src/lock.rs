//! Locks that are taken all the same after a holder panicked: what they guard is replaced as a whole or not at all.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(guarded: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    guarded.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(guarded: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    guarded.write().unwrap_or_else(PoisonError::into_inner)
}
