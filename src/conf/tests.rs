//! The corpus under testdata/conf against nginx's recorded words, and the table against nginx's list of directives.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{
    ConfError, LoadOptions, load, model,
    table::{self, Row, Support},
};

fn testdata(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(path)
}

pub(super) fn load_file(file: &Path) -> Result<model::Config, ConfError> {
    load(&LoadOptions {
        file: file.to_owned(),
        prefix: "/var/empty/".into(),
        globals: Vec::new(),
        error_log: None,
    })
}

/// What nginx would print, with file names relative to the corpus.
fn words(file: &Path) -> String {
    let (warnings, error) = match load_file(file) {
        Ok(config) => (config.warnings, None),
        Err(error) => (error.warnings().to_vec(), Some(error)),
    };
    let mut lines: Vec<String> = warnings.iter().map(|w| format!("[warn] {w}\n")).collect();
    lines.extend(error.map(|error| format!("[emerg] {error}\n")));
    let directory = format!("{}/", file.parent().unwrap().display());
    lines.concat().replace(&directory, "")
}

/// Compares every `.conf` of a directory with its `.err`; the number of files.
fn compare(directory: &str) -> usize {
    let mut count = 0;
    let mut differ = Vec::new();
    for entry in fs::read_dir(testdata(directory)).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|e| e != "conf") {
            continue;
        }
        count += 1;
        let expected = fs::read_to_string(file.with_extension("err")).unwrap_or_default();
        let found = words(&file);
        if found != expected {
            let name = file.file_name().unwrap().display();
            differ.push(format!("{name}\n  nginx: {expected}  here:  {found}"));
        }
    }
    assert!(differ.is_empty(), "{}", differ.concat());
    count
}

#[test]
fn bad_files_get_nginx_s_words() {
    assert!(compare("conf/bad") >= 80);
}

#[test]
fn good_files_load_with_nginx_s_warnings() {
    assert!(compare("conf/ok") >= 10);
}

#[test]
fn every_row_is_documented_once() {
    let mut seen: Vec<(&str, u32)> = Vec::new();
    for row in table::rows() {
        assert!(row.doc.ends_with('.') && row.doc.len() > 8, "{}", row.name);
        let again = seen
            .iter()
            .any(|(name, contexts)| *name == row.name && contexts & row.contexts != 0);
        assert!(!again, "{} twice", row.name);
        seen.push((row.name, row.contexts));
    }
}

/// Name, contexts and arguments as testdata/directives.tsv writes them.
fn as_written(row: &Row) -> (String, String, String) {
    let contexts = if row.contexts == table::ANY {
        "any".to_owned()
    } else {
        let names: Vec<&str> = CONTEXTS
            .iter()
            .filter(|(bit, _)| row.contexts & bit != 0)
            .map(|(_, name)| *name)
            .collect();
        names.join("|")
    };
    let counts: Vec<String> = (0..8)
        .filter(|count| row.arguments & (1 << count) != 0)
        .map(|count: u32| count.to_string())
        .collect();
    let mut arguments = match row.arguments {
        a if a & table::FLAG != 0 => "flag".to_owned(),
        a if a & table::ONE_MORE != 0 => "1+".to_owned(),
        a if a & table::TWO_MORE != 0 => "2+".to_owned(),
        _ => counts.join(","),
    };
    if row.arguments & table::BLOCK != 0 {
        arguments.insert_str(0, "block ");
    }
    (row.name.to_owned(), contexts, arguments)
}

const CONTEXTS: [(u32, &str); 14] = [
    (table::MAIN, "main"),
    (table::EVENTS, "events"),
    (table::HTTP, "http"),
    (table::SERVER, "server"),
    (table::SERVER_IF, "if-in-server"),
    (table::LOCATION, "location"),
    (table::LOCATION_IF, "if-in-location"),
    (table::LIMIT_EXCEPT, "limit_except"),
    (table::UPSTREAM, "upstream"),
    (table::STREAM, "stream"),
    (table::STREAM_SERVER, "stream-server"),
    (table::STREAM_UPSTREAM, "stream-upstream"),
    (table::MAIL, "mail"),
    (table::MAIL_SERVER, "mail-server"),
];

#[test]
fn the_table_is_nginx_s() {
    let text = fs::read_to_string(testdata("directives.tsv")).unwrap();
    let nginx: BTreeSet<(String, String, String)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            (fields[0].into(), fields[2].into(), fields[3].into())
        })
        .collect();
    let ours: BTreeSet<_> = table::rows().map(as_written).collect();
    let missing: Vec<_> = nginx.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&nginx).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

#[test]
fn refused_directives_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.conf");
    for row in table::rows().filter(|row| matches!(row.support, Support::Refused)) {
        let body = if row.arguments & table::BLOCK != 0 {
            "{ }"
        } else {
            ";"
        };
        let count = match row.arguments {
            a if a & (table::FLAG | table::ONE_MORE) != 0 => 1,
            a if a & table::TWO_MORE != 0 => 2,
            a => (a & 0xff).trailing_zeros() as usize,
        };
        let line = format!("{}{}{body}\n", row.name, " x".repeat(count));
        let text = match row.contexts {
            c if c & table::MAIN != 0 => line,
            c if c & table::EVENTS != 0 => format!("events {{\n{line}}}"),
            c if c & table::HTTP != 0 => format!("http {{\n{line}}}"),
            c if c & table::LOCATION != 0 => {
                format!("http {{ server {{ location / {{\n{line}}} }} }}")
            }
            c if c & table::UPSTREAM != 0 => format!("http {{ upstream u {{\n{line}}} }}"),
            c if c & table::STREAM != 0 => format!("stream {{\n{line}}}"),
            c if c & table::STREAM_UPSTREAM != 0 => format!("stream {{ upstream u {{\n{line}}} }}"),
            _ => continue,
        };
        fs::write(&file, &text).unwrap();
        let error = load_file(&file).unwrap_err().to_string();
        let expected = format!("headwater does not support \"{}\" yet in ", row.name);
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn globals_come_first() {
    let options = |globals: &str| LoadOptions {
        file: testdata("conf/ok/crlf.conf"),
        prefix: "/p".into(),
        globals: vec![globals.to_owned()],
        error_log: Some("e.log".to_owned()),
    };
    let config = load(&options("daemon off; pid /x.pid;")).unwrap();
    assert!(!config.main.daemon);
    assert_eq!(config.main.pid, Path::new("/x.pid"));
    let log = model::LogTarget::File(Path::new("/p/e.log").into());
    assert_eq!(config.main.error_log[0].target, log);
    for (globals, message) in [
        (
            "daemon off",
            "unexpected end of parameter, expecting \";\" in command line",
        ),
        ("foo;", "unknown directive \"foo\" in command line"),
        (
            "events { }",
            "block directives are not supported in -g option in command line",
        ),
    ] {
        assert_eq!(load(&options(globals)).unwrap_err().to_string(), message);
    }
}

fn readme() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    fs::read_to_string(file).unwrap()
}

#[test]
fn rows_name_differences_of_the_readme() {
    let readme = readme();
    let differences = table::differences(&readme);
    assert!(differences.len() > 20, "{differences:?}");
    for row in table::rows() {
        for key in row.differs {
            let is_known = differences.iter().any(|d| d.key == *key);
            assert!(is_known, "{}: {key} is no row of the README", row.name);
        }
    }
}

#[test]
fn the_manual_page_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/headwater.conf.5");
    let page = table::man_page(&table::differences(&readme()));
    if std::env::var_os("HEADWATER_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&file).is_ok_and(|text| text == page),
        "man/headwater.conf.5 is old: HEADWATER_BLESS=1 cargo test manual_page"
    );
}

#[test]
fn coverage_counts_every_row() {
    let coverage = table::coverage();
    let last = coverage.lines().last().unwrap();
    let total: usize = last
        .split('|')
        .filter_map(|cell| cell.trim().parse::<usize>().ok())
        .sum();
    assert_eq!(total, table::rows().count(), "{last}");
}

#[test]
fn the_readme_has_the_current_coverage() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = readme();
    let (begin, end) = ("<!-- directives -->\n", "<!-- /directives -->");
    let Some((before, rest)) = text.split_once(begin) else {
        return;
    };
    let (found, after) = rest
        .split_once(end)
        .expect("the end of the table is marked");
    let table = table::coverage();
    if std::env::var_os("HEADWATER_BLESS").is_some() {
        fs::write(&file, [before, begin, &table, end, after].concat()).unwrap();
        return;
    }
    assert_eq!(found, table, "HEADWATER_BLESS=1 cargo test coverage");
}

#[test]
fn every_honoured_directive_is_in_a_good_file() {
    let mut text = String::new();
    for entry in fs::read_dir(testdata("conf/ok")).unwrap() {
        let file = entry.unwrap().path();
        if file.is_file() {
            text += &fs::read_to_string(&file).unwrap();
        }
    }
    let words: BTreeSet<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    for (area, rows) in table::AREAS {
        for row in rows {
            let honoured = matches!(row.support, Support::Honoured(_));
            assert!(
                !honoured || words.contains(row.name),
                "{area}: {} is in no file of testdata/conf/ok",
                row.name
            );
        }
    }
}
