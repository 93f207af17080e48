//! What the manual says of each directive, held against what the reader does.

use std::collections::BTreeSet;

use tempfile::TempDir;

use super::{
    ANY, BLOCK, EVENTS, FLAG, HTTP, LOCATION, MAIN, ONE_MORE, Row, SERVER, STREAM, STREAM_SERVER,
    STREAM_UPSTREAM, Support, TWO_MORE, UPSTREAM, rows,
};
use crate::{
    conf::{ConfError, LoadOptions, load, model},
    vars::VarId,
};

fn honoured() -> impl Iterator<Item = &'static Row> {
    rows().filter(|row| matches!(row.support, Support::Honoured(_)))
}

/// The words of a syntax: `[`, `]`, `|` and `...` stand alone, also where a bracket touches a word.
fn tokens(form: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    for mut word in form.split_whitespace() {
        while let Some(rest) = word.strip_prefix('[') {
            // A word such as `[:<port>]` within another is part of it.
            tokens.push("[".to_owned());
            word = rest;
        }
        let opens = word.matches('[').count();
        let surplus = word.matches(']').count() - opens;
        let (word, ends) = word.split_at(word.len() - surplus);
        tokens.push(word.to_owned());
        tokens.extend(ends.chars().map(String::from));
    }
    tokens
}

/// What a syntax allows: every list of words, and whether one of them may be repeated.
#[derive(Default)]
struct Allowed {
    lists: BTreeSet<Vec<String>>,
    repeats: bool,
}

impl Allowed {
    fn of(form: &str) -> Self {
        Self::parse(form, &tokens(form.trim_end_matches("{ ... }")))
    }

    /// Those alone that have no place for a word of the operator's.
    fn literally(form: &str) -> Self {
        let mut tokens = tokens(form);
        for token in &mut tokens {
            if token.contains(['<', '$']) {
                token.clear();
            }
        }
        Self::parse(form, &tokens)
    }

    fn parse(form: &str, tokens: &[String]) -> Self {
        let mut rest = tokens;
        let allowed = Self::sequence(&mut rest);
        assert!(rest.is_empty(), "{form}: {rest:?} is left");
        allowed
    }

    fn sequence(rest: &mut &[String]) -> Self {
        let mut all = Self::default();
        all.lists.insert(Vec::new());
        while let Some(token) = rest.first().filter(|token| *token != "]") {
            if token == "..." {
                all.repeats = true;
                *rest = &rest[1..];
                continue;
            }
            let next = Self::choice(rest);
            all.repeats |= next.repeats;
            let joined = all.lists.iter().flat_map(|first| {
                let join = |then: &Vec<String>| [first.clone(), then.clone()].concat();
                next.lists.iter().map(join)
            });
            all.lists = joined.collect();
        }
        all
    }

    fn choice(rest: &mut &[String]) -> Self {
        let mut all = Self::item(rest);
        while rest.first().is_some_and(|token| token == "|") {
            *rest = &rest[1..];
            let other = Self::item(rest);
            all.repeats |= other.repeats;
            all.lists.extend(other.lists);
        }
        all
    }

    fn item(rest: &mut &[String]) -> Self {
        let (token, after) = rest.split_first().expect("an item follows");
        *rest = after;
        if token != "[" {
            let list = (!token.is_empty()).then(|| vec![token.clone()]);
            let lists = list.into_iter().collect();
            return Self {
                lists,
                repeats: false,
            };
        }
        let mut inner = Self::sequence(rest);
        inner.lists.insert(Vec::new());
        assert_eq!(rest.first().map(String::as_str), Some("]"), "{token}");
        *rest = &rest[1..];
        inner
    }
}

#[test]
fn syntaxes_are_understood() {
    let lists = |form| {
        let allowed = Allowed::of(form);
        let lists: Vec<String> = allowed.lists.iter().map(|list| list.join(" ")).collect();
        (lists.join(", "), allowed.repeats)
    };
    let expected = "a[:b] d, a[:b] d e, c d, c d e".to_owned();
    assert_eq!(lists("a[:b] | c d [e]"), (expected, false));
    assert_eq!(lists("[a [b]] { ... }"), (", a, a b".to_owned(), false));
    assert_eq!(lists("a ... [= | =b]").0, "a, a =, a =b");
    assert!(lists("a ...").1);
}

#[test]
fn honoured_directives_have_a_syntax() {
    for row in honoured() {
        let name = row.name;
        let forms = row.forms();
        assert!(forms.is_some(), "{name} has no syntax");
        for form in forms.unwrap() {
            let has_block = form.ends_with("{ ... }");
            assert_eq!(has_block, row.arguments & BLOCK != 0, "{name} {form}");
        }
    }
}

/// A syntax allows as many arguments as the checker does, not more and not fewer.
#[test]
fn syntaxes_have_the_number_of_arguments() {
    for row in honoured() {
        let allowed = row.forms().unwrap().into_iter().map(Allowed::of);
        let allowed: Vec<Allowed> = allowed.collect();
        let repeats = allowed.iter().any(|form| form.repeats);
        let lists = allowed.iter().flat_map(|form| &form.lists);
        let counts: BTreeSet<usize> = lists.map(Vec::len).collect();
        let least = |arguments| match arguments {
            a if a & (ONE_MORE | FLAG) != 0 => Some(1),
            a if a & TWO_MORE != 0 => Some(2),
            _ => None,
        };
        let name = row.name;
        if let Some(least) = least(row.arguments) {
            assert_eq!(counts.first(), Some(&least), "{name}");
            continue;
        }
        let expected = (0..8).filter(|count| row.arguments & (1 << count) != 0);
        assert_eq!(counts, expected.collect(), "{name}");
        assert!(!repeats, "{name} takes no list");
    }
}

fn try_load(dir: &TempDir, text: &str) -> Result<model::Config, ConfError> {
    let file = dir.path().join("x.conf");
    std::fs::write(&file, text).unwrap();
    load(&LoadOptions {
        file,
        prefix: "/var/empty/".into(),
        globals: Vec::new(),
        error_log: None,
    })
}

/// A configuration with `line` where `row` may stand: with a proxied location, because some directives need one, and
/// without types, because a table of several is shown in any order.
fn around(row: &Row, line: &str) -> String {
    let place = |context| {
        if row.contexts != ANY && row.contexts & context == context {
            line
        } else {
            ""
        }
    };
    // The first place that fits; a directive may stand in several.
    let order = [
        MAIN,
        EVENTS,
        LOCATION,
        SERVER,
        HTTP,
        UPSTREAM,
        STREAM_SERVER,
        STREAM,
        STREAM_UPSTREAM,
    ];
    let chosen = order
        .into_iter()
        .find(|context| !place(*context).is_empty());
    let at = |context| if chosen == Some(context) { line } else { "" };
    format!(
        "{} events {{ {} }} http {{ types {{ }} {} upstream u {{ server 127.0.0.1:1; {} }} \
         server {{ {} location / {{ proxy_pass http://u; {} }} }} }} \
         stream {{ {} upstream s {{ server 127.0.0.1:1; {} }} \
         server {{ {} listen 127.0.0.1:2; proxy_pass s; }} }}",
        at(MAIN),
        at(EVENTS),
        at(HTTP),
        at(UPSTREAM),
        at(SERVER),
        at(LOCATION),
        at(STREAM),
        at(STREAM_UPSTREAM),
        at(STREAM_SERVER),
    )
}

fn line(row: &Row, arguments: &str) -> String {
    let end = if row.arguments & BLOCK != 0 { "" } else { ";" };
    format!("{} {arguments}{end}", row.name)
}

/// What a configuration means where `row` may stand.
fn meaning(config: &model::Config, row: &Row) -> String {
    match row.contexts {
        contexts if contexts & (MAIN | EVENTS) != 0 => {
            format!("{:?} {:?}", config.main, config.events)
        }
        contexts if contexts & (STREAM | STREAM_SERVER | STREAM_UPSTREAM) != 0 => {
            format!("{:?}", config.stream)
        }
        _ => format!("{:?}", config.http),
    }
}

/// Defaults that are another thing in the model when they are written out, and why.
const NOT_THE_SAME: &[(&str, &str)] = &[
    ("types", "a block of its own is a table of its own"),
    ("error_log", "what is written out is a list of one"),
    ("root", "what is written out begins with the prefix"),
    (
        "client_body_temp_path",
        "what is written out begins with the prefix",
    ),
    (
        "proxy_temp_path",
        "what is written out begins with the prefix",
    ),
    ("limit_rate", "none is no text, not a 0"),
    ("limit_rate_after", "none is no text, not a 0"),
    ("proxy_limit_rate", "none is no text, not a 0"),
    ("proxy_upload_rate", "none is no text, not a 0"),
    ("proxy_download_rate", "none is no text, not a 0"),
    ("gzip_proxied", "off is a member of the set"),
    ("proxy_set_header", "what is set is a list of its own"),
    ("env", "what is set is a list of its own"),
];

#[test]
fn defaults_are_what_holds_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut without = None;
    let mut other = BTreeSet::new();
    for row in honoured().filter(|row| !row.default.is_empty()) {
        let without = without.get_or_insert_with(|| try_load(&dir, &around(row, "")).unwrap());
        match try_load(&dir, &around(row, &line(row, row.default))) {
            Ok(given) if meaning(without, row) == meaning(&given, row) => {}
            Ok(_) => drop(other.insert(row.name)),
            // The format that is always there.
            Err(_) if row.name == "log_format" => {}
            Err(error) => panic!("{}: {error}", row.name),
        }
    }
    let excepted = NOT_THE_SAME.iter().map(|(name, _)| *name).collect();
    assert_eq!(other, excepted);
}

/// Whatever a syntax spells out in full is taken.
#[test]
fn words_of_syntaxes_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for row in honoured().filter(|row| row.arguments & BLOCK == 0) {
        for form in row.forms().unwrap() {
            for list in &Allowed::literally(form).lists {
                let text = around(row, &line(row, &list.join(" ")));
                let refused = "headwater does not support ";
                if let Err(error) = try_load(&dir, &text) {
                    let error = error.to_string();
                    assert!(error.starts_with(refused), "{} {list:?}: {error}", row.name);
                }
                count += 1;
            }
        }
    }
    assert!(count > 180, "{count}");
}

#[test]
fn variables_are_documented_by_their_names() {
    let http = VarId::SHARED_VARIABLES.iter().chain(VarId::HTTP_VARIABLES);
    for (name, doc) in http {
        assert!(
            VarId::builtin(name).is_some() && doc.ends_with('.'),
            "{name}"
        );
    }
    let stream = VarId::SHARED_VARIABLES
        .iter()
        .chain(VarId::STREAM_VARIABLES);
    for (name, doc) in stream {
        assert!(
            VarId::stream(name).is_some() && doc.ends_with('.'),
            "{name}"
        );
    }
}
