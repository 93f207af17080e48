//! What rustls tells only those whom it asks: noted while it does so, and read after.
//!
//! It calls back on the thread that drives a connection, and drives one at a time: what was noted during a step of a
//! handshake is about that connection.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::pin,
};

use rustls::SignatureScheme;

use super::session_id::SessionId;

/// What a handshake leads to besides what rustls can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The number of a session that is kept.
    pub session: Option<SessionId>,
    /// The client has got a ticket.
    pub has_ticket: bool,
    /// With what the server would sign.
    pub server_scheme: Option<SignatureScheme>,
    /// With what the client has signed.
    pub client_scheme: Option<SignatureScheme>,
}

thread_local! {
    static NOTES: RefCell<Notes> = const {
        RefCell::new(Notes {
            session: None,
            has_ticket: false,
            server_scheme: None,
            client_scheme: None,
        })
    };
}

/// Runs the handshake of one connection, and what was noted during it.
pub async fn noted<F: Future>(handshake: F) -> (F::Output, Notes) {
    let mut handshake = pin!(handshake);
    let mut own = Notes::default();
    let output = poll_fn(|cx| {
        NOTES.with_borrow_mut(|notes| *notes = own);
        let step = handshake.as_mut().poll(cx);
        own = NOTES.take();
        step
    })
    .await;
    (output, own)
}

/// A session was put away, or found.
pub(super) fn session(id: &[u8]) {
    NOTES.with_borrow_mut(|notes| notes.session = SessionId::new(id));
}

/// A ticket was made.
pub(super) fn ticket() {
    NOTES.with_borrow_mut(|notes| notes.has_ticket = true);
}

/// The server is about to sign.
pub(super) fn server_scheme(scheme: Option<SignatureScheme>) {
    NOTES.with_borrow_mut(|notes| notes.server_scheme = scheme);
}

/// The client has signed.
pub(super) fn client_scheme(scheme: SignatureScheme) {
    NOTES.with_borrow_mut(|notes| notes.client_scheme = Some(scheme));
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Two that take turns do not see each other's.
    #[test]
    fn notes_are_about_one_connection() {
        let steps = |id: u8| {
            let mut n = 0;
            poll_fn(move |_| {
                n += 1;
                if n == 1 {
                    session(&[id]);
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
        };
        let (mut one, mut two) = (Box::pin(noted(steps(1))), Box::pin(noted(steps(2))));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(one.as_mut().poll(&mut cx).is_pending());
        assert!(two.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(((), notes)) = one.as_mut().poll(&mut cx) else {
            panic!("it is done");
        };
        assert_eq!(notes.session, SessionId::new(&[1]));
        assert_eq!(NOTES.take(), Notes::default());
    }
}
