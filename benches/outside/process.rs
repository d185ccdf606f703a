//! What a process costs, as `/proc` tells it.

use std::time::Duration;

/// The memory that is in use now, in megabytes: all that is resident, and what is not the program's file.
pub(crate) fn resident(pid: u32) -> (f64, f64) {
    (field(pid, "VmRSS:"), field(pid, "RssAnon:"))
}

/// The most memory that was resident at any time, in megabytes.
pub(crate) fn peak(pid: u32) -> f64 {
    field(pid, "VmHWM:")
}

fn field(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0 / 1_000_000.0
}

/// The processor time that its threads took so far.
pub(crate) fn processor(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of).sum())
}
