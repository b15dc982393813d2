//! The last hour of a node's heartbeats as numbers, in memory alone: 32 bytes a sample, 180 at most.
//!
//! Sizes are kept to one part in sixteen million: they draw a line. The last heartbeat is on the record as it came.

use std::collections::VecDeque;

use lucia_people::host_api::Sample;
use lucia_proto::base::limits::{SAMPLES_AGE_MAX, SAMPLES_MAX};
use lucia_proto::base::time::UnixTime;
use lucia_proto::node::heartbeat::HeartbeatFields;

/// Room is made for this many more samples at a time: a quarter of an hour.
const STEP: usize = 30;
/// The load of the last hour is drawn from this many means.
pub(crate) const LOADS: usize = 12;
/// Each of these seconds, from a full one of them on: what is drawn does not change between two heartbeats.
const LOAD_STEP: u32 = 300;
/// Fractions are kept in hundredths: as much as any sensor is worth, and short again as text.
const HUNDREDTHS: f64 = 100.0;

/// One heartbeat, packed. A value that was not measured is the type's largest, a size that was not is no number.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// Unix seconds, until 2106.
    at: u32,
    memory_total: f32,
    memory_available: f32,
    storage_total: f32,
    storage_available: f32,
    load: u32,
    cpu: u16,
    celsius: i16,
    gpu: u16,
    gpu_celsius: i16,
}

impl Packed {
    fn at(self) -> UnixTime {
        UnixTime::from_secs(u64::from(self.at))
    }

    fn unpacked(self) -> Sample {
        Sample {
            at: self.at(),
            load_average: unpack(self.load, u32::MAX),
            cpu_percent: unpack(self.cpu, u16::MAX),
            cpu_temperature_celsius: unpack(self.celsius, i16::MAX),
            gpu_percent: unpack(self.gpu, u16::MAX),
            gpu_temperature_celsius: unpack(self.gpu_celsius, i16::MAX),
            memory_total_bytes: unpack_size(self.memory_total).unwrap_or(0),
            memory_available_bytes: unpack_size(self.memory_available).unwrap_or(0),
            storage_total_bytes: unpack_size(self.storage_total),
            storage_available_bytes: unpack_size(self.storage_available),
        }
    }
}

/// The samples of one node, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<Packed>);

impl Samples {
    /// Adds what a heartbeat says; what is over an hour old or one too many leaves.
    pub(crate) fn push(&mut self, heartbeat: &HeartbeatFields, at: UnixTime) {
        self.0.retain(|sample| at.since(sample.at()) <= SAMPLES_AGE_MAX);
        while self.0.len() >= SAMPLES_MAX {
            self.0.pop_front();
        }
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(STEP);
        }
        self.0.push_back(Packed {
            at: u32::try_from(at.secs()).unwrap_or(u32::MAX),
            memory_total: pack_size(Some(heartbeat.memory_total_bytes)),
            memory_available: pack_size(Some(heartbeat.memory_available_bytes)),
            storage_total: pack_size(heartbeat.storage_total_bytes),
            storage_available: pack_size(heartbeat.storage_available_bytes),
            load: pack(heartbeat.load_average, u32::MAX),
            cpu: pack(heartbeat.cpu_percent, u16::MAX),
            celsius: pack(heartbeat.cpu_temperature_celsius, i16::MAX),
            gpu: pack(heartbeat.gpu_percent, u16::MAX),
            gpu_celsius: pack(heartbeat.gpu_temperature_celsius, i16::MAX),
        });
    }

    /// The newest, if it is of the last hour before `now`.
    pub(crate) fn last(&self, now: UnixTime) -> Option<Sample> {
        self.0.back().filter(|sample| now.since(sample.at()) <= SAMPLES_AGE_MAX).map(|sample| sample.unpacked())
    }

    /// The mean load of each five minutes, oldest first; the last are those of the newest sample of the last hour.
    pub(crate) fn loads(&self, now: UnixTime) -> [Option<f64>; LOADS] {
        let mut sums = [(0.0, 0_u32); LOADS];
        let newest = self.0.back().filter(|sample| now.since(sample.at()) <= SAMPLES_AGE_MAX);
        let Some(last) = newest.map(|sample| sample.at / LOAD_STEP) else { return [None; LOADS] };
        for sample in &self.0 {
            let Some(load) = unpack(sample.load, u32::MAX) else { continue };
            let age = usize::try_from(last.saturating_sub(sample.at / LOAD_STEP)).unwrap_or(usize::MAX);
            if let Some(place) = LOADS.checked_sub(1).and_then(|end| end.checked_sub(age))
                && let Some((sum, count)) = sums.get_mut(place)
            {
                *sum += load;
                *count += 1;
            }
        }
        sums.map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)))
    }

    /// The last hour before `now`.
    pub(crate) fn view(&self, now: UnixTime) -> Vec<Sample> {
        let fresh = self.0.iter().filter(|sample| now.since(sample.at()) <= SAMPLES_AGE_MAX);
        fresh.map(|sample| sample.unpacked()).collect()
    }
}

fn pack<T: TryFrom<i64>>(value: Option<f64>, absent: T) -> T {
    #[expect(clippy::cast_possible_truncation, reason = "rounded on purpose; a checked heartbeat's values are small")]
    let hundredths = value.map(|value| (value * HUNDREDTHS).round() as i64);
    hundredths.and_then(|value| T::try_from(value).ok()).unwrap_or(absent)
}

fn unpack<T: Into<f64> + PartialEq>(value: T, absent: T) -> Option<f64> {
    (value != absent).then(|| value.into() / HUNDREDTHS)
}

#[expect(clippy::cast_precision_loss, reason = "on purpose, see the head of this file")]
fn pack_size(bytes: Option<u64>) -> f32 {
    bytes.map_or(f32::NAN, |bytes| bytes as f32)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made from a u64 by `pack_size`")]
fn unpack_size(bytes: f32) -> Option<u64> {
    (!bytes.is_nan()).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn fields(load: Option<f64>) -> HeartbeatFields {
        lucia_proto::base::json::from_str(
            &format!(
                r#"{{"nodeId":"0123456789abcdef0123456789abcdef","purpose":"heartbeat","hostname":"n1","osVersion":"Debian",
                "uptimeSeconds":1,"memoryTotalBytes":2048,"memoryAvailableBytes":1024{}}}"#,
                load.map_or_else(String::new, |load| format!(r#","loadAverage":{load},"cpuTemperatureCelsius":-12.5,"gpuPercent":100,
                "gpuTemperatureCelsius":91.5"#))
            ),
            4096,
            4,
        )
        .unwrap()
    }

    // spec: HB-6
    #[test]
    fn an_hour_and_180_samples_are_kept() {
        let start = UnixTime::from_secs(1_000_000);
        let mut samples = Samples::default();
        for at in 0..400 {
            samples.push(&fields(None), start.plus(Duration::from_secs(10 * at)));
        }
        let end = start.plus(Duration::from_secs(3990));
        assert_eq!(samples.view(end).len(), SAMPLES_MAX);
        assert!(samples.0.capacity() <= SAMPLES_MAX + STEP);
        assert!(size_of::<Packed>() <= 32);
        samples.push(&fields(None), end.plus(Duration::from_secs(3601)));
        assert_eq!(samples.0.len(), 1);
        assert!(samples.view(end.plus(Duration::from_secs(9000))).is_empty());
    }

    // spec: PG-31
    #[test]
    fn the_hours_load_is_drawn_from_means_of_five_minutes() {
        let mut samples = Samples::default();
        let at = |secs: u64| UnixTime::from_secs(1_200_000 + secs);
        assert_eq!(samples.loads(at(0)), [None; LOADS]);
        for (secs, load) in [(0, Some(9.0)), (300, Some(1.0)), (310, Some(2.0)), (599, None), (3300, Some(0.5))] {
            samples.push(&fields(load), at(secs));
        }
        let mut want = [None; LOADS];
        (want[0], want[1], want[11]) = (Some(9.0), Some(1.5), Some(0.5));
        assert_eq!(samples.loads(at(3300)), want);
        // Time alone changes nothing of it, as long as there is an hour to draw.
        assert_eq!(samples.loads(at(6900)), want);
        assert_eq!(samples.loads(at(6901)), [None; LOADS]);
        // What is older than the hour is not drawn.
        samples.push(&fields(Some(3.0)), at(3600));
        want = [None; LOADS];
        (want[0], want[10], want[11]) = (Some(1.5), Some(0.5), Some(3.0));
        assert_eq!(samples.loads(at(3600)), want);
    }

    #[test]
    fn numbers_come_back_as_they_were() {
        let mut samples = Samples::default();
        let now = UnixTime::from_secs(10);
        samples.push(&fields(Some(1.25)), now);
        samples.push(&fields(None), now);
        let view = samples.view(now);
        assert_eq!((view[0].load_average, view[0].cpu_temperature_celsius), (Some(1.25), Some(-12.5)));
        assert_eq!((view[0].gpu_percent, view[0].gpu_temperature_celsius), (Some(100.0), Some(91.5)));
        assert_eq!((view[1].gpu_percent, view[1].gpu_temperature_celsius), (None, None));
        assert_eq!((view[1].load_average, view[1].storage_total_bytes), (None, None));
        assert_eq!((view[1].memory_total_bytes, view[1].memory_available_bytes), (2048, 1024));
    }
}
