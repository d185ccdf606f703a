//! One round.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::transfer::{Fetched, TransferError, fetch};
use super::{Round, Store, SyncError, SyncProblem, Syncer};
use crate::backend::folder::Over;
use crate::domain::manifest::{Listing, Prefix, Removal, SyncPlan, Taken, Transfer, Why};

/// How many objects are read at a time.
const AT_ONCE: usize = 8;
/// After how many files what is remembered is written.
const SAVE_EVERY: usize = 500;

impl<S: Store> Syncer<S> {
    /// Makes the folder as the bucket is, as far as that can be done now; everything that cannot is a problem of the round. When `stop`
    /// comes, what is under way is dropped, and what was done is remembered.
    ///
    /// # Errors
    /// When what is remembered cannot be written: nothing may be removed any more then.
    pub async fn round(&mut self, stop: &CancellationToken) -> Result<Round, SyncError> {
        let mut round = Round::default();
        if let Some(listing) = self.list(&mut round, stop).await {
            let (plan, problems) = self.disk.plan(&self.writer, listing, &self.options.scope).await?;
            round.problems.extend(problems);
            self.carry_out(plan, &mut round, stop).await?;
        }
        self.disk.save(&self.writer).await?;
        self.command(&mut round, stop).await?;
        self.count(&round);
        let synced = self.counters.borrow().synced;
        let said = self.word.say(&self.store, &self.options, &self.disk.memory, &round, synced);
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = said => {}
        }
        Ok(round)
    }

    /// Lists all folders. None: nothing of it can be used, or this is to end.
    async fn list(&self, round: &mut Round, stop: &CancellationToken) -> Option<Listing> {
        let mut listing = Listing::default();
        for prefix in self.options.scope.prefixes() {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    round.stopped = true;
                    return None;
                }
                listed = self.list_one(prefix, &mut listing, round) => {
                    if !listed {
                        return None;
                    }
                }
            }
        }
        Some(listing)
    }

    /// Lists a folder. False: the listing cannot be used.
    async fn list_one(&self, prefix: &Prefix, listing: &mut Listing, round: &mut Round) -> bool {
        let mut pages = self.store.list(prefix.as_str());
        loop {
            let page = self.store.page(&mut pages).await;
            // The end is known without asking.
            let asked = u64::from(!matches!(page, Ok(None)));
            self.counters.send_modify(|counters| counters.pages += asked);
            match page {
                Ok(Some(objects)) => {
                    for object in objects {
                        if let Err(error) = listing.add(prefix, object) {
                            round.broken = true;
                            round.problems.push(SyncProblem::new(None, &error));
                            return false;
                        }
                    }
                }
                Ok(None) => {
                    listing.complete(prefix);
                    return true;
                }
                // What was listed is taken all the same; nothing is removed.
                Err(error) => {
                    round.broken = true;
                    round.problems.push(SyncProblem::new(None, &error));
                    return true;
                }
            }
        }
    }

    async fn carry_out(
        &mut self,
        plan: SyncPlan,
        round: &mut Round,
        stop: &CancellationToken,
    ) -> Result<(), SyncError> {
        let SyncPlan { removals, transfers, kept, left } = plan;
        (round.kept, round.left) = (kept, left);
        for removal in removals {
            self.remove(removal, round).await?;
        }
        // Whatever happens meanwhile, what is written is known to be ours.
        for transfer in &transfers {
            if self.disk.memory.get(&transfer.path).is_none() {
                self.disk.remember(transfer.path.clone(), Taken::pending(&transfer.object.key), None);
            }
        }
        let was_due = self.disk.memory.command_due;
        if !transfers.is_empty() {
            self.disk.command_due(self.options.command.is_some());
        }
        self.disk.save(&self.writer).await?;
        self.transfer(transfers, round, stop).await?;
        if !round.stopped && !round.changed() {
            // All of it was there already.
            self.disk.command_due(was_due);
        }
        Ok(())
    }

    async fn remove(&mut self, removal: Removal, round: &mut Round) -> Result<(), SyncError> {
        let Removal { path, taken } = removal;
        let (writer, own) = (Arc::clone(&self.writer), path.clone());
        match tokio::task::spawn_blocking(move || writer.remove(&own, Over::Anything)).await? {
            Ok(was_there) => {
                self.disk.forget(&path);
                if was_there {
                    self.disk.command_due(self.options.command.is_some());
                    round.removed.push(path);
                }
            }
            Err(error) => round.problems.push(SyncProblem::new(Some(&taken.key), &error)),
        }
        Ok(())
    }

    async fn transfer(
        &mut self,
        transfers: Vec<Transfer>,
        round: &mut Round,
        stop: &CancellationToken,
    ) -> Result<(), SyncError> {
        let (store, writer) = (&self.store, Arc::clone(&self.writer));
        let jobs = transfers.into_iter().map(|transfer| {
            let writer = &writer;
            async move {
                let fetched = fetch(store, writer, &transfer).await;
                (transfer, fetched)
            }
        });
        let mut running = std::pin::pin!(stream::iter(jobs).buffer_unordered(AT_ONCE));
        let mut unsaved = 0;
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    round.stopped = true;
                    break;
                }
                next = running.next() => next,
            };
            let Some((transfer, fetched)) = next else { break };
            let counted = counted(&transfer, &fetched);
            self.counters.send_modify(counted);
            unsaved += 1;
            taken(&mut self.disk, transfer, fetched, round);
            if unsaved >= SAVE_EVERY {
                self.disk.save(&writer).await?;
                unsaved = 0;
            }
        }
        round.written.sort();
        Ok(())
    }

    /// Runs the operator's command, when something changed that it does not know of. One that failed runs again in the next round.
    async fn command(&mut self, round: &mut Round, stop: &CancellationToken) -> Result<(), SyncError> {
        if round.stopped || !self.disk.memory.command_due {
            return Ok(());
        }
        let Some(command) = &self.options.command else {
            self.disk.command_due(false);
            return self.disk.save(&self.writer).await;
        };
        let program = command.program();
        tracing::info!(program, "something changed");
        let done = command.run(stop, |line| tracing::info!(program, "{line}")).await;
        self.counters.send_modify(|counters| {
            counters.commands += 1;
            counters.failed_commands += u64::from(done.is_err());
        });
        match done {
            Ok(()) => {
                self.disk.command_due(false);
                self.disk.save(&self.writer).await
            }
            Err(error) => {
                round.problems.push(SyncProblem::new(None, &error));
                Ok(())
            }
        }
    }

    fn count(&self, round: &Round) {
        self.counters.send_modify(|counters| {
            counters.rounds += 1;
            counters.failed_rounds += u64::from(!round.is_well());
            counters.removals += round.removed.len() as u64;
            counters.files = (round.kept + round.written.len()) as u64;
            counters.left = round.left.len() as u64;
            if round.is_well() && round.moving == 0 {
                counters.synced = Some(Timestamp::now());
            }
        });
    }
}

/// Notes what came of a transfer.
fn taken(
    disk: &mut super::disk::Disk,
    transfer: Transfer,
    fetched: Result<Fetched, TransferError>,
    round: &mut Round,
) {
    match fetched {
        Ok(Fetched::There { taken, stamp, written }) => {
            disk.remember(transfer.path.clone(), taken, stamp);
            if written {
                round.written.push((transfer.path, transfer.why));
            } else {
                round.kept += 1;
            }
        }
        Ok(Fetched::Moving) => round.moving += 1,
        Err(error) => round.problems.push(SyncProblem::new(Some(&transfer.object.key), &error)),
    }
}

/// What a transfer adds to the counters.
fn counted(
    transfer: &Transfer,
    fetched: &Result<Fetched, TransferError>,
) -> impl FnOnce(&mut super::Counters) + use<> {
    let (size, there, written) = match fetched {
        Ok(Fetched::There { written, .. }) => (transfer.object.size, true, *written),
        _ => (0, false, false),
    };
    let put_back = written && matches!(transfer.why, Why::Altered | Why::Missing);
    move |counters| {
        counters.downloads += u64::from(there);
        counters.bytes += size;
        counters.put_back += u64::from(put_back);
    }
}
