//! What only the operating system can do to a process; all unsafe code of the crate is here, but for one instruction of
//! `common/prefetch.rs`.

use std::{
    ffi::{CString, OsString},
    fs::OpenOptions,
    io,
    os::fd::{FromRawFd as _, OwnedFd, RawFd},
};

use caps::{CapSet, Capability, CapsHashSet};
use nix::{
    libc,
    sys::{
        prctl::set_keepcaps,
        resource::{Resource, setrlimit},
    },
    unistd::{self, ForkResult, Gid, Pid, Uid},
};

use crate::conf::model::Main;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fork {
    /// The old process; holds the child's id.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Makes a copy of this process. The caller has one thread and takes care of shared descriptors.
#[expect(unsafe_code, reason = "fork has no safe form")]
pub(super) fn fork() -> io::Result<Fork> {
    // SAFETY: the master has a single thread (it starts neither a runtime nor a log writer), so the child finds no
    // lock held by a thread that does not exist there, and may go on as any program.
    match unsafe { unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Fork::Parent(child)),
        ForkResult::Child => Ok(Fork::Child),
    }
}

/// Takes over a descriptor that the program before this one left open, by its number. None: there is none, or it is one of
/// the first three. Only at the start, before anything else is open: then nobody else here owns it.
#[expect(
    unsafe_code,
    reason = "a number from the environment becomes a descriptor"
)]
pub(super) fn take_descriptor(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: a system call with plain numbers; it fails for a number that is not open.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if number <= libc::STDERR_FILENO || flags < 0 {
        return None;
    }
    // SAFETY: it is open, and the caller says that nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    let close_on_exec = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
    nix::fcntl::fcntl(&fd, close_on_exec).ok()?;
    Some(fd)
}

/// Moves the environment to memory of its own, so that what the system put behind the arguments is free for a title. Only at
/// the start, while there is one thread.
#[expect(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "there is one thread, and the environment stays the same"
)]
pub(super) fn move_environment() {
    for (name, value) in std::env::vars_os() {
        // A name may begin with it; such a variable stays where it is.
        if name.as_encoded_bytes().contains(&b'=') {
            continue;
        }
        // SAFETY: the caller says that there is one thread.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Sets the scheduling priority of this process (`worker_priority`).
#[expect(unsafe_code, reason = "neither std nor nix has setpriority")]
pub(super) fn set_priority(priority: i32) -> io::Result<()> {
    // SAFETY: a system call with plain numbers; it touches no memory of ours.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The new session's first steps after the fork of `daemon on`. The error says what failed.
pub(super) fn detach() -> Result<(), (&'static str, io::Error)> {
    let at = |what| move |errno: nix::Error| (what, errno.into());
    unistd::setsid().map_err(at("setsid()"))?;
    nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| ("open(\"/dev/null\")", error))?;
    unistd::dup2_stdin(&null).map_err(at("dup2(STDIN)"))?;
    unistd::dup2_stdout(&null).map_err(at("dup2(STDOUT)"))
}

/// The worker's limits. Gives what failed to `failed`; none of it is fatal.
pub(super) fn set_limits(main: &Main, failed: &mut dyn FnMut(String, io::Error)) {
    if main.worker_priority != 0
        && let Err(error) = set_priority(main.worker_priority)
    {
        failed(format!("setpriority({})", main.worker_priority), error);
    }
    for (limit, resource, name) in [
        (
            main.worker_rlimit_nofile,
            Resource::RLIMIT_NOFILE,
            "RLIMIT_NOFILE",
        ),
        (
            main.worker_rlimit_core,
            Resource::RLIMIT_CORE,
            "RLIMIT_CORE",
        ),
    ] {
        if let Some(limit) = limit
            && let Err(error) = setrlimit(resource, limit, limit)
        {
            failed(format!("setrlimit({name}, {limit})"), error.into());
        }
    }
}

/// Who the worker becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    name: CString,
    pub(super) uid: Uid,
    gid: Gid,
}

/// The user of a master without `user`.
const NOBODY: &str = "nobody";

impl User {
    /// The user that `main` names, for a master that is root; None for another. The error is nginx's message.
    pub(super) fn of(main: &Main) -> Result<Option<Self>, String> {
        if !unistd::geteuid().is_root() {
            return Ok(None);
        }
        let (name, group) = match &main.user {
            Some((name, group)) => (&**name, group.as_deref().or(Some(name))),
            None => (NOBODY, None),
        };
        let user = unistd::User::from_name(name)
            .ok()
            .flatten()
            .ok_or_else(|| format!("getpwnam(\"{name}\") failed"))?;
        let gid = match group {
            None => user.gid,
            Some(group) => {
                let group_entry = unistd::Group::from_name(group).ok().flatten();
                group_entry
                    .ok_or_else(|| format!("getgrnam(\"{group}\") failed"))?
                    .gid
            }
        };
        let name = CString::new(name).map_err(|_| format!("getpwnam(\"{name}\") failed"))?;
        Ok(Some(Self {
            name,
            uid: user.uid,
            gid,
        }))
    }

    /// Makes this process that user, who has no capability of root's, but for the one that `transparent` binds need. The
    /// error says what failed; then the process must not go on. The groups may stay as they are, which is given to `failed`:
    /// in a container without a root of its own they cannot be set.
    pub(super) fn become_user(
        &self,
        transparent: bool,
        failed: &dyn Fn(String, io::Error),
    ) -> Result<(), (String, io::Error)> {
        let transparent = transparent && !self.uid.is_root();
        let (uid, gid) = (self.uid, self.gid);
        let at = |what: String| move |errno: nix::Error| (what, errno.into());
        unistd::setgid(gid).map_err(at(format!("setgid({gid})")))?;
        if let Err(error) = unistd::initgroups(&self.name, gid) {
            let name = self.name.to_string_lossy();
            failed(format!("initgroups({name}, {gid})"), error.into());
        }
        if transparent {
            set_keepcaps(true).map_err(at("prctl(PR_SET_KEEPCAPS, 1)".to_owned()))?;
        }
        unistd::setuid(uid).map_err(at(format!("setuid({uid})")))?;
        if transparent {
            keep_raw_sockets().map_err(|error| ("capset()".to_owned(), error))?;
        }
        Ok(())
    }
}

/// Gives up all capabilities but `CAP_NET_RAW`.
fn keep_raw_sockets() -> io::Result<()> {
    let only = CapsHashSet::from([Capability::CAP_NET_RAW]);
    caps::set(None, CapSet::Permitted, &only)
        .and_then(|()| caps::clear(None, CapSet::Inheritable))
        .and_then(|()| caps::set(None, CapSet::Effective, &only))
        .map_err(|_| io::Error::last_os_error())
}

/// Leaves the process no other environment than this. Names hold no `=`, and the process has one thread.
#[expect(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "another thread would have to be kept from reading; here there is none"
)]
pub(super) fn replace_environment(variables: &[(OsString, OsString)]) {
    // SAFETY: the caller's process has a single thread; see `fork`.
    if unsafe { nix::env::clearenv() }.is_err() {
        return;
    }
    for (name, value) in variables {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
}

/// A process that has changed its user writes a core file again.
pub(super) fn allow_core_dumps() -> io::Result<()> {
    nix::sys::prctl::set_dumpable(true).map_err(io::Error::from)
}
