//! Rows of bytes, oldest first, in blocks: one allocation for many lines, dropped block by block.

use std::collections::VecDeque;

/// A block takes so many bytes, or the one line that is longer.
const BLOCK_BYTES: usize = 64 * 1024;
/// A block takes so many rows.
const BLOCK_ROWS: usize = 1024;

/// What is known of a row beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meta {
    /// When the node took it, in nanoseconds since 1970.
    pub(super) at: Option<i64>,
    /// Where the text begins that its carriage returns left standing.
    pub(super) state: u32,
    /// The section that it belongs to; 0: none.
    pub(super) section: u32,
    /// The host that it speaks of; 0: none.
    pub(super) host: u16,
    /// It is no line but the mark of an attempt, counted from 1.
    pub(super) attempt: Option<std::num::NonZeroU32>,
}

/// What a row costs beside its bytes.
pub(super) const ROW_COST: usize = size_of::<Meta>() + size_of::<u32>();

#[derive(Debug, Default)]
struct Block {
    /// The number of its first row.
    first: u64,
    bytes: Vec<u8>,
    /// Where each row ends.
    ends: Vec<u32>,
    metas: Vec<Meta>,
}

impl Block {
    fn clear(mut self) -> Self {
        self.bytes.clear();
        self.ends.clear();
        self.metas.clear();
        self
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.ends.len() < BLOCK_ROWS && (self.ends.is_empty() || self.bytes.len() + bytes <= BLOCK_BYTES)
    }

    fn bytes(&self, at: usize) -> &[u8] {
        let place = |at: usize| self.ends.get(at).map_or(0, |end| *end as usize);
        let start = at.checked_sub(1).map_or(0, place);
        self.bytes.get(start..place(at)).unwrap_or_default()
    }
}

/// The rows.
#[derive(Debug, Default)]
pub(super) struct Arena {
    blocks: VecDeque<Block>,
    /// An emptied block, to be filled again.
    spare: Option<Block>,
    first: u64,
    end: u64,
    cost: usize,
}

impl Arena {
    /// The number of the first row that is kept.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the row after the last.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// What the kept rows take, in bytes.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }

    /// A row at the end.
    pub(super) fn push(&mut self, bytes: &[u8], meta: Meta) {
        if !self.blocks.back().is_some_and(|block| block.has_room(bytes.len())) {
            let fresh = self.spare.take().unwrap_or_default();
            self.blocks.push_back(Block { first: self.end, ..fresh });
        }
        let Some(block) = self.blocks.back_mut() else { return };
        block.bytes.extend_from_slice(bytes);
        block.ends.push(u32::try_from(block.bytes.len()).unwrap_or(u32::MAX));
        block.metas.push(meta);
        self.cost += bytes.len() + ROW_COST;
        self.end += 1;
    }

    /// Drops the first row. Returns whether it was a line.
    pub(super) fn pop(&mut self) -> Option<bool> {
        let (bytes, meta) = self.row(self.first)?;
        let (cost, line) = (bytes.len() + ROW_COST, meta.attempt.is_none());
        self.cost = self.cost.saturating_sub(cost);
        self.first += 1;
        let over = |block: &Block| block.first + block.ends.len() as u64 <= self.first;
        if self.blocks.len() > 1 && self.blocks.front().is_some_and(over) {
            let emptied = self.blocks.pop_front().map(Block::clear);
            // A block that one long line made large is given back.
            self.spare = emptied.filter(|block| block.bytes.capacity() <= 2 * BLOCK_BYTES);
        }
        Some(line)
    }

    fn block(&self, number: u64) -> Option<usize> {
        if number < self.first || number >= self.end {
            return None;
        }
        self.blocks.partition_point(|block| block.first <= number).checked_sub(1)
    }

    /// A row's bytes and what is known of it.
    pub(super) fn row(&self, number: u64) -> Option<(&[u8], Meta)> {
        let block = self.blocks.get(self.block(number)?)?;
        let at = usize::try_from(number - block.first).ok()?;
        Some((block.bytes(at), *block.metas.get(at)?))
    }

    /// What is known of a row, to be changed.
    pub(super) fn meta_mut(&mut self, number: u64) -> Option<&mut Meta> {
        let block = self.block(number)?;
        let block = self.blocks.get_mut(block)?;
        block.metas.get_mut(usize::try_from(number - block.first).ok()?)
    }

    /// The rows from this number on.
    pub(super) fn from(&self, number: u64) -> impl Iterator<Item = (u64, &[u8], Meta)> {
        let first = self.block(number).unwrap_or(self.blocks.len());
        let rows = self.blocks.range(first..).flat_map(|block| {
            let metas = block.metas.iter().enumerate();
            metas.map(|(at, meta)| (block.first + at as u64, block.bytes(at), *meta))
        });
        rows.skip_while(move |(row, ..)| *row < number)
    }

    /// What all blocks take, in bytes, used or not.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        let of =
            |b: &Block| b.bytes.capacity() + b.ends.capacity() * 4 + b.metas.capacity() * size_of::<Meta>();
        self.blocks.iter().chain(&self.spare).map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_numbers_while_others_come_and_go() {
        let mut arena = Arena::default();
        let text = |n: u64| vec![b'a' + (n % 26) as u8; (n * 37 % 3000) as usize];
        for n in 0..5_000u64 {
            arena.push(&text(n), Meta { host: (n % 7) as u16, ..Meta::default() });
            if n % 3 != 0 {
                assert_eq!(arena.pop(), Some(true));
            }
        }
        assert_eq!((arena.first(), arena.end()), (3_333, 5_000));
        assert_eq!((arena.row(3_332), arena.row(5_000)), (None, None));
        for n in 3_333..5_000 {
            let (bytes, meta) = arena.row(n).unwrap();
            assert_eq!((bytes, meta.host), (text(n).as_slice(), (n % 7) as u16), "row {n}");
        }
        let rows: Vec<u64> = arena.from(4_990).map(|(n, ..)| n).collect();
        assert_eq!(rows, (4_990..5_000).collect::<Vec<_>>());
        assert_eq!(arena.from(0).count() + arena.from(9_999).count(), 0, "there are no such rows");
        while arena.pop().is_some() {}
        assert_eq!((arena.cost(), arena.first()), (0, 5_000));
        assert!(arena.held() <= 4 * BLOCK_BYTES, "{}", arena.held());
    }

    const _: () = assert!(ROW_COST <= 40, "a row costs little");
}
