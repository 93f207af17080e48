//! Reading `worker_cpu_affinity`.
//!
//! Mirrors `ngx_set_cpu_affinity` (`core/nginx.c`).

use nix::unistd::{SysconfVar, sysconf};

use crate::conf::{
    error::Problem, lexer::Word, model::CpuAffinity, parser::Statement, read::Reader,
};

/// How many processors glibc's sets hold.
const CPU_SETSIZE: usize = 1024;

pub(super) fn worker_cpu_affinity(
    reader: &mut Reader,
    statement: &Statement,
) -> Result<(), Problem> {
    if reader.main.worker_cpu_affinity.is_some() {
        return Err(Problem::duplicate());
    }
    let (words, auto) = match statement.args.as_slice() {
        [auto, rest @ ..] if *auto == "auto" => (rest, true),
        words => (words, false),
    };
    if auto && words.len() > 1 {
        return Err(Problem::message(
            "invalid number of arguments in \"worker_cpu_affinity\" directive",
        ));
    }
    let mut masks = words.iter().map(mask).collect::<Result<Vec<_>, _>>()?;
    if masks.is_empty() {
        masks.push((0..processors()).collect());
    }
    reader.main.worker_cpu_affinity = Some(CpuAffinity { masks, auto });
    Ok(())
}

/// A number in binary, its last digit for processor 0; spaces may stand between the digits.
fn mask(word: &Word) -> Result<Vec<usize>, Problem> {
    if word.bytes().len() > CPU_SETSIZE {
        return Err(Problem::message(format!(
            "\"worker_cpu_affinity\" supports up to {CPU_SETSIZE} CPUs only"
        )));
    }
    let digits = word.bytes().iter().rev().filter(|c| **c != b' ');
    let mut mask = Vec::new();
    for (processor, digit) in digits.enumerate() {
        match digit {
            b'0' => {}
            b'1' => mask.push(processor),
            _ => {
                return Err(Problem::message(format!(
                    "invalid character \"{}\" in \"worker_cpu_affinity\"",
                    char::from(*digit)
                )));
            }
        }
    }
    Ok(mask)
}

/// How many processors there are.
fn processors() -> usize {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    online
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(1)
        .min(CPU_SETSIZE)
}
