//! A run in words: what an operator is told of it, and what is unusual about it.

use jiff::Timestamp;

use super::document::{Document, LineKind};
use super::environment::EnvironmentInfo;
use super::store::Store;
use super::{history, time};
use crate::domain::cluster::{Certificate, ClusterInfo, Served};
use crate::domain::{ExitCode, Kind, Outcome, Phase, Run, RunDetails, Verdict};

/// So many failures in a row are worth a word before the next run.
const FAILURES_WORTH_A_WORD: usize = 3;

/// An absolute time as operators read it: the clock alone when it was today.
#[must_use]
pub fn moment(at: Timestamp, now: Timestamp, environment: &EnvironmentInfo) -> String {
    let zone = &environment.zone;
    let (at, today) = (at.to_zoned(zone.clone()), now.to_zoned(zone.clone()).date());
    let form = if at.date() == today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    let suffix = if *zone == jiff::tz::TimeZone::UTC { " UTC" } else { "" };
    format!("{}{suffix}", at.strftime(form))
}

/// What is known of the cluster, to be read, and what is copied of it: the hash that machines are told.
#[must_use]
pub fn cluster(info: &ClusterInfo, now: Timestamp, environment: &EnvironmentInfo) -> (Document, String) {
    let mut doc = Document::default();
    doc.field("server", info.server.as_str());
    doc.field("version", info.version.as_deref().unwrap_or("not known"));
    match info.same_ca {
        Some(true) => doc.push(LineKind::Text, "Machines that join and pods trust the same CA."),
        Some(false) => doc
            .push(LineKind::Problem, "Machines that join are told another CA than the one that pods trust."),
        None => doc.push(LineKind::Muted, "Whether machines and pods trust the same CA is not known."),
    }
    for problem in &info.problems {
        doc.push(LineKind::Problem, problem.to_string());
    }
    match &info.served {
        Some(Served::Tls(certificate)) => {
            of_certificate(&mut doc, "as the API server shows itself", certificate, now, environment);
        }
        Some(Served::Plain) => {
            doc.push(LineKind::Muted, "The API server speaks plain HTTP: it has no certificate.");
        }
        None => {}
    }
    if let Some(server) = &info.join_server {
        doc.heading("cluster-info");
        doc.field("server", server.as_str());
    }
    for certificate in &info.join_ca {
        of_certificate(&mut doc, "CA of cluster-info", certificate, now, environment);
    }
    for certificate in &info.root_ca {
        of_certificate(&mut doc, "CA of kube-root-ca.crt", certificate, now, environment);
    }
    let hashes: Vec<&str> = info.join_ca.iter().map(|certificate| certificate.key_hash.as_str()).collect();
    (doc, hashes.join("\n"))
}

fn of_certificate(
    doc: &mut Document,
    heading: &str,
    certificate: &Certificate,
    now: Timestamp,
    environment: &EnvironmentInfo,
) {
    doc.heading(heading);
    doc.field("subject", certificate.subject.as_str());
    if !certificate.names.is_empty() {
        doc.field("names", certificate.names.join(", "));
    }
    let left = time::seconds_between(now, certificate.expires);
    let ends = moment(certificate.expires, now, environment);
    doc.field(
        "expires",
        if left == 0 { format!("{ends}: expired") } else { format!("{ends}, in {}", time::short(left)) },
    );
    doc.field("sha256", certificate.fingerprint.as_str());
    doc.field("key hash", certificate.key_hash.as_str());
}

/// What is unusual about approving this run; empty when nothing is.
#[must_use]
pub fn unusual(store: &Store, environment: &EnvironmentInfo, run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    let earlier =
        || store.runs_of(run.host.as_str()).filter(|r| r.uid != run.uid && r.created <= run.created);
    if let Some(known) = earlier().find_map(|r| r.key.as_ref())
        && run.key.as_ref() != Some(known)
    {
        notes.push(match &run.key {
            Some(key) => format!("The host key changed: it was {known}, now it is {key}."),
            None => format!("No host key this time; before it was {known}."),
        });
    }
    if let Some(address) = run.address {
        let mut others: Vec<&str> = store
            .heads()
            .filter(|(_, r)| r.address == Some(address) && r.host != run.host && r.phase != Phase::Rejected)
            .map(|(host, _)| &**host)
            .collect();
        others.sort_unstable();
        match others.as_slice() {
            [] => {}
            [other] => notes.push(format!("The address {address} is also that of {other}.")),
            [other, rest @ ..] => {
                notes.push(format!("The address {address} is also that of {other} and {} more.", rest.len()));
            }
        }
    }
    let failures = earlier()
        .filter(|r| r.kind == Kind::Provision && r.phase.finished())
        .take_while(|r| r.phase == Phase::Failed)
        .count();
    if failures >= FAILURES_WORTH_A_WORD {
        notes.push(format!("Its last {failures} runs failed."));
    }
    if let (Some(branch), ours) = (&run.branch, &environment.branch)
        && ours.as_ref().is_some_and(|o| o != branch)
    {
        let ours = ours.as_deref().unwrap_or_default();
        notes.push(format!("It asks for the branch {branch}; this environment's is {ours}."));
    }
    notes
}

/// What is said of the host's key where nothing is unusual.
#[must_use]
pub fn key_note(store: &Store, run: &Run) -> String {
    let Some(key) = &run.key else { return "It announced no host key.".to_owned() };
    let known = store.runs_of(run.host.as_str()).any(|r| r.uid != run.uid && r.key.as_ref() == Some(key));
    if known { format!("Key {key}, as before.") } else { format!("New key {key}, never seen before.") }
}

/// The name of a run for people: the host and which of its runs.
#[must_use]
pub fn title(run: &Run) -> String {
    match run.kind {
        Kind::Provision => format!("{} #{}", run.host, run.number),
        Kind::Check => format!("{} check #{}", run.host, run.number),
    }
}

/// Why a run stands where it stands, in one sentence or two.
#[must_use]
pub fn why(run: &Run, now: Timestamp, environment: &EnvironmentInfo) -> String {
    let by = run.decision.as_ref().map_or("nobody", |d| &d.by);
    let reason =
        |text: &str| if run.reason.is_empty() { text.to_owned() } else { format!("{text}: {}", run.reason) };
    let ended = |what: &str, outcome: &Outcome| {
        let (at, exit) = (moment(outcome.at, now, environment), outcome.exit);
        let advice =
            if exit.retry_may_mend() { "a retry may mend it" } else { "a retry alone will not mend it" };
        format!("{what} at {at}, {} (exit code {}): {advice}. {}", exit.words(), exit.code(), outcome.text)
    };
    let attempted = |text: String| match &run.last_attempt {
        Some(attempt) => {
            format!("{}. {}", text.trim_end_matches('.'), ended("Its last attempt ended", attempt))
        }
        None => text,
    };
    match run.phase {
        Phase::Pending => "It waits for a decision: approve it or reject it.".to_owned(),
        Phase::Queued if run.waits.is_some() => format!("It is approved by {by}, and {}.", run.reason),
        Phase::Queued if run.undelivered() => reason("It is approved; its details are still to be delivered"),
        Phase::Queued => attempted(reason("It is approved and delivered; its pod is not ready yet")),
        Phase::Running => attempted(reason("Its pod runs")),
        Phase::Stopping => reason("Its pod is being ended"),
        Phase::Stopped => reason("An operator stopped it"),
        Phase::Rejected => format!("{by} rejected it."),
        Phase::Ready => run.outcome.as_ref().map_or_else(|| reason("It is provisioned"), |o| o.text.clone()),
        Phase::Failed => match (&run.outcome, &run.last_attempt) {
            (Some(outcome), _) => ended("It failed", outcome),
            (None, Some(_)) => attempted(reason("The Job failed")),
            (None, None) => reason("The Job failed before the outcome was written"),
        },
    }
}

/// All that is known of a run and of its host's other ones, to be read.
#[must_use]
pub fn overview(
    store: &Store,
    environment: &EnvironmentInfo,
    run: &Run,
    details: Option<&RunDetails>,
    now: Timestamp,
) -> Document {
    let mut doc = Document::default();
    let at = |t: Timestamp| moment(t, now, environment);
    let why = why(run, now, environment);
    if !why.is_empty() {
        doc.push(LineKind::Text, why);
    }
    if run.phase == Phase::Pending {
        for note in unusual(store, environment, run) {
            doc.push(LineKind::Warning, note);
        }
    }
    history::timeline(&mut doc, store, environment, run, now);
    // Who decides wants to know who calls; everybody else how it went, and how it went before.
    if run.phase == Phase::Pending {
        announcement(&mut doc, environment, run, details, &at);
        facts(&mut doc, details);
        history::runs(&mut doc, store, run, now);
    } else {
        history::runs(&mut doc, store, run, now);
        announcement(&mut doc, environment, run, details, &at);
        decision(&mut doc, run, details, &at);
        facts(&mut doc, details);
    }
    doc.heading("run");
    doc.field("name", run.name.as_str());
    doc.field("uid", run.uid.as_str());
    doc.field("digest", run.digest.as_str());
    doc
}

fn announcement(
    doc: &mut Document,
    environment: &EnvironmentInfo,
    run: &Run,
    details: Option<&RunDetails>,
    at: &dyn Fn(Timestamp) -> String,
) {
    doc.heading("announcement");
    doc.field("announced", at(run.created));
    doc.field("last seen", at(run.seen));
    doc.field("address", run.address.map_or_else(|| "none, by name".to_owned(), |a| a.to_string()));
    let branch = run.branch.as_deref().or(environment.branch.as_deref());
    doc.field("branch", branch.unwrap_or("the repository's default"));
    doc.field("groups", if run.groups.is_empty() { "none".to_owned() } else { run.groups.join(" ") });
    if let Some(boot) = &run.boot {
        doc.field("boot", boot.as_str());
    }
    keys(doc, run, details);
}

fn keys(doc: &mut Document, run: &Run, details: Option<&RunDetails>) {
    match details {
        Some(details) if !details.announcement.keys.is_empty() => {
            doc.heading("keys");
            for key in &details.announcement.keys {
                doc.field(key.algorithm(), key.fingerprint());
            }
        }
        _ => doc.field("key", run.key.as_deref().unwrap_or("none")),
    }
}

fn decision(doc: &mut Document, run: &Run, details: Option<&RunDetails>, at: &dyn Fn(Timestamp) -> String) {
    let Some(decision) = &run.decision else { return };
    doc.heading("decision");
    doc.field(decision.verdict.as_str(), format!("by {} at {}", decision.by, at(decision.at)));
    if let Some(parameters) = details.and_then(|d| d.parameters.as_ref()) {
        doc.field("playbook", parameters.playbook.as_str());
        for (name, list) in
            [("tags", parameters.tags.join(" ")), ("limit", parameters.limit.clone().unwrap_or_default())]
        {
            if !list.is_empty() {
                doc.field(name, list);
            }
        }
        for (name, value) in &parameters.variables {
            doc.field(format!("{name} ="), value.to_string());
        }
    }
    if decision.verdict == Verdict::Approved {
        doc.field("delivered", run.delivered.map_or_else(|| "not yet".to_owned(), at));
    }
}

fn facts(doc: &mut Document, details: Option<&RunDetails>) {
    let Some(details) = details.filter(|d| !d.announcement.facts.is_empty()) else { return };
    doc.heading("facts");
    for (name, value) in &details.announcement.facts {
        doc.field(name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
}

/// How a run ended, in a few words; nothing of one that is under way.
#[must_use]
pub fn ending(run: &Run) -> String {
    match (run.phase, run.last_outcome()) {
        // Why a pod was told to stop, the Job knows and the pod does not.
        (Phase::Failed, Some(outcome)) if outcome.exit == ExitCode::Interrupted && !run.reason.is_empty() => {
            run.reason.clone()
        }
        (Phase::Failed, Some(outcome)) if outcome.text.is_empty() => outcome.exit.words().to_owned(),
        (Phase::Failed, Some(outcome)) => outcome.text.clone(),
        (Phase::Failed, None) => run.reason.clone(),
        (Phase::Ready, Some(outcome)) => {
            outcome.counts.map_or(String::new(), |c| format!("{} ok, {} changed", c.ok, c.changed))
        }
        _ => String::new(),
    }
}

/// How long a run took, or takes until now, in milliseconds; none before it started.
#[must_use]
pub fn duration(run: &Run, now: Timestamp) -> Option<u64> {
    let end = run.finished.or((!run.phase.finished()).then_some(now))?;
    let span = end.duration_since(run.started?);
    u64::try_from(span.as_millis().max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::sample;

    fn store(runs: Vec<Run>) -> Store {
        let mut store = Store::default();
        store.batch(runs);
        store
    }

    #[test]
    fn what_is_unusual_is_said() {
        let mut run = sample::run("web-9.org", Phase::Pending);
        run.key = Some("ed25519 SHA256:new".into());
        run.address = "10.0.0.1".parse().ok();
        run.branch = Some("wip".into());
        run.number = 9;
        run.created = sample::now();
        run.uid = "now".into();
        let mut others: Vec<Run> = (1..=3)
            .map(|n| {
                let mut old = sample::run("web-9.org", Phase::Failed);
                (old.uid, old.number, old.key) =
                    (sample::uid("web-9.org", n), n, Some("ed25519 SHA256:old".into()));
                old
            })
            .collect();
        let mut twin = sample::run("db-1.org", Phase::Ready);
        twin.address = run.address;
        others.push(twin);
        others.push(run.clone());
        let notes = unusual(&store(others), &sample::environment(), &run).join("\n");
        for part in ["key changed", "also that of db-1.org", "last 3 runs failed", "asks for the branch wip"]
        {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        let plain = sample::run("new.org", Phase::Pending);
        assert!(unusual(&store(vec![plain.clone()]), &sample::environment(), &plain).is_empty());
    }

    #[test]
    fn a_duration_ends_with_the_run() {
        let mut run = sample::run("a.org", Phase::Running);
        assert_eq!(duration(&run, sample::now()), None);
        run.started = Some(sample::ago(60));
        assert_eq!(duration(&run, sample::now()), Some(60_000));
        run.phase = Phase::Failed;
        assert_eq!(duration(&run, sample::now()), None, "over, but nobody knows when");
        run.finished = Some(sample::ago(30));
        assert_eq!(duration(&run, sample::now()), Some(30_000));
    }

    #[test]
    fn a_failed_run_says_whether_a_retry_may_mend_it() {
        let mut run = sample::run("a.org", Phase::Failed);
        run.outcome = Some(crate::domain::Outcome {
            exit: crate::domain::ExitCode::UnreachableHost,
            at: sample::now(),
            text: "ssh: connect: no route to host".into(),
            counts: None,
        });
        let text = why(&run, sample::now(), &sample::environment());
        assert!(
            text.contains("host unreachable")
                && text.contains("a retry may mend it")
                && text.contains("no route")
        );
        // Without an outcome the last attempt tells, and the Job why there is no other.
        run.last_attempt = run.outcome.take();
        run.reason = "BackoffLimitExceeded: too many failed pods.".into();
        let text = why(&run, sample::now(), &sample::environment());
        assert!(
            text.contains("BackoffLimitExceeded: too many failed pods. Its last attempt ended"),
            "{text}"
        );
        assert!(text.contains("host unreachable") && text.contains("no route"), "{text}");
    }
}
