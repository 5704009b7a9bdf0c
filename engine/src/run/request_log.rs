//! The instants of every request, where the caller wants them: what was under way when.

/// The instants of one request.
#[derive(Clone, Copy)]
pub struct Times {
    pub intended: i64,
    pub sent: i64,
    pub done: i64,
}

/// Entries of one piece: what is full stays where it is.
const PIECE: usize = 16_384;

/// One request: its number in the class, and whether it succeeded.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub number: i64,
    pub sent: i64,
    pub done: i64,
    pub succeeded: bool,
}

/// Requests that have ended, in the order in which they did.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {
    pieces: Vec<Vec<Entry>>,
}

impl RequestLog {
    pub fn push(&mut self, number: usize, at: Times, succeeded: bool) {
        let full = |piece: &Vec<Entry>| piece.len() == PIECE;
        if self.pieces.last().is_none_or(full) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        if let Some(piece) = self.pieces.last_mut() {
            piece.push(Entry {
                number: number as i64,
                sent: at.sent,
                done: at.done,
                succeeded,
            });
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> + '_ {
        self.pieces.iter().flatten()
    }
}
