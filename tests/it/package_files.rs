//! The files of the packages agree with the program and with each other. `make package-test` tries the packages themselves.

use std::{collections::BTreeSet, fs, process::Command};

fn file(name: &str) -> String {
    let path = format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The first arguments of a directive in the packaged configuration.
fn values(directive: &str) -> Vec<String> {
    let lines = file("conf/headwater.conf");
    let values = lines.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix(directive)?.strip_prefix(' ')?;
        rest.split([' ', ';']).next().map(str::to_owned)
    });
    values.collect()
}

#[test]
fn the_packaged_configuration_takes_no_port() {
    assert_eq!(values("listen"), Vec::<String>::new());
    assert_eq!(values("server"), Vec::<String>::new());
    assert_eq!(values("include"), ["conf.d/*.conf"]);
}

#[test]
fn logs_are_rotated_where_the_configuration_has_them() {
    let rotation = file("packaging/headwater.logrotate");
    let logs = [values("error_log"), values("access_log")].concat();
    assert_eq!(logs.len(), 2);
    for log in logs {
        let name = log.strip_prefix("/var/log/headwater/").unwrap();
        let stem = name.strip_suffix(".log");
        assert!(stem.is_some_and(|stem| !stem.contains('/')), "{log}");
    }
    assert!(rotation.starts_with("/var/log/headwater/*.log {\n"));
    let pid = &values("pid")[0];
    assert!(rotation.contains(&format!("kill -USR1 \"$(cat {pid})\"")));
    let user = &values("user")[0];
    assert!(rotation.contains(&format!("create 0640 {user} adm\n")));
    for script in ["packaging/deb/postinst", "packaging/rpm/pre"] {
        assert!(file(script).contains(&format!("getent passwd {user} ")));
    }
}

/// The programs that a unit runs.
fn programs(unit: &str) -> BTreeSet<String> {
    let text = file(&format!("packaging/{unit}"));
    let commands = text
        .lines()
        .filter(|line| line.starts_with("Exec"))
        .filter_map(|line| line.split_once('='));
    commands
        .filter_map(|(_, command)| {
            let program = command.trim_start_matches('-').split(' ').next()?;
            Some(program.to_owned())
        })
        .collect()
}

#[test]
fn units_run_what_packages_install() {
    let manifest = file("Cargo.toml");
    for unit in ["headwater.service", "headwater-nginx.service"] {
        let found = programs(unit);
        assert!(found.len() >= 2, "{unit}: {found:?}");
        for path in found {
            let in_deb = manifest.contains(&format!("\", \"{}\", ", path.trim_start_matches('/')));
            let in_rpm = manifest.contains(&format!("dest = \"{path}\""))
                || file("packaging/rpm/post").contains(&format!(" {path}\n"));
            assert!(in_deb && in_rpm, "{path} of {unit}");
        }
    }
}

#[test]
fn completions_know_every_option() {
    let help = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .arg("-h")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stderr).unwrap();
    let options: Vec<char> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  -")?.chars().next())
        .collect();
    assert!(options.len() >= 10, "{options:?}");
    let bash = file("packaging/completions/headwater.bash");
    let zsh = file("packaging/completions/_headwater");
    let fish = file("packaging/completions/headwater.fish");
    for option in options.into_iter().filter(|&option| option != '?') {
        assert!(bash.contains(&format!(" -{option}")), "bash: -{option}");
        assert!(zsh.contains(&format!("-{option}[")), "zsh: -{option}");
        assert!(fish.contains(&format!(" -s {option} ")), "fish: -{option}");
    }
}
