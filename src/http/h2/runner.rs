//! Tasks that serve requests on streams, one after the other.
//!
//! A request comes and goes faster than the memory of a task of its own is taken, filled and given back, so a task that is
//! done waits for the next one, whichever connection it is of.

use std::{
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use crate::common::prefetch::{Prefetch, Prefetched};

/// How many tasks wait at most, each of which holds about 2.5 KB.
const KEPT: usize = 256;

/// The tasks of a thread that wait for a request.
pub(in crate::http) struct Runners<J> {
    waiting: RefCell<Vec<Rc<Runner<J>>>>,
}

/// A task that waits, or will.
struct Runner<J> {
    job: Cell<Option<J>>,
    task: Cell<Option<Waker>>,
}

impl<J> Default for Runners<J> {
    fn default() -> Self {
        Self {
            waiting: RefCell::default(),
        }
    }
}

impl<J> fmt::Debug for Runners<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runners").finish_non_exhaustive()
    }
}

impl<J: 'static> Runners<J> {
    /// Has a task do `job`: one that waits, or a new one, which is `run` until it has to end.
    pub(super) fn start<F>(&self, job: J, run: impl FnOnce(Turns<J>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let runner = {
            let mut waiting = self.waiting.borrow_mut();
            let runner = waiting.pop();
            if let Some(next) = waiting.last() {
                next.prefetch();
            }
            runner
        };
        if let Some(runner) = runner {
            runner.job.set(Some(job));
            if let Some(task) = runner.task.take() {
                task.wake();
            }
            return;
        }
        let runner = Rc::new(Runner {
            job: Cell::new(Some(job)),
            task: Cell::default(),
        });
        // A task is copied several times before it runs.
        tokio::task::spawn_local(Prefetched::new(run(Turns(runner))));
    }

    /// Lets the task wait; false when enough do already.
    fn wait(&self, turns: &Turns<J>) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let is_wanted = waiting.len() < KEPT;
        if is_wanted {
            waiting.push(Rc::clone(&turns.0));
        }
        is_wanted
    }
}

/// What a task has to do.
pub(super) struct Turns<J>(Rc<Runner<J>>);

impl<J> Prefetch for Turns<J> {
    fn prefetch(&self) {
        self.0.prefetch();
    }
}

impl<J: 'static> Turns<J> {
    /// The first job.
    pub(super) fn first(&self) -> Option<J> {
        self.0.job.take()
    }

    /// Waits for the next job; None: the task is not needed any more.
    pub(super) async fn next(&self, runners: &Runners<J>) -> Option<J> {
        if !runners.wait(self) {
            return None;
        }
        Some(poll_fn(|cx| self.poll(cx)).await)
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<J> {
        let job = self.0.job.take();
        if job.is_none() {
            self.0.task.set(Some(cx.waker().clone()));
        }
        job.map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs are done in order, by no more tasks than there are jobs at once.
    #[test]
    fn a_task_does_one_job_after_the_other() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let runners = Rc::new(Runners::default());
            let (tasks, done) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
            let start = |job: u32| {
                let (runners, tasks, done) = (runners.clone(), tasks.clone(), done.clone());
                runners.clone().start(job, |turns| async move {
                    tasks.set(tasks.get() + 1);
                    let mut next = turns.first();
                    while let Some(job) = next {
                        tokio::task::yield_now().await;
                        done.borrow_mut().push(job);
                        next = turns.next(&runners).await;
                    }
                });
            };
            for round in 0..3 {
                start(2 * round);
                start(2 * round + 1);
                while done.borrow().len() < 2 * (round as usize + 1) {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(tasks.get(), 2);
            let mut done = done.take();
            done.sort_unstable();
            assert_eq!(done, [0, 1, 2, 3, 4, 5]);
        });
    }

    #[test]
    fn no_more_tasks_wait_than_are_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let runners = Rc::new(Runners::default());
            let ended = Rc::new(Cell::new(0));
            for job in 0..KEPT + 3 {
                let (own, ended) = (runners.clone(), ended.clone());
                runners.start(job, |turns| async move {
                    let mut next = turns.first();
                    while next.is_some() {
                        next = turns.next(&own).await;
                    }
                    ended.set(ended.get() + 1);
                });
            }
            while ended.get() < 3 {
                tokio::task::yield_now().await;
            }
            assert_eq!(runners.waiting.borrow().len(), KEPT);
        });
    }
}
