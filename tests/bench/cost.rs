//! CPU time, and V: the CPU time of one raw P-256 verify.

use std::time::Duration;

use lucia_tests::sim::Failure;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::kill;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};

/// Verifies in one measurement of V: about 20 ms.
const VERIFIES: u32 = 200;
/// Two V further apart than this make a sample worthless.
const APART: f64 = 0.12;
/// Samples whose median is the figure.
const SAMPLES: usize = 15;

/// Keeps the calling thread, and what it starts from now on, on one CPU.
pub(crate) fn pin(cpu: usize) -> Result<(), Failure> {
    pin_process(Pid::from_raw(0), cpu)
}

/// Keeps a process on one CPU; threads it starts later inherit that.
pub(crate) fn pin_process(pid: Pid, cpu: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(pid, &set)?)
}

/// Lets the calling thread, and what it starts from now on, run on both CPUs.
pub(crate) fn unpin() -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(0)?;
    set.set(1)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// As many open files as this process may have, for it and what it starts: thousands of nodes are as many connections.
pub(crate) fn raise_file_limit() -> Result<(), Failure> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

/// CPU time of this thread.
pub(crate) fn thread_time() -> Result<Duration, Failure> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// CPU time of another process, all its threads.
pub(crate) fn process_time(pid: i32) -> Result<Duration, Failure> {
    let pid = Pid::from_raw(pid);
    kill(pid, None)?;
    Ok(clock_gettime(ClockId::pid_cpu_clock_id(pid)?)?.into())
}

/// Resident memory of another process in bytes.
pub(crate) fn resident(pid: i32) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages: u64 = text.split(' ').nth(1).ok_or("statm has no second field")?.parse()?;
    Ok(pages * 4096)
}

/// A key and a signature to measure V with.
pub(crate) struct Meter {
    public: Vec<u8>,
    signature: Vec<u8>,
}

/// What a run of samples gave.
pub(crate) struct Cost {
    /// Median cost in V.
    pub(crate) v: f64,
    /// Samples dropped because the machine changed its speed.
    pub(crate) dropped: usize,
}

impl Meter {
    /// A meter with a new key.
    pub(crate) fn new() -> Result<Self, Failure> {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(|_| "no key")?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .map_err(|err| err.to_string())?;
        let signature = key.sign(&random, &[7; 900]).map_err(|_| "no signature")?;
        Ok(Self { public: key.public_key().as_ref().to_vec(), signature: signature.as_ref().to_vec() })
    }

    /// One V, in seconds of this thread's CPU time.
    pub(crate) fn v(&self) -> Result<f64, Failure> {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.public);
        let before = thread_time()?;
        for _ in 0..VERIFIES {
            key.verify(&[7; 900], &self.signature).map_err(|_| "the meter's own signature failed")?;
        }
        Ok((thread_time()? - before).as_secs_f64() / f64::from(VERIFIES))
    }

    /// The median cost in V of one unit, where `sample` does some units and gives their number and CPU time.
    pub(crate) fn cost(&self, mut sample: impl FnMut() -> Result<(u32, Duration), Failure>) -> Result<Cost, Failure> {
        let (mut costs, mut dropped) = (Vec::new(), 0);
        // The first sample warms caches up and is thrown away.
        sample()?;
        while costs.len() < SAMPLES && dropped < 5 * SAMPLES {
            let before = self.v()?;
            let (units, spent) = sample()?;
            let after = self.v()?;
            if (before - after).abs() / before.min(after) > APART {
                dropped += 1;
                continue;
            }
            costs.push(spent.as_secs_f64() / f64::from(units) / ((before + after) / 2.0));
        }
        costs.sort_by(f64::total_cmp);
        let v = costs.get(costs.len() / 2).copied().ok_or("every sample was dropped: the machine is too uneven")?;
        Ok(Cost { v, dropped })
    }
}
