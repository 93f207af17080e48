//! The main context.
//!
//! Mirrors core/nginx.c and `ngx_set_env`, `ngx_set_user`, `ngx_set_priority` there.

use std::{num::NonZero, thread};

use super::{
    ANY, BLOCK, FLAG, MAIN, NONE, ONE_MORE, Row, TAKE1, TAKE12, TAKE23,
    accepted::{flag_once, once, time_once, word_once},
    log, ssl_values,
};
use crate::conf::{
    error::Problem,
    lexer::Word,
    parser::Statement,
    read::{self, Reader, first, flag, msec, num, unset},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "include",
        ANY,
        TAKE1,
        |_, _| Ok(()),
        "Reads other files here; `*`, `?` and `[]` match several.",
    )
    .takes("<file> | <mask>", "")
    .differs(&["include-cycle", "nesting"]),
    Row::new(
        "daemon",
        MAIN,
        FLAG,
        |r, s| flag(&mut r.main.daemon, s),
        "Runs in the background.",
    )
    .default("on")
    .differs(&["launch", "foreground"]),
    Row::new(
        "master_process",
        MAIN,
        FLAG,
        |r, s| flag(&mut r.main.master_process, s),
        "Runs a master process beside the worker.",
    )
    .default("on"),
    Row::new(
        "pid",
        MAIN,
        TAKE1,
        pid,
        "Names the file with the master's process id.",
    )
    .takes("<file>", "logs/nginx.pid")
    .differs(&["pid-alias"]),
    Row::new(
        "user",
        MAIN,
        TAKE12,
        user,
        "Sets the user and group that the worker becomes.",
    )
    .takes("<user> [<group>]", ""),
    Row::new(
        "worker_processes",
        MAIN,
        TAKE1,
        worker_processes,
        "Sets the number of the worker's threads; `auto` is one a processor.",
    )
    .takes("<number> | auto", "1")
    .differs(&["threads"]),
    Row::new(
        "worker_rlimit_nofile",
        MAIN,
        TAKE1,
        |r, s| num(&mut r.main.worker_rlimit_nofile, s),
        "Limits how many files the worker may have open.",
    )
    .takes("<number>", ""),
    Row::new(
        "worker_rlimit_core",
        MAIN,
        TAKE1,
        |r, s| read::bytes_or_giga(&mut r.main.worker_rlimit_core, s),
        "Limits the size of a core file of the worker.",
    )
    .takes("<size>", ""),
    Row::new(
        "worker_shutdown_timeout",
        MAIN,
        TAKE1,
        |r, s| msec(&mut r.main.worker_shutdown_timeout, s),
        "Bounds how long a worker that is being replaced finishes its requests.",
    )
    .takes("<time>", ""),
    Row::new(
        "worker_priority",
        MAIN,
        TAKE1,
        worker_priority,
        "Sets the scheduling priority of the worker, -20 to 20.",
    )
    .takes("<number>", "0"),
    Row::new(
        "working_directory",
        MAIN,
        TAKE1,
        working_directory,
        "Sets the worker's current directory.",
    )
    .takes("<directory>", ""),
    Row::new(
        "env",
        MAIN,
        TAKE1,
        |r, s| {
            env(r, s);
            Ok(())
        },
        "Keeps or sets a variable of the worker's environment; besides these there is only `TZ`.",
    )
    .takes("<name>[=<text>]", "TZ")
    .differs(&["env-zone"]),
    Row::new(
        "error_log",
        MAIN,
        ONE_MORE,
        log::main_error_log,
        "Sets where errors are logged, and from which severity on.",
    )
    .takes(
        "<file> | stderr | syslog:server=<address>[,<parameter>=<value>] | \
             memory:<size> [<level>]",
        "logs/error.log error",
    ),
    Row::new(
        "events",
        MAIN,
        BLOCK | NONE,
        super::events::events,
        "Holds what is about connections.",
    ),
    Row::new(
        "http",
        MAIN,
        BLOCK | NONE,
        super::http_blocks::http,
        "Holds the HTTP servers.",
    ),
    Row::new(
        "stream",
        MAIN,
        BLOCK | NONE,
        super::stream::stream,
        "Holds the TCP and UDP servers.",
    ),
    Row::accepted(
        "load_module",
        MAIN,
        TAKE1,
        load_module,
        "Loads a module into nginx; here all are built in.",
    ),
    Row::accepted(
        "debug_points",
        MAIN,
        TAKE1,
        |r, s| word_once(r, s, &["stop", "abort"]),
        "Says what nginx does at an internal error.",
    ),
    Row::accepted(
        "lock_file",
        MAIN,
        TAKE1,
        once,
        "Names a file for nginx's locks where atomic operations are missing.",
    ),
    Row::accepted(
        "timer_resolution",
        MAIN,
        TAKE1,
        time_once,
        "Makes nginx ask for the time less often.",
    ),
    Row::new(
        "worker_cpu_affinity",
        MAIN,
        ONE_MORE,
        super::affinity::worker_cpu_affinity,
        "Binds the worker's threads to processors.",
    )
    .takes("<mask>...; auto [<mask>]", ""),
    Row::accepted(
        "thread_pool",
        MAIN,
        TAKE23,
        |_, s| thread_pool(s),
        "Defines a pool of threads for reading files.",
    ),
    Row::accepted(
        "pcre_jit",
        MAIN,
        FLAG,
        flag_once,
        "Compiles patterns to machine code.",
    ),
    Row::accepted(
        "ssl_engine",
        MAIN,
        TAKE1,
        ssl_values::not_supported,
        "Names a hardware accelerator for OpenSSL; a warning says that it is not used.",
    )
    .differs(&["engines"]),
    Row::new(
        "ssl_object_cache_inheritable",
        MAIN,
        FLAG,
        |r, s| flag(&mut r.main.object_cache_inheritable, s),
        "Keeps unchanged certificates, keys and lists over a reload.",
    )
    .default("on"),
    Row::accepted(
        "quic_bpf",
        MAIN,
        FLAG,
        flag_once,
        "Routes QUIC packets with eBPF.",
    ),
    Row::accepted(
        "google_perftools_profiles",
        MAIN,
        TAKE1,
        once,
        "Names a file for profiles of nginx's workers.",
    ),
];

fn pid(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.main.pid.as_ref())?;
    let path = String::from_utf8_lossy(first(statement)).into_owned();
    reader.main.pid = Some(reader.full_path(&path));
    Ok(())
}

fn user(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.main.user.as_ref())?;
    if !nix::unistd::geteuid().is_root() {
        reader.warn(
            "the \"user\" directive makes sense only if the master process runs \
             with super-user privileges, ignored",
            statement,
        );
        return Ok(());
    }
    let mut names = statement.args.iter().map(|word| word.text().into_owned());
    let user = names.next().unwrap_or_default();
    let group = names.next();
    if !matches!(nix::unistd::User::from_name(&user), Ok(Some(_))) {
        return Err(Problem::message(format!("getpwnam(\"{user}\") failed")));
    }
    let group_name = group.as_deref().unwrap_or(&user);
    if !matches!(nix::unistd::Group::from_name(group_name), Ok(Some(_))) {
        return Err(Problem::message(format!(
            "getgrnam(\"{group_name}\") failed"
        )));
    }
    reader.main.user = Some((user, group));
    Ok(())
}

fn worker_processes(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.main.worker_processes.as_ref())?;
    let count = match first(statement) {
        b"auto" => thread::available_parallelism().map_or(1, NonZero::get),
        text => value::number(text)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(Problem::invalid_value)?,
    };
    reader.main.worker_processes = Some(count);
    Ok(())
}

fn worker_priority(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    if reader.main.worker_priority.is_some_and(|n| n != 0) {
        return Err(Problem::duplicate());
    }
    let text = first(statement);
    let (sign, digits) = match text.split_first() {
        Some((b'-', rest)) => (-1, rest),
        Some((b'+', rest)) => (1, rest),
        _ => (1, text),
    };
    let number = value::number(digits)
        .and_then(|n| i32::try_from(n).ok())
        .ok_or_else(|| Problem::Directive("invalid number".to_owned()))?;
    reader.main.worker_priority = Some(sign * number);
    Ok(())
}

fn working_directory(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.main.working_directory.as_ref())?;
    let path = String::from_utf8_lossy(first(statement)).into_owned();
    reader.main.working_directory = Some(path.into());
    Ok(())
}

fn env(reader: &mut Reader, statement: &Statement) {
    let text = String::from_utf8_lossy(first(statement)).into_owned();
    reader.main.env.push(match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text, None),
    });
}

fn load_module(reader: &mut Reader, _statement: &Statement) -> Result<(), Problem> {
    if reader.events.is_some() || reader.http.seen || reader.stream.seen {
        return Err(Problem::Directive("is specified too late".to_owned()));
    }
    Ok(())
}

fn thread_pool(statement: &Statement) -> Result<(), Problem> {
    for word in statement.args.iter().skip(1) {
        let text = word.text();
        let (key, value) = text.split_once('=').unwrap_or((&text, ""));
        let number = value::number(value.as_bytes());
        match key {
            "threads" if number.is_some_and(|n| n > 0) => {}
            "max_queue" if number.is_some() => {}
            "threads" | "max_queue" => {
                return Err(Problem::message(format!("invalid {key} value \"{word}\"")));
            }
            _ => {}
        }
    }
    let threads = |word: &Word| word.bytes().starts_with(b"threads=");
    if !statement.args.iter().any(threads) {
        return Err(Problem::message(format!(
            "\"{}\" must have \"threads\" parameter",
            statement.name
        )));
    }
    Ok(())
}
