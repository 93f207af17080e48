//! The layers of the crate: imports go down only, and the pure parts stay pure.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// From the lowest to the highest; what shares a layer does not import each other.
const LAYERS: [&[&str]; 9] = [
    &["common"],
    &["vars"],
    &["conf"],
    &["net", "tls", "log"],
    &["upstream"],
    &["http", "stream"],
    &["runtime"],
    &["process"],
    &["cli"],
];

/// Where neither a runtime nor a clock may be used; `common/clock.rs` is the clock.
const PURE: [&str; 5] = ["common", "vars", "conf", "upstream", "http/h1"];
const IMPURE: [&str; 4] = ["tokio", "Instant::now", "SystemTime::now", "clock::now"];

pub(crate) fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file below `directory`.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The first names behind `crate::` in a text: `use crate::{conf::model, vars}` names conf and vars.
fn imports(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.push(first_name(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (index, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    names.push(first_name(&list[start..index]));
                    start = index + 1;
                }
                '}' if depth == 0 => {
                    names.push(first_name(&list[start..index]));
                    break;
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(text: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.trim_start().chars().take_while(is_part).collect()
}

/// The lines of a file without comments.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn imports_go_down() {
    let mut wrong = Vec::new();
    for path in files(&source()) {
        let relative = path.strip_prefix(source()).unwrap().to_path_buf();
        let module = relative.iter().next().unwrap().to_string_lossy();
        let module = module.trim_end_matches(".rs");
        let Some(own) = layer(module) else {
            continue;
        };
        for name in imports(&code(&path)) {
            if name != module && layer(&name).is_some_and(|other| other >= own) {
                wrong.push(format!("{}: {module} imports {name}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_parts_are_pure() {
    let mut wrong = Vec::new();
    for part in PURE {
        for path in files(&source().join(part)) {
            if path.ends_with("common/clock.rs") {
                continue;
            }
            let code = code(&path);
            for word in IMPURE {
                if code.contains(word) {
                    wrong.push(format!("{}: {word}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_scan_sees_imports() {
    let text = "use crate::{\n    conf::{self, model::A},\n    vars,\n};\nuse crate::net::io; crate::log::x()";
    assert_eq!(imports(text), ["conf", "vars", "net", "log"]);
}

/// Files open with what they are for, and modules are known to a layer.
#[test]
fn files_say_what_they_are_for() {
    for path in files(&source()) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{}", path.display());
    }
}
