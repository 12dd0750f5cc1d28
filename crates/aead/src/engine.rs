use crate::{Job, Verdict, backend::portable};

/// Seals and opens batches of [`Job`]s. It holds no secrets and no state: one serves a whole program.
pub struct Engine(());

impl Engine {
    /// The fastest backend of this machine.
    pub fn new() -> Self {
        Self::portable()
    }

    /// The backend that runs everywhere and that the others are compared with.
    pub fn portable() -> Self {
        Self(())
    }

    /// The backend's name.
    pub fn name(&self) -> &'static str {
        "portable"
    }

    /// Encrypts each pending job in its place and writes its tag; the verdict becomes [`Verdict::Sealed`].
    /// A job that is not pending is left as it is, so no nonce is used twice by calling twice.
    pub fn seal(&self, jobs: &mut [Job<'_>]) {
        for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
            portable::seal(job);
            job.verdict = Verdict::Sealed;
        }
    }

    /// Checks the tag of each pending job, in constant time; decrypts the [`Verdict::Authentic`] in their place and
    /// zeroes the buffers of the [`Verdict::Forged`].
    pub fn open(&self, jobs: &mut [Job<'_>]) {
        for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
            job.verdict = if portable::open(job) {
                Verdict::Authentic
            } else {
                job.buf.fill(0);
                Verdict::Forged
            };
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cipher, Key};

    #[test]
    fn a_job_is_done_once() {
        let key = Key::new(Cipher::Aes128Gcm, &[3; 16]).unwrap();
        let mut buf = [5; 40];
        let mut jobs = [Job::new(&key, [9; 12].into(), b"", &mut buf).unwrap()];
        let engine = Engine::portable();
        engine.seal(&mut jobs);
        let sealed = jobs[0].buf.to_vec();
        engine.seal(&mut jobs);
        engine.open(&mut jobs);
        assert_eq!((jobs[0].verdict(), &*jobs[0].buf), (Verdict::Sealed, &sealed[..]));
    }
}
