//! How busy and how hot a GPU is, as far as the kernel tells: `/sys/class/drm` of the drivers that are part of it.
//!
//! amdgpu tells both; nouveau, radeon and xe tell a temperature. NVIDIA's own driver tells neither in any file, only
//! through its program, and the agent starts none for a reading; what `/proc/driver/nvidia` has (model, id and version)
//! belongs to the container runtime of a heartbeat, and comes with that.

use std::path::{Path, PathBuf};

use lucia_proto::base::limits::GPUS_MAX;

use super::system::{chip_temperature, hottest, known};
use crate::host::root::Root;
use crate::inventory::read;

/// Drivers of hwmon that measure a GPU.
const CHIPS: &[&str] = &["amdgpu", "radeon", "nouveau", "xe", "i915"];

/// What the GPUs of one machine are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gpus {
    /// Use of the busiest one, 0 to 100.
    pub(super) percent: Option<f64>,
    /// Temperature of the hottest one, between -40 and 150.
    pub(super) celsius: Option<f64>,
}

/// Reads them.
pub(super) fn gpus(root: &Root) -> Gpus {
    let cards = cards(root);
    Gpus {
        percent: cards.iter().filter_map(|card| busy(card)).max().map(f64::from),
        celsius: hottest(cards.iter().flat_map(|card| temperatures(card))),
    }
}

/// Whether there is a GPU that only NVIDIA's own program tells of.
pub(super) fn is_silent(root: &Root) -> bool {
    !read::names(&root.join("proc/driver/nvidia/gpus"), |_| true).is_empty()
}

/// The devices behind `card0`, `card1` and so on, not their outlets (`card0-DP-1`); at most 16. One that the kernel put
/// to sleep is left asleep: asking it would wake it, twice a minute.
fn cards(root: &Root) -> Vec<PathBuf> {
    let drm = root.join("sys/class/drm");
    let is_card = |name: &str| {
        name.strip_prefix("card").is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let devices = read::names(&drm, is_card).into_iter().take(GPUS_MAX).map(|name| drm.join(name).join("device"));
    let awake = |device: &PathBuf| {
        let status = read::attribute(&device.join("power/runtime_status"));
        !matches!(status.as_deref(), Some("suspended" | "suspending"))
    };
    devices.filter(awake).collect()
}

/// amdgpu's own measure. What is over 100 is a mistake of the driver, and absent.
fn busy(card: &Path) -> Option<u8> {
    read::number::<u8>(&card.join("gpu_busy_percent")).filter(|percent| *percent <= 100)
}

fn temperatures(card: &Path) -> Vec<f64> {
    let chips = known(&card.join("hwmon"), "hwmon", "name", CHIPS);
    // The edge is what others mean by the temperature of a GPU; its hottest spot and its memory run well above it.
    chips.iter().filter_map(|chip| chip_temperature(chip, "edge")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    fn put(scratch: &Scratch, card: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            scratch.put(&format!("sys/class/drm/{card}/device/{file}"), text);
        }
    }

    // spec: AG-73
    #[test]
    fn use_is_the_busiest_and_temperature_the_hottest_gpu_s() {
        let scratch = Scratch::new();
        assert_eq!(gpus(&scratch.root()), Gpus::default());
        put(
            &scratch,
            "card0",
            &[
                ("gpu_busy_percent", "37\n"),
                ("hwmon/hwmon3/name", "amdgpu\n"),
                ("hwmon/hwmon3/temp1_label", "edge\n"),
                ("hwmon/hwmon3/temp1_input", "54000\n"),
                ("hwmon/hwmon3/temp2_label", "junction\n"),
                ("hwmon/hwmon3/temp2_input", "91000\n"),
            ],
        );
        assert_eq!(gpus(&scratch.root()), Gpus { percent: Some(37.0), celsius: Some(54.0) });
        // A second one, and what belongs to no GPU.
        put(
            &scratch,
            "card1",
            &[("hwmon/hwmon9/name", "nouveau"), ("hwmon/hwmon9/temp1_input", "61500"), ("gpu_busy_percent", "4")],
        );
        put(&scratch, "card0-DP-1", &[("gpu_busy_percent", "99")]);
        put(&scratch, "renderD128", &[("gpu_busy_percent", "99")]);
        put(&scratch, "card2", &[("hwmon/hwmon1/name", "nvme"), ("hwmon/hwmon1/temp1_input", "80000")]);
        assert_eq!(gpus(&scratch.root()), Gpus { percent: Some(37.0), celsius: Some(61.5) });
        // A GPU that sleeps is not woken to be asked.
        put(&scratch, "card0", &[("power/runtime_status", "suspended\n")]);
        assert_eq!(gpus(&scratch.root()), Gpus { percent: Some(4.0), celsius: Some(61.5) });
    }

    // spec: AG-73
    #[test]
    fn nonsense_of_a_gpu_is_absent() {
        for (busy, want) in [
            ("0", Some(0.0)),
            ("100", Some(100.0)),
            ("101", None),
            ("255", None),
            ("256", None),
            ("-1", None),
            ("1.5", None),
            ("NaN", None),
            ("", None),
        ] {
            let scratch = Scratch::new();
            put(&scratch, "card0", &[("gpu_busy_percent", busy)]);
            assert_eq!(gpus(&scratch.root()).percent, want, "{busy:?}");
        }
        for (temperature, want) in
            [("150000", None), ("149999", Some(149.999)), ("-40000", None), ("x", None), ("99999999999", None)]
        {
            let scratch = Scratch::new();
            put(&scratch, "card0", &[("hwmon/hwmon0/name", "amdgpu"), ("hwmon/hwmon0/temp1_input", temperature)]);
            assert_eq!(gpus(&scratch.root()).celsius, want, "{temperature:?}");
        }
        // More than anybody has are not looked at.
        let scratch = Scratch::new();
        for card in 10..40 {
            put(&scratch, &format!("card{card}"), &[("gpu_busy_percent", &card.to_string())]);
        }
        assert_eq!(gpus(&scratch.root()).percent, Some(25.0));
    }

    #[test]
    fn what_only_a_program_tells_of_is_known_to_be_there() {
        let scratch = Scratch::new();
        assert!(!is_silent(&scratch.root()));
        scratch.put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t RTX 4000\nGPU UUID: \t GPU-1\n");
        assert!(is_silent(&scratch.root()));
        assert_eq!(gpus(&scratch.root()), Gpus::default());
    }
}
