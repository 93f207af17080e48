//! Which processors a worker's threads run on (`worker_cpu_affinity`).
//!
//! Mirrors `ngx_get_cpu_affinity` (`core/nginx.c`); a thread stands for one of nginx's worker processes.

/// `worker_cpu_affinity`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuAffinity {
    /// Sets of processors, in the order of threads; with `auto` the one to choose from.
    pub masks: Vec<Vec<usize>>,
    /// Each thread gets a processor of its own.
    pub auto: bool,
}

impl CpuAffinity {
    /// The processors of a thread; None: whatever the system likes.
    pub fn of(&self, thread: usize) -> Option<&[usize]> {
        let last = self.masks.last()?;
        if self.auto {
            let index = thread.checked_rem(last.len())?;
            return last.get(index..=index);
        }
        Some(self.masks.get(thread).unwrap_or(last))
    }

    /// nginx's warning where masks and threads do not match.
    pub fn warning(&self, threads: usize) -> Option<&'static str> {
        let matches = self.auto || self.masks.len() <= 1 || self.masks.len() == threads;
        (!matches).then_some(
            "the number of \"worker_processes\" is not equal to the number of \
             \"worker_cpu_affinity\" masks, using last mask for remaining worker processes",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mask_is_for_all_that_follow() {
        let affinity = CpuAffinity {
            masks: vec![vec![0], vec![1, 3]],
            auto: false,
        };
        let of = |thread| affinity.of(thread).unwrap();
        assert_eq!(
            [of(0), of(1), of(2), of(9)],
            [&[0][..], &[1, 3], &[1, 3], &[1, 3]]
        );
        assert_eq!(affinity.warning(2), None);
        assert!(affinity.warning(1).is_some() && affinity.warning(3).is_some());
        assert_eq!(CpuAffinity::default().of(0), None);
        assert_eq!(CpuAffinity::default().warning(4), None);
    }

    #[test]
    fn auto_goes_round() {
        let mut affinity = CpuAffinity {
            masks: vec![vec![1, 4]],
            auto: true,
        };
        assert_eq!([0, 1, 2].map(|n| affinity.of(n).unwrap()), [[1], [4], [1]]);
        assert_eq!(affinity.warning(5), None);
        affinity.masks = vec![Vec::new()];
        assert_eq!(affinity.of(0), None);
    }
}
