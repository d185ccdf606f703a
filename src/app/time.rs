//! Times as operators read them: short, relative, and when they next read differently.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Whole seconds from one time to another; never negative, clocks differ.
#[must_use]
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

/// A span of seconds in at most four characters: `12s`, `9m`, `3h`, `12d`, `9y`.
#[must_use]
pub fn short(seconds: i64) -> String {
    let (value, unit) = unit(seconds);
    format!("{}{unit}", seconds / value)
}

fn unit(seconds: i64) -> (i64, char) {
    match seconds {
        ..MINUTE => (1, 's'),
        MINUTE..HOUR => (MINUTE, 'm'),
        HOUR..DAY => (HOUR, 'h'),
        _ if seconds < 1000 * DAY => (DAY, 'd'),
        _ => (365 * DAY, 'y'),
    }
}

/// When [`short`] of the time since `from` next reads differently.
#[must_use]
pub fn changes_at(from: Timestamp, now: Timestamp) -> Timestamp {
    let seconds = seconds_between(from, now);
    let (value, _) = unit(seconds);
    let next = (seconds / value + 1) * value;
    from.checked_add(SignedDuration::from_secs(next)).unwrap_or(Timestamp::MAX).max(now)
}

/// How long something took: `0.8s`, `41s`, `1m 42s`, `2h 5m`, `3d 4h`.
#[must_use]
pub fn length(milliseconds: u64) -> String {
    let seconds = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX);
    match seconds {
        ..10 if milliseconds < 50 => "0s".to_owned(),
        ..10 => format!("{}.{}s", seconds, milliseconds % 1000 / 100),
        10..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m {}s", seconds / MINUTE, seconds % MINUTE),
        HOUR..DAY => format!("{}h {}m", seconds / HOUR, seconds % HOUR / MINUTE),
        _ => format!("{}d {}h", seconds / DAY, seconds % DAY / HOUR),
    }
}

/// How long something takes so far, in whole seconds, so that it does not change ten times a second.
#[must_use]
pub fn length_so_far(seconds: i64) -> String {
    match seconds {
        ..MINUTE => format!("{seconds}s"),
        _ => length(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)),
    }
}

/// Reads `30s`, `5m`, `2h`, `3d`, `1w` as seconds.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<i64> {
    let unit = text.chars().last()?;
    let value = match unit {
        's' => 1,
        'm' => MINUTE,
        'h' => HOUR,
        'd' => DAY,
        'w' => 7 * DAY,
        _ => return None,
    };
    let number: i64 = text.strip_suffix(unit)?.parse().ok().filter(|n| *n >= 0)?;
    number.checked_mul(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (86_400 * 12, "12d")]
        {
            assert_eq!(short(seconds), text);
        }
        assert_eq!(short(86_400 * 1200), "3y");
    }

    #[test]
    fn an_age_says_when_it_changes() {
        let from: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        let at = |seconds| from + SignedDuration::from_secs(seconds);
        assert_eq!(changes_at(from, at(5)), at(6));
        assert_eq!(changes_at(from, at(60)), at(120));
        assert_eq!(changes_at(from, at(3599)), at(3600));
        assert_eq!(changes_at(from, at(7300)), at(10_800));
        assert_eq!(changes_at(at(9), at(0)), at(10), "a clock ahead of ours");
    }

    #[test]
    fn lengths() {
        for (ms, text) in
            [(840, "0.8s"), (9_999, "9.9s"), (41_000, "41s"), (102_000, "1m 42s"), (7_500_000, "2h 5m")]
        {
            assert_eq!(length(ms), text);
        }
    }

    #[test]
    fn ages_are_read() {
        assert_eq!(parse_seconds("90m"), Some(5400));
        for wrong in ["", "m", "5", "-5m", "5x", "é"] {
            assert_eq!(parse_seconds(wrong), None, "{wrong:?}");
        }
    }
}
