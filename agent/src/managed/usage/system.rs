//! What the system calls itself, and how hot its processor is.

use std::path::{Path, PathBuf};

use lucia_proto::base::bounded::Text;

use crate::host::root::Root;
use crate::inventory::read;

/// Longest os-release.
const OS_RELEASE_MAX: u64 = 64 * 1024;
/// Drivers of hwmon that measure the processor itself.
const CPU_CHIPS: &[&str] = &["coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "via_cputemp"];
/// Thermal zones that do. `acpitz` is no such: on many boards it is one number for good.
const CPU_ZONES: &[&str] = &["x86_pkg_temp", "cpu-thermal", "cpu_thermal", "cpu0-thermal"];

/// What os-release(5) says in `PRETTY_NAME`, else `Linux`.
pub(super) fn os_version(root: &Root) -> Option<Text<1, 256>> {
    let pretty = ["etc/os-release", "usr/lib/os-release"].into_iter().find_map(|path| {
        let text = read::text(&root.join(path), OS_RELEASE_MAX)?;
        read::clean(&pretty_name(&text)?)
    });
    pretty.or_else(|| Text::fitted("Linux"))
}

fn pretty_name(os_release: &str) -> Option<String> {
    // As in a shell, the last one holds.
    let value = os_release.lines().rev().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
    Some(unquoted(value.trim()))
}

/// A value as a shell reads it: in double quotes `\` makes the next character plain, in single quotes nothing does.
fn unquoted(value: &str) -> String {
    if let Some(inner) = value.strip_prefix('\'') {
        return inner.strip_suffix('\'').unwrap_or(inner).to_owned();
    }
    let mut plain = String::new();
    let mut chars = value.strip_prefix('"').unwrap_or(value).chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => plain.extend(chars.next()),
            c => plain.push(c),
        }
    }
    plain
}

/// The hottest sensor of a processor in degrees Celsius, between -40 and 150. A sensor that says something else is
/// broken and does not count.
pub(super) fn cpu_temperature(root: &Root) -> Option<f64> {
    let chips = known(&root.join("sys/class/hwmon"), "hwmon", "name", CPU_CHIPS);
    let zone = || {
        let zones = known(&root.join("sys/class/thermal"), "thermal_zone", "type", CPU_ZONES);
        hottest(zones.iter().filter_map(|zone| degrees(&zone.join("temp"))))
    };
    // k10temp's Tctl is what the fan goes by, up to 27 degrees above the truth; Tdie is the truth, where it is there.
    hottest(chips.iter().filter_map(|chip| chip_temperature(chip, "Tdie"))).or_else(zone)
}

/// What is in `dir` under a name that begins with `prefix`, and calls itself one of `names` in its file `of`.
pub(super) fn known(dir: &Path, prefix: &str, of: &str, names: &[&str]) -> Vec<PathBuf> {
    let found = read::names(dir, |name| name.starts_with(prefix)).into_iter().map(|name| dir.join(name));
    found.filter(|at| read::attribute(&at.join(of)).is_some_and(|name| names.contains(&name.as_str()))).collect()
}

/// The hottest of a chip's sensors that have this label; of all of them, if none has a usable one.
pub(super) fn chip_temperature(chip: &Path, preferred: &str) -> Option<f64> {
    let inputs = read::names(chip, |name| name.starts_with("temp") && name.ends_with("_input"));
    let labelled = inputs.iter().map(|input| {
        let label = read::attribute(&chip.join(input.replace("_input", "_label"))).unwrap_or_default();
        (label, degrees(&chip.join(input)))
    });
    let sensors = labelled.collect::<Vec<_>>();
    let named = hottest(sensors.iter().filter(|(label, _)| label == preferred).filter_map(|(_, degrees)| *degrees));
    named.or_else(|| hottest(sensors.iter().filter_map(|(_, degrees)| *degrees)))
}

/// A sensor tells thousandths of a degree.
fn degrees(path: &Path) -> Option<f64> {
    let degrees = f64::from(read::number::<i32>(path)?) / 1000.0;
    (degrees > -40.0 && degrees < 150.0).then_some(degrees)
}

pub(super) fn hottest(degrees: impl Iterator<Item = f64>) -> Option<f64> {
    degrees.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scratch::Scratch;

    // spec: AG-72
    #[test]
    fn the_system_s_name_is_read_as_a_shell_would() {
        for (text, want) in [
            ("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n", "Debian GNU/Linux 13 (trixie)"),
            ("PRETTY_NAME='A \"b\" c'", "A \"b\" c"),
            (r#"PRETTY_NAME="a \"b\" \$c \\d" # x"#, r#"a "b" $c \d"#),
            ("PRETTY_NAME=Plain", "Plain"),
            ("PRETTY_NAME=One\nPRETTY_NAME=Two\n", "Two"),
            ("PRETTY_NAME=\"no end", "no end"),
            ("PRETTY_NAME=\"a\u{1b}[2J\u{202e}b\"", "a[2Jb"),
            ("PRETTY_NAME=\"\"", "Linux"),
            ("PRETTY_NAME=\"\\", "Linux"),
            ("PRETTY_NAME='", "Linux"),
            ("XPRETTY_NAME=x", "Linux"),
            ("", "Linux"),
        ] {
            let scratch = Scratch::new();
            scratch.put("etc/os-release", text);
            assert_eq!(os_version(&scratch.root()).unwrap().as_str(), want, "{text:?}");
        }
        assert_eq!(os_version(&Scratch::new().root()).unwrap().as_str(), "Linux");
        let usr = Scratch::new();
        usr.put("usr/lib/os-release", "PRETTY_NAME=Usr\n");
        assert_eq!(os_version(&usr.root()).unwrap().as_str(), "Usr");
    }

    // spec: AG-71
    #[test]
    fn a_broken_sensor_is_absent_and_the_others_count() {
        let hwmon = |chip: &str, values: &[(&str, &str)]| {
            let scratch = Scratch::new();
            scratch.put("sys/class/hwmon/hwmon0/name", &format!("{chip}\n"));
            for (at, (label, value)) in values.iter().enumerate() {
                scratch.put(&format!("sys/class/hwmon/hwmon0/temp{at}_input"), value);
                scratch.put(&format!("sys/class/hwmon/hwmon0/temp{at}_label"), label);
            }
            cpu_temperature(&scratch.root())
        };
        for value in ["-128000\n", "4095000\n", "-40000\n", "150000\n", "NaN\n", "", "99999999999999\n"] {
            assert_eq!(hwmon("coretemp", &[("Package id 0", value)]), None, "{value:?}");
            assert_eq!(hwmon("coretemp", &[("Core 0", value), ("Core 1", "45500\n")]), Some(45.5), "{value:?}");
        }
        assert_eq!(hwmon("coretemp", &[("Core 0", "41000"), ("Core 1", "45000")]), Some(45.0));
        assert_eq!(hwmon("k10temp", &[("Tctl\n", "77000"), ("Tdie\n", "50000")]), Some(50.0));
        assert_eq!(hwmon("k10temp", &[("Tctl", "77000"), ("Tdie", "-128000")]), Some(77.0));
        assert_eq!(hwmon("nvme", &[("Composite", "60000")]), None);
    }

    // spec: AG-71
    #[test]
    fn thermal_zones_stand_in_for_hwmon() {
        let scratch = Scratch::new();
        assert_eq!(cpu_temperature(&scratch.root()), None);
        scratch.put("sys/class/thermal/thermal_zone0/type", "acpitz\n");
        scratch.put("sys/class/thermal/thermal_zone0/temp", "27800\n");
        assert_eq!(cpu_temperature(&scratch.root()), None);
        scratch.put("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
        scratch.put("sys/class/thermal/thermal_zone1/temp", "52000\n");
        assert_eq!(cpu_temperature(&scratch.root()), Some(52.0));
    }
}
