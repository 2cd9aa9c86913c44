//! The floor for many writers: one thread takes all queued records, appends them, syncs once and answers.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

type Job = (Vec<u8>, SyncSender<()>);

pub struct GroupLog {
    jobs: Option<Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl GroupLog {
    pub fn new(dir: &Path) -> GroupLog {
        let file = OpenOptions::new().create(true).append(true).open(dir.join("floor.group"));
        let mut file = file.expect("a file to write");
        let (jobs, queue) = channel::<Job>();
        let writer = std::thread::spawn(move || {
            while let Ok(first) = queue.recv() {
                let mut group = vec![first];
                group.extend(queue.try_iter().take(255));
                let bytes: Vec<u8> = group.iter().flat_map(|(record, _)| record.iter().copied()).collect();
                file.write_all(&bytes).expect("a write");
                file.sync_data().expect("a sync");
                for (_, done) in group {
                    done.send(()).expect("the writer waits");
                }
            }
        });
        GroupLog { jobs: Some(jobs), writer: Some(writer) }
    }

    pub fn handle(&self) -> impl Fn() + Send + 'static {
        let jobs = self.jobs.clone().expect("open");
        move || {
            let (done, wait) = sync_channel(1);
            jobs.send((vec![b'x'; 600], done)).expect("the log is open");
            wait.recv().expect("an answer");
        }
    }
}

impl Drop for GroupLog {
    fn drop(&mut self) {
        self.jobs.take();
        self.writer.take().map(JoinHandle::join);
    }
}
