//! One timer for a connection, whatever waits at the moment.
//!
//! Deadlines mostly move on before they are reached, so moving one later costs nothing: the timer fires at the old
//! time, sees the new deadline and is set again.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Sleep, sleep_until};

use crate::common::{
    clock::{self, Now},
    prefetch::{Prefetch, prefetch},
};

/// A timer that is set lazily.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    set_for: Now,
}

impl Prefetch for Timer {
    fn prefetch(&self) {
        if let Some(sleep) = &self.sleep {
            prefetch(&raw const **sleep);
        }
    }
}

impl Timer {
    /// Ready once `deadline` has passed; None never is.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Now>) -> Poll<()> {
        let Some(deadline) = deadline else {
            return Poll::Pending;
        };
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if deadline < self.set_for {
                    sleep.as_mut().reset(deadline.instant().into());
                    self.set_for = deadline;
                }
                sleep
            }
            empty => {
                self.set_for = deadline;
                empty.insert(Box::pin(sleep_until(deadline.instant().into())))
            }
        };
        loop {
            ready!(sleep.as_mut().poll(cx));
            if clock::precise() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline.instant().into());
            self.set_for = deadline;
        }
    }
}
