//! Group commit: threads that write at the same moment share one durable commit.
//!
//! There is no writer thread. A thread that finds no other one writing becomes the leader: it commits for all
//! that wait, and then passes the lead to the next waiting thread. So a single writer needs no switch of
//! threads, and sixteen writers share one sync.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::write::{Committed, Request};
use crate::{Applied, Error};

/// Limits how long a commit can delay the first request of its group.
const GROUP_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct Group {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    led: bool,
    waiting: Vec<(Request, Arc<Place>)>,
}

#[derive(Default)]
struct Place {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Lead,
    Done(Box<Result<Committed, Error>>),
    Taken,
}

pub(crate) type Answers = Vec<Result<Committed, Error>>;

impl Group {
    /// `run` answers all requests of a batch in order; `queued` is called once the request is in the queue.
    pub(crate) fn commit(
        &self,
        request: Request,
        queued: impl FnOnce(),
        run: impl Fn(Vec<Request>) -> Answers,
    ) -> Result<Committed, Error> {
        let place = Arc::new(Place::default());
        let leads = {
            let mut queue = locked(&self.queue);
            queue.waiting.push((request, place.clone()));
            !std::mem::replace(&mut queue.led, true)
        };
        queued();
        if !leads && let Some(answer) = place.wait() {
            return answer;
        }
        self.lead(run);
        place
            .wait()
            .unwrap_or_else(|| Err(Error::Bug { what: "a leader's own request went unanswered".into() }))
    }

    fn lead(&self, run: impl Fn(Vec<Request>) -> Answers) {
        // If `run` panics, this still answers the batch and passes the lead on.
        let _handover = Handover(self);
        let batch = {
            let mut queue = locked(&self.queue);
            let many = queue.waiting.len().min(GROUP_MAX);
            queue.waiting.drain(..many).collect::<Vec<_>>()
        };
        let (requests, places): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let places = Answering(places);
        for (place, answer) in places.0.iter().zip(run(requests)) {
            place.settle(State::Done(Box::new(answer)));
        }
    }
}

struct Handover<'a>(&'a Group);

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        let mut queue = locked(&self.0.queue);
        match queue.waiting.first() {
            Some((_, next)) => next.settle(State::Lead),
            None => queue.led = false,
        }
    }
}

struct Answering(Vec<Arc<Place>>);

impl Drop for Answering {
    fn drop(&mut self) {
        for place in &self.0 {
            if matches!(*locked(&place.state), State::Waiting | State::Lead) {
                let lost = Error::Unavailable {
                    applied: Applied::Unknown,
                    reason: "the commit of this group was interrupted".into(),
                };
                place.settle(State::Done(Box::new(Err(lost))));
            }
        }
    }
}

impl Place {
    fn settle(&self, state: State) {
        *locked(&self.state) = state;
        self.changed.notify_one();
    }

    /// The answer, or `None` if this thread is the next leader.
    fn wait(&self) -> Option<Result<Committed, Error>> {
        let mut state = locked(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(answer) => return Some(*answer),
                State::Lead => {
                    *state = State::Waiting;
                    return None;
                }
                State::Waiting => *state = State::Waiting,
                State::Taken => return None,
            }
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// None of these locks is held while other code runs, so the value behind a poisoned lock is still
/// consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
