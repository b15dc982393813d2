//! The body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer: small and whole, or events as they come.
#[derive(Debug)]
pub(super) enum Body {
    /// All of it.
    Whole(Full<Bytes>),
    /// A file that is part of the program.
    File(Full<Bytes>),
    /// One after the other.
    Events(mpsc::Receiver<Bytes>),
}

impl Body {
    /// What is there at once; nothing of events.
    pub(super) fn whole(self) -> Bytes {
        match self {
            Self::Whole(body) | Self::File(body) => body.into_inner().unwrap_or_default(),
            Self::Events(_) => Bytes::new(),
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) | Self::File(body) => hyper::body::Body::poll_frame(Pin::new(body), cx),
            Self::Events(events) => events.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) | Self::File(body) => hyper::body::Body::is_end_stream(body),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) | Self::File(body) => hyper::body::Body::size_hint(body),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
