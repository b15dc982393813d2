//! Random bytes from the kernel. They wait until the kernel has enough, so that no two machines draw the same.

use zeroize::Zeroizing;

/// The kernel gives no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the kernel gives no random bytes (getrandom); this system cannot make a key")]
pub struct NoRandomness(#[source] getrandom::Error);

/// `N` random bytes, wiped from memory when dropped.
///
/// # Errors
/// When the kernel refuses.
pub fn bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(NoRandomness)?;
    Ok(bytes)
}
