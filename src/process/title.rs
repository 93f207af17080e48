//! What `ps` shows: `headwater: master process ...`, `headwater: worker process`.
//!
//! Mirrors `os/unix/ngx_setproctitle.c`: the title takes the place of the arguments and, when it is longer, of the environment
//! behind them, which is moved away before. The place is written through `/proc/self/mem`; without it there is no title.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    sync::OnceLock,
};

use super::sys;

/// Where arguments and environment were: address and length.
static PLACE: OnceLock<(u64, usize)> = OnceLock::new();

/// Prepares for titles. Called once, first of all; afterwards nobody may look at the arguments.
pub(super) fn claim() {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(place) = place(&stat) {
        sys::move_environment();
        PLACE.get_or_init(|| place);
    }
}

/// The fields `arg_start` and `env_end` of proc(5), as address and length.
fn place(stat: &str) -> Option<(u64, usize)> {
    // The name before it may hold anything; the fields behind it are counted from 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let (start, end) = (number(48)?, number(51)?);
    let len = usize::try_from(end.checked_sub(start)?).ok()?;
    (start > 0 && len > 1).then_some((start, len))
}

/// Shows `title` after the program's name, cut to the place there is.
pub(super) fn set(title: &str) {
    let Some(&(start, len)) = PLACE.get() else {
        return;
    };
    let mut text = format!("headwater: {title}").into_bytes();
    text.truncate(len - 1);
    text.resize(len, 0);
    // Where that is not allowed the arguments stay as they are.
    if let Ok(memory) = OpenOptions::new().write(true).open("/proc/self/mem") {
        memory.write_all_at(&text, start).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_read_from_stat() {
        let fields: Vec<String> = (4..=52).map(|n| (n * 10).to_string()).collect();
        let stat = format!("12 (a ) b) S {}", fields.join(" "));
        assert_eq!(place(&stat), Some((480, 30)));
        assert_eq!(place("12 (a) S 1 2"), None);
        assert_eq!(place(""), None);
    }
}
