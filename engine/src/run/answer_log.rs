//! Answers that are logged to be scored again later, where the caller wants them.

use crate::protocol::Answer;

/// Answers of one piece: what is full stays where it is, so that keeping never moves much memory.
const PIECE: usize = 16_384;
/// What stands where an answer has fewer rows than asked for.
pub const NO_ID: i64 = -1;

/// Answers of `k` rows, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct AnswerLog {
    k: usize,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
struct Piece {
    queries: Vec<i64>,
    ids: Vec<i64>,
    scores: Vec<f32>,
}

impl AnswerLog {
    pub fn new(k: usize) -> Self {
        Self { k, pieces: vec![] }
    }

    /// Keep the first k rows of an answer.
    pub fn push(&mut self, query: usize, answer: &Answer) {
        let full = |piece: &Piece| piece.queries.len() == PIECE;
        if self.pieces.last().is_none_or(full) {
            self.pieces.push(Piece {
                queries: Vec::with_capacity(PIECE),
                ids: Vec::with_capacity(PIECE * self.k),
                scores: Vec::with_capacity(PIECE * self.k),
            });
        }
        let Some(piece) = self.pieces.last_mut() else {
            return;
        };
        piece.queries.push(query as i64);
        let ids = answer.ids.iter().copied().chain(std::iter::repeat(NO_ID));
        piece.ids.extend(ids.take(self.k));
        let scores = answer.scores.iter().copied();
        let scores = scores.chain(std::iter::repeat(f32::NAN));
        piece.scores.extend(scores.take(self.k));
    }

    pub fn merge(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    pub fn k(&self) -> usize {
        self.k
    }

    pub fn queries(&self) -> impl Iterator<Item = i64> + '_ {
        self.pieces.iter().flat_map(|piece| &piece.queries).copied()
    }

    pub fn ids(&self) -> impl Iterator<Item = i64> + '_ {
        self.pieces.iter().flat_map(|piece| &piece.ids).copied()
    }

    pub fn scores(&self) -> impl Iterator<Item = f32> + '_ {
        self.pieces.iter().flat_map(|piece| &piece.scores).copied()
    }
}
