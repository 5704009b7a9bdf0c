//! Frames of several requests in one write: a small write of `h2` waits in a buffer until the
//! connection has nothing more to say for now. Without it every request whose message is longer
//! than `h2` copies is a system call of its own, however many are due at the same moment.

use std::cell::RefCell;
use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{ready, Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// More bytes than these are not gathered.
const CAPACITY: usize = 64 << 10;
/// Nor are more writes: the server begins with the first requests while the client prepares the
/// rest.
const MOST: usize = 8;

/// A stream whose small writes are gathered, until `drive` lets them go.
pub struct Gathered<S>(Rc<RefCell<State<S>>>);

struct State<S> {
    stream: S,
    waiting: BytesMut,
    /// Writes that `waiting` holds.
    writes: usize,
    /// Why what waited could not be written: each later call fails with it.
    failed: Option<io::Error>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gathered<S> {
    pub fn new(stream: S) -> Self {
        Self(Rc::new(RefCell::new(State {
            stream,
            waiting: BytesMut::with_capacity(CAPACITY),
            writes: 0,
            failed: None,
        })))
    }

    pub fn share(&self) -> Self {
        Self(self.0.clone())
    }

    /// Run a connection that has this stream; each time it pauses, write what has gathered.
    pub async fn drive<C: Future + Unpin>(self, mut connection: C) -> C::Output {
        poll_fn(|cx| loop {
            let polled = Pin::new(&mut connection).poll(cx);
            let mut state = self.0.borrow_mut();
            if polled.is_ready() || state.failed.is_some() {
                return polled;
            }
            match state.write_out(cx) {
                // The connection learns of it by its next call of the stream.
                Poll::Ready(Err(error)) => state.failed = Some(error),
                Poll::Ready(Ok(())) | Poll::Pending => return Poll::Pending,
            }
        })
        .await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> State<S> {
    fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    /// Write everything that waits.
    fn write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(written);
        }
        self.writes = 0;
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        state.check()?;
        Pin::new(&mut state.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.borrow_mut();
        state.check()?;
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if state.writes == MOST || state.waiting.len() + length > CAPACITY {
            ready!(state.write_out(cx))?;
        }
        if length > CAPACITY {
            return Pin::new(&mut state.stream).poll_write_vectored(cx, slices);
        }
        for slice in slices {
            state.waiting.extend_from_slice(slice);
        }
        state.writes += 1;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is written here: `h2` flushes after every message, `drive` when it pauses.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.borrow().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        state.check()?;
        ready!(state.write_out(cx))?;
        Pin::new(&mut state.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    /// Takes at most so many bytes at once, every other time none; fails after so many writes.
    struct Peer {
        writes: Rc<RefCell<Vec<Vec<u8>>>>,
        most: usize,
        pauses: bool,
        fails_after: usize,
    }

    impl AsyncRead for Peer {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Peer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.pauses = !self.pauses;
            if self.pauses {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.writes.borrow().len() == self.fails_after {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let taken = &bytes[..bytes.len().min(self.most)];
            self.writes.borrow_mut().push(taken.to_vec());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Write these pieces and flush after each, on a connection that pauses once and ends: what
    /// was written at once, and whether it ended well.
    fn write(pieces: Vec<Vec<u8>>, most: usize, fails_after: usize) -> (Vec<Vec<u8>>, bool) {
        let writes = Rc::new(RefCell::new(vec![]));
        let stream = Gathered::new(Peer {
            writes: writes.clone(),
            most,
            pauses: true,
            fails_after,
        });
        let mut handle = stream.share();
        let connection = Box::pin(async move {
            for piece in &pieces {
                handle.write_all(piece).await?;
                handle.flush().await?;
            }
            // As a connection does that waits for answers: it pauses, and is run again.
            tokio::task::yield_now().await;
            handle.shutdown().await
        });
        let runtime = tokio::runtime::Builder::new_current_thread();
        let ended = { runtime }
            .build()
            .unwrap()
            .block_on(stream.drive(connection));
        (writes.take(), ended.is_ok())
    }

    #[test]
    fn small_writes_leave_together_when_the_connection_pauses() {
        let (writes, ended) = write(
            vec![b"head".to_vec(), b"and".to_vec(), b"body".to_vec()],
            99,
            9,
        );
        assert_eq!((writes, ended), (vec![b"headandbody".to_vec()], true));
    }

    #[test]
    fn the_connection_learns_that_nothing_can_be_written() {
        let (writes, ended) = write(vec![b"head".to_vec()], 99, 0);
        assert_eq!((writes.len(), ended), (0, false));
    }

    proptest! {
        #[test]
        fn all_bytes_arrive_in_order(
            lengths in prop::collection::vec(0..2 * CAPACITY, 0..6),
            most in 1000..3 * CAPACITY,
        ) {
            let piece = |(at, length): (usize, &usize)| vec![at as u8; *length];
            let pieces: Vec<Vec<u8>> = lengths.iter().enumerate().map(piece).collect();
            let (writes, ended) = write(pieces.clone(), most, usize::MAX);
            prop_assert!(ended);
            prop_assert_eq!(writes.concat(), pieces.concat());
        }
    }
}
