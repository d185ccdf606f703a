//! A TCP proxy that can be told to misbehave: to stop forwarding, to stop at certain bytes, to cut.

use std::future::Future;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, PartialEq)]
enum Mood {
    Forward,
    /// Keeps the connections, forwards nothing.
    Stall,
    /// Forwards until the client sends these bytes.
    StopAt(Vec<u8>),
    /// Keeps the first so many connections, and forwards nothing of them.
    Dead(u32),
}

/// It ends when dropped, with its connections.
pub(crate) struct Proxy {
    port: u16,
    mood: watch::Sender<Mood>,
    cuts: watch::Sender<u32>,
    /// How many connections there were.
    made: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of loopback in front of another.
    pub(crate) async fn start(behind: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mood = watch::Sender::new(Mood::Forward);
        let cuts = watch::Sender::new(0);
        let made = Arc::new(AtomicU32::new(0));
        let (moods, ends, count) = (mood.clone(), cuts.clone(), made.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (moods, mut ends) = (moods.clone(), ends.subscribe());
                let number = count.fetch_add(1, Ordering::Relaxed);
                connections.spawn(async move {
                    // What was held back is lost when the line is cut before it flows again.
                    tokio::select! {
                        biased;
                        _ = ends.changed() => {}
                        () = connection(client, behind, moods, number) => {}
                    }
                });
            }
        });
        Self { port, mood, cuts, made, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Forwards nothing from now on.
    pub(crate) fn stall(&self) {
        self.mood.send_replace(Mood::Stall);
    }

    /// Stops in front of these bytes of a client; the future is ready when that has happened.
    pub(crate) fn stop_at(&self, bytes: &[u8]) -> impl Future<Output = ()> + use<> {
        self.mood.send_replace(Mood::StopAt(bytes.to_vec()));
        let mut mood = self.mood.subscribe();
        async move {
            mood.wait_for(|mood| *mood == Mood::Stall).await.unwrap();
        }
    }

    /// Forwards what new connections bring; those that were stalled are dead for good, and nobody tells their ends.
    pub(crate) fn go_on_for_new(&self) {
        self.mood.send_replace(Mood::Dead(self.made.load(Ordering::Relaxed)));
    }

    /// Forwards again, what was held back first.
    pub(crate) fn go_on(&self) {
        self.mood.send_replace(Mood::Forward);
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connection(client: TcpStream, behind: u16, mood: watch::Sender<Mood>, number: u32) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, behind)).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let mood = Arc::new(mood);
    tokio::select! {
        () = pump(from_client, to_server, mood.clone(), true, number) => {}
        () = pump(from_server, to_client, mood, false, number) => {}
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mood: Arc<watch::Sender<Mood>>,
    client: bool,
    number: u32,
) {
    let mut seen = mood.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        let chunk = &buffer[..count];
        if client {
            mood.send_if_modified(|mood| {
                let stop =
                    matches!(&*mood, Mood::StopAt(bytes) if chunk.windows(bytes.len()).any(|w| w == bytes));
                if stop {
                    *mood = Mood::Stall;
                }
                stop
            });
        }
        let flows = |mood: &Mood| match mood {
            Mood::Stall => false,
            Mood::Dead(first) => number >= *first,
            Mood::Forward | Mood::StopAt(_) => true,
        };
        if seen.wait_for(flows).await.is_err() || to.write_all(chunk).await.is_err() {
            return;
        }
    }
}
