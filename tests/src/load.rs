//! Strangers who hold connections open with requests that never end, from as many addresses as it takes to have every
//! place that strangers get; and what the unit gives the controller for all of it.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use lucia_proto::base::limits::DISCOVER_BODY_MAX;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::client::TlsStream;

use crate::cgroup::Limited;
use crate::programs::{Running, Site};
use crate::sim::{Failure, Target};

/// The unit of the controller, as it is shipped.
const UNIT: &str = include_str!("../../systemd/lucia-controller.service");

/// Addresses of strangers: each has as many places as one address gets, and together all that strangers get.
const ADDRESSES: u8 = 24;
/// Connections of each.
const EACH: usize = 64;
/// Before a connection that was refused or cut is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// Bytes of memory that the controller's unit gives it.
///
/// # Errors
/// When the unit says nothing of it.
pub fn unit_limit() -> Result<u64, Failure> {
    let given = UNIT.lines().find_map(|line| line.strip_prefix("MemoryMax=")?.strip_suffix('M'));
    Ok(given.ok_or("the unit limits no memory")?.parse::<u64>()? << 20)
}

/// Starts the site's controller in `cgroup`, from its first page of memory on.
///
/// # Errors
/// When it cannot be started.
pub fn start_limited(site: &Site, cgroup: &Limited) -> Result<Running, Failure> {
    let (door, config) = (cgroup.door(), site.file("controller.toml"));
    let program = site.bin.join("lucia-controller");
    let (door, program) = (door.to_string_lossy(), program.to_string_lossy());
    let join = "echo $$ > \"$0\" && exec \"$@\"";
    let args = ["-c", join, &door, &program, "run", "--config", &config];
    Ok(Running::start(Path::new("/bin/sh"), &args, &site.dir.path().join("limited.log"))?)
}

/// The most memory that a process had since it began, in bytes.
///
/// # Errors
/// When it is gone.
pub fn peak(pid: i32) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

/// What a stranger sends on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// A discovery of the largest size but for its last byte.
    Discovery,
    /// A head of nearly the largest size and as much as a small body may have, then a part of one TLS record.
    Buffers,
}

/// Every place that strangers get, each with a request that never ends, until `end`; what was refused or cut comes again.
pub async fn strangers(target: &Target, half: Half, end: Instant) -> u32 {
    let mut all = JoinSet::new();
    for host in 1..=ADDRESSES {
        let target = target.from_source(IpAddr::V4(Ipv4Addr::new(127, 3, 0, host)));
        for _ in 0..EACH {
            all.spawn(stranger(target.clone(), half, end));
        }
    }
    let mut sent = 0;
    while let Some(count) = all.join_next().await {
        sent += count.unwrap_or(0);
    }
    sent
}

/// How many requests were sent as far as they go.
async fn stranger(target: Target, half: Half, end: Instant) -> u32 {
    let mut sent = 0;
    while Instant::now() < end {
        if let Ok(Ok(stream)) = timeout_at(end, target.secure()).await
            && let Ok(Ok(stream)) = timeout_at(end, send(stream, half)).await
        {
            sent += 1;
            let mut stream = stream;
            // It is held until the other side ends it.
            while let Ok(Ok(1..)) = timeout_at(end, stream.read(&mut [0; 4096])).await {}
        }
        let _ = timeout_at(end, sleep(PAUSE)).await;
    }
    sent
}

async fn send(mut stream: TlsStream<TcpStream>, half: Half) -> std::io::Result<TlsStream<TcpStream>> {
    let (filler, length) = match half {
        Half::Discovery => (0, DISCOVER_BODY_MAX),
        Half::Buffers => (31 * 1024, 8 * 1024),
    };
    let head = format!(
        "POST /api/boot/discover HTTP/1.1\r\nHost: controller.test\r\nX-Filler: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n",
        "a".repeat(filler)
    );
    stream.write_all(head.as_bytes()).await?;
    let body = vec![b' '; length - 1];
    for part in body.chunks(16 * 1024) {
        stream.write_all(part).await?;
    }
    stream.flush().await?;
    if half == Half::Buffers {
        // The head of a record of 16 KiB and all but its end: it is kept until it is whole.
        let (tcp, _) = stream.get_mut();
        tcp.write_all(&[&[23, 3, 3, 0x40, 0x10][..], &[7; 16 * 1024]].concat()).await?;
    }
    Ok(stream)
}
