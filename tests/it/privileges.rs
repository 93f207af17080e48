//! Who the worker is, and what the system lets it do: `user` and capabilities, limits, processors, directory, environment.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

use nix::{
    sched::{CpuSet, sched_getaffinity},
    sys::signal::Signal,
    unistd::{Pid, Uid},
};
use socket2::{Domain, Socket, Type};

use crate::support::{Client, Subject, both, both_under, compare::check, ours};

/// Becomes a user without any privilege, as one of systemd's services is.
const NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--bounding-set=-all",
    "--inh-caps=-all",
    "--no-new-privs",
];
/// The same with the one capability that its unit grants.
const AMBIENT: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--bounding-set=-all,+net_bind_service",
    "--inh-caps=-all,+net_bind_service",
    "--ambient-caps=-all,+net_bind_service",
    "--no-new-privs",
];

/// Whether these tests can change who they are.
fn is_root() -> bool {
    let is_root = Uid::effective().is_root();
    if !is_root {
        eprintln!("skipped: only root can become somebody else");
    }
    is_root
}

/// A line of `/proc/PID/FILE` that begins with `key`, without its spaces at the ends.
fn line(process: u32, file: &str, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn worker(s: &Subject) -> u32 {
    *s.workers().last().unwrap()
}

/// HUP, and the end of the worker of before.
fn reload(s: &Subject) {
    let gone = s.errors("exited with code 0", 0);
    s.signal(Signal::SIGHUP);
    s.errors("exited with code 0", gone + 1);
}

/// Who a process is, and what it may do.
fn identity(process: u32) -> Vec<String> {
    [
        "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb",
    ]
    .map(|key| line(process, "status", key))
    .to_vec()
}

/// Without privileges it starts, reloads and serves, and says that `user` is of no use.
#[test]
fn an_unprivileged_start_needs_nothing() {
    let conf = "
        upstream u { server {{a}}; }
        server { listen {{listen}}; location / { proxy_pass http://u; } }";
    let under = if is_root() { NOBODY } else { &[] };
    both_under(under, conf, |s: &mut Subject| {
        s.backends(&[("a", 0)]);
        let before = s.get("/");
        reload(s);
        let warnings = s.errors("makes sense only", 0);
        (
            before,
            s.get("/"),
            (warnings > 0, is_root()),
            identity(worker(s)),
        )
    });
}

/// Root of a namespace that cannot set groups, as in a container of an ordinary user, serves all the same.
#[test]
fn root_of_a_container_may_have_no_groups() {
    if !is_root() {
        return;
    }
    let under = &["unshare", "--user", "--map-root-user"];
    if !Command::new(under[0])
        .args(&under[1..])
        .arg("true")
        .status()
        .is_ok_and(|s| s.success())
    {
        return eprintln!("skipped: no namespaces of users");
    }
    let conf = "server { listen {{listen}}; location / { return 200 ok; } }";
    let (response, _) = both_under(under, conf, |s: &mut Subject| {
        (s.get("/"), s.error("initgroups("))
    });
    assert_eq!(response.status(), 200);
}

/// With one capability it takes low ports too, also those that a reload brings, and after a new binary took over.
#[test]
fn low_ports_need_one_capability() {
    if !is_root() {
        return;
    }
    let conf = "
        # more
        server { listen {{listen}}; location / { return 200 ok; } }";
    both_under(AMBIENT, conf, |s: &mut Subject| {
        let (first, _kept) = add_low_port(s, "first");
        reload(s);
        let seen = (ask(first), identity(s.process()), identity(worker(s)));
        // nginx leaves USR2 alone while it is in the foreground.
        if !s.is_nginx() {
            s.upgrade();
            s.signal(Signal::SIGQUIT);
            s.wait_end();
            let (second, _kept) = add_low_port(s, "second");
            let gone = s.errors("exited with code 0", 0);
            s.signal_newer(Signal::SIGHUP);
            s.errors("exited with code 0", gone + 1);
            assert_eq!([ask(first), ask(second)], ["first", "second"]);
            assert_eq!(identity(s.pid("test.pid").unwrap()), seen.1);
        }
        seen
    });
}

/// Puts a server into the configuration, at a port that needs the capability.
fn add_low_port(s: &Subject, text: &str) -> (SocketAddr, Socket) {
    let file = s.path("test.conf");
    let conf = fs::read_to_string(&file).unwrap();
    let (address, keeper) = low_port();
    let more =
        format!("# more\nserver {{ listen {address}; location / {{ return 200 {text}; }} }}");
    fs::write(&file, conf.replace("# more", &more)).unwrap();
    (address, keeper)
}

/// What a server says.
fn ask(address: SocketAddr) -> String {
    let mut client = Client::new(address);
    client.send("GET / HTTP/1.0\r\n\r\n").response().text()
}

/// A port that only root, or who has the capability, can take. As long as the socket lives it is no other test's.
fn low_port() -> (SocketAddr, Socket) {
    (600..1024)
        .find_map(|port| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.bind(&address.into()).ok()?;
            // From here on a program that asks for this very port gets it too.
            socket.set_reuse_address(true).unwrap();
            Some((address, socket))
        })
        .unwrap()
}

/// The worker of a master that is root has the user's groups and no capability, but for the one of transparent binds.
#[test]
fn the_worker_becomes_the_user() {
    if !is_root() {
        return;
    }
    for (user, bind, capabilities) in [
        ("daemon", "", 0),
        ("daemon nogroup", "", 0),
        ("daemon", "proxy_bind 127.0.0.1 transparent;", 1 << 13),
    ] {
        let conf = format!(
            "
pid {{{{dir}}}}/test.pid; error_log {{{{dir}}}}/error.log info; user {user};
events {{ }}
http {{
    access_log off; client_body_temp_path {{{{dir}}}}/body; proxy_temp_path {{{{dir}}}}/proxy;
    upstream u {{ server {{{{a}}}}; }}
    server {{ listen {{{{listen}}}}; location / {{ {bind} proxy_pass http://u; }} }}
}}"
        );
        let (response, who) = both(&conf, |s: &mut Subject| {
            s.backends(&[("a", 0)]);
            (s.get("/"), identity(worker(s)))
        });
        assert_eq!(response.status(), 200, "{bind}");
        let effective = u64::from_str_radix(who[5].rsplit(' ').next().unwrap(), 16);
        assert_eq!(effective, Ok(capabilities), "{bind}");
    }
}

/// Limits, priority and directory are the worker's alone.
#[test]
fn the_worker_has_its_own_limits() {
    let conf = "
        worker_rlimit_nofile 333; worker_rlimit_core 1k; worker_priority 7; working_directory {{dir}}/html;
        events { }
        http {
            access_log off; client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
            server { listen {{listen}}; location / { return 200 ok; } }
        }";
    let worker = both(conf, |s: &mut Subject| {
        // Who answers has its limits.
        s.get("/");
        let worker = worker(s);
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let nice = fields.split(' ').nth(16).map(str::to_owned);
        let directory = fs::read_link(format!("/proc/{worker}/cwd")).unwrap();
        (
            line(worker, "limits", "Max open files"),
            line(worker, "limits", "Max core file size"),
            nice,
            directory.ends_with("html"),
            line(s.process(), "limits", "Max open files")
                == line(worker, "limits", "Max open files"),
        )
    });
    assert_eq!(worker.0, "Max open files 333 333 files");
    assert_eq!(
        (worker.2.as_deref(), worker.3, worker.4),
        (Some("7"), true, false)
    );
}

/// A directory that is not there ends the worker for good.
#[test]
fn a_working_directory_must_exist() {
    let conf = "
        working_directory {{dir}}/none;
        events { }
        http {
            access_log off; client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
            server { listen {{listen}}; location / { return 200 ok; } }
        }";
    both(conf, |s: &mut Subject| {
        let why = s.error("chdir(");
        (why, s.errors("cannot be respawned", 1), s.workers().len())
    });
}

/// The processors that this process may use.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let all = 0..CpuSet::count();
    all.filter(|&n| set.is_set(n).unwrap_or(false)).collect()
}

/// Where the threads that serve may run: nginx's workers, or ours.
fn bound_to(s: &Subject) -> Vec<String> {
    let mut lists = Vec::new();
    for worker in s.workers() {
        for task in fs::read_dir(format!("/proc/{worker}/task")).unwrap() {
            let task = task.unwrap().path();
            let name = fs::read_to_string(task.join("comm")).unwrap();
            if s.is_nginx() || name.starts_with("worker ") {
                let id = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
                lists.push(line(id, "status", "Cpus_allowed_list"));
            }
        }
    }
    lists.sort();
    lists
}

/// A thread has the mask that nginx's worker of its number has.
#[test]
fn threads_stay_on_their_processors() {
    let allowed = processors();
    let bit = |n: usize| format!("1{}", "0".repeat(n));
    let (first, last) = (bit(allowed[0]), bit(*allowed.last().unwrap()));
    for (masks, lines) in [
        (format!("{first} {last}"), 3),
        (format!("auto {first}"), 3),
        (last, 3),
        // An empty set is refused by the system.
        ("0".to_owned(), 0),
    ] {
        let conf = format!(
            "
            worker_processes 3; worker_cpu_affinity {masks};
            events {{ }}
            http {{
                access_log off; client_body_temp_path {{{{dir}}}}/body; proxy_temp_path {{{{dir}}}}/proxy;
                server {{ listen {{{{listen}}}}; location / {{ return 200 ok; }} }}
            }}"
        );
        both(&conf, |s: &mut Subject| {
            s.errors("sched_setaffinity()", 3);
            let failure = (lines == 0).then(|| s.error("sched_setaffinity() failed"));
            let warning = masks.contains(' ') && !masks.contains("auto");
            let warning = warning.then(|| s.errors("using last mask", 0) + words(s));
            let used = s.errors(&format!("using cpu #{}", allowed[0]), 0);
            (bound_to(s), failure, warning, used)
        });
    }
}

/// How often standard error has the warning about masks, which comes before the log is open.
fn words(s: &Subject) -> usize {
    let text = fs::read_to_string(s.path("stderr")).unwrap();
    text.matches("using last mask").count()
}

/// The worker's time zone is that of its master, or the one of `env`, after a new binary took over as well.
#[test]
fn the_zone_of_the_environment() {
    let conf = "
        {{env}}
        events { }
        http {
            access_log off; client_body_temp_path {{dir}}/body; proxy_temp_path {{dir}}/proxy;
            server { listen {{listen}}; location / { return 200 $time_local; } }
        }";
    let now = |s: &Subject| s.get("/").text().rsplit(' ').next().unwrap().to_owned();
    let zones = |s: &mut Subject| {
        let first = now(s);
        // nginx leaves USR2 alone while it is in the foreground.
        if !s.is_nginx() {
            s.upgrade();
            s.signal(Signal::SIGQUIT);
            s.wait_end();
        }
        [first, now(s)]
    };
    let under = &["env", "TZ=XYZ-5"];
    assert_eq!(
        both_under(under, &conf.replace("{{env}}", ""), zones),
        ["+0500"; 2]
    );
    // DIFFERS(env-zone): nginx uses it after a reload, if ever.
    let set = conf.replace("{{env}}", "env TZ=XYZ-3;");
    assert_eq!(ours(&set, zones), ["+0300"; 2]);
}

/// Masks are read, counted and complained about as by nginx.
#[test]
fn masks_are_checked() {
    for masks in [
        "01 10",
        "'1 0' 1",
        "auto 00",
        "auto 01 10",
        "auto",
        "012",
        "''",
    ] {
        let conf = format!("worker_processes 3; worker_cpu_affinity {masks};\nevents {{ }}");
        let valid = !matches!(masks, "auto 01 10" | "012");
        assert_eq!(check(&conf), Some(i32::from(!valid)), "{masks}");
    }
}
