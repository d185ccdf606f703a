//! Pods of a run, and their logs.

use ::kube::Api;
use ::kube::api::{ListParams, LogParams};
use futures_util::{AsyncBufRead, AsyncBufReadExt, Stream, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;

use super::{Kube, KubeError, KubeErrorKind};
use crate::domain::{LogLine, Pod};

/// A line that is longer is cut: a log is read by people.
const LONGEST_LINE: usize = 64 * 1024;

impl Kube {
    fn pod_api(&self) -> Api<KubePod> {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// The pods of a run, oldest first.
    ///
    /// # Errors
    /// When the API server does not answer or refuses.
    pub async fn pods(&self, run_uid: &str) -> Result<Vec<Pod>, KubeError> {
        let params = ListParams::default().labels(&format!("batch.kubernetes.io/controller-uid={run_uid}"));
        let list = self.limited("list the run's pods", self.pod_api().list(&params)).await?;
        let mut pods: Vec<Pod> = list.items.iter().map(read).collect();
        pods.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(pods)
    }

    /// A pod's log, line by line, from `since` on, of which whole seconds count; with `follow` until the pod ends.
    ///
    /// # Errors
    /// When there is no such pod, or its container has not started (`Invalid`), or the API server refuses. An error in the
    /// middle ends the stream.
    pub async fn log(
        &self,
        pod: &str,
        since: Option<Timestamp>,
        follow: bool,
    ) -> Result<impl Stream<Item = Result<LogLine, KubeError>> + Send + use<>, KubeError> {
        let params = LogParams { follow, since_time: since, timestamps: true, ..LogParams::default() };
        let doing = format!("read the log of pod {pod}");
        let reader = self.limited(doing.clone(), self.pod_api().log_stream(pod, &params)).await?;
        let reader = Box::pin(reader);
        Ok(stream::unfold(Some((reader, doing)), |state| async move {
            let (mut reader, doing) = state?;
            match read_line(&mut reader).await {
                Ok(None) => None,
                Ok(Some((line, whole))) => Some((Ok(parse(line, whole)), Some((reader, doing)))),
                Err(error) => {
                    Some((Err(KubeError::new(KubeErrorKind::Unreachable, doing, error.to_string())), None))
                }
            }
        }))
    }

    /// A pod's whole log as it is now: its bytes, nothing added.
    ///
    /// # Errors
    /// When there is no such pod, or its container has not started (`Invalid`), or the API server refuses.
    pub async fn log_bytes(&self, pod: &str) -> Result<impl AsyncBufRead + Send + Unpin + use<>, KubeError> {
        let doing = format!("read the log of pod {pod}");
        Ok(Box::pin(self.limited(doing, self.pod_api().log_stream(pod, &LogParams::default())).await?))
    }
}

/// Reads one line of which no more than [`LONGEST_LINE`] is kept, however long it is, and whether its end came; nothing at the end.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<(Vec<u8>, bool)>> {
    let mut line = Vec::new();
    let mut any = false;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(any.then_some((line, false)));
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let text = end.and_then(|end| chunk.get(..end)).unwrap_or(chunk);
        let room = LONGEST_LINE.saturating_sub(line.len());
        line.extend(text.iter().take(room));
        let used = end.map_or(chunk.len(), |end| end + 1);
        reader.consume_unpin(used);
        if end.is_some() {
            return Ok(Some((line, true)));
        }
    }
}

/// Splits the node's timestamp from the line.
fn parse(mut line: Vec<u8>, whole: bool) -> LogLine {
    let space = line.iter().take(40).position(|b| *b == b' ');
    let at = space
        .and_then(|end| line.get(..end))
        .and_then(|head| std::str::from_utf8(head).ok())
        .and_then(|head| head.parse::<Timestamp>().ok());
    let text = match (at, space) {
        (Some(_), Some(end)) => line.split_off(end + 1),
        _ => line,
    };
    LogLine { at, text, whole }
}

fn read(pod: &KubePod) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let container = status.container_statuses.unwrap_or_default().into_iter().next();
    let state = container.and_then(|c| c.state).unwrap_or_default();
    let (mut started, mut finished, mut exit_code) = (None, None, None);
    let mut why = (status.reason, status.message);
    if let Some(waiting) = state.waiting {
        why = (waiting.reason.or(why.0), waiting.message.or(why.1));
    }
    if let Some(running) = state.running {
        started = running.started_at;
    }
    if let Some(ended) = state.terminated {
        (started, finished, exit_code) = (ended.started_at, ended.finished_at, Some(ended.exit_code));
        why = (ended.reason.filter(|r| r != "Completed").or(why.0), ended.message.or(why.1));
    }
    Pod {
        name: pod.metadata.name.clone().unwrap_or_default(),
        phase: status.phase.unwrap_or_else(|| "Pending".to_owned()),
        reason: [why.0, why.1].into_iter().flatten().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(": "),
        created: pod.metadata.creation_timestamp.as_ref().map(|t| t.0).unwrap_or_default(),
        started: started.map(|t| t.0),
        finished: finished.map(|t| t.0),
        exit_code,
        deleting: pod.metadata.deletion_timestamp.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_bytes_and_loses_its_timestamp() {
        let line = parse(b"2026-01-02T03:04:05.123456789Z a \xff b\r".to_vec(), true);
        assert_eq!(line.text, b"a \xff b\r");
        assert_eq!(line.at.unwrap().to_string(), "2026-01-02T03:04:05.123456789Z");
        let text = b"no time here".to_vec();
        assert_eq!(parse(text.clone(), false), LogLine { at: None, text, whole: false });
        assert_eq!(parse(b"2026-01-02T03:04:05Z ".to_vec(), true).text, b"");
    }

    #[tokio::test]
    async fn a_character_that_comes_in_two_writes_stays_one() {
        let text = "漢字\n\u{1f469}".as_bytes();
        let mut reader = futures_util::io::BufReader::with_capacity(1, text);
        let mut lines = Vec::new();
        while let Some((line, whole)) = read_line(&mut reader).await.unwrap() {
            lines.push((String::from_utf8(line).unwrap(), whole));
        }
        assert_eq!(lines, [("漢字".to_owned(), true), ("\u{1f469}".to_owned(), false)]);
    }

    #[tokio::test]
    async fn a_line_without_end_does_not_fill_the_memory() {
        let text = [vec![b'x'; 3 * LONGEST_LINE], b"\nshort\n\nlast".to_vec()].concat();
        let mut reader = futures_util::io::BufReader::new(text.as_slice());
        let mut lengths = Vec::new();
        while let Some((line, _)) = read_line(&mut reader).await.unwrap() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [LONGEST_LINE, 5, 0, 4]);
    }
}
