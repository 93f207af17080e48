//! Every difference from nginx is marked at its line, `DIFFERS(key)`, and has a row in the README's table.

use std::{collections::BTreeSet, fs, path::Path};

use crate::layers::{files, source};

const MARK: &str = "DIFFERS";

/// The keys behind the marks in a text; None for a mark without a key.
fn keys(text: &str) -> impl Iterator<Item = Option<String>> {
    text.match_indices(MARK).map(|(at, _)| {
        let rest = text[at + MARK.len()..].strip_prefix('(')?;
        let (key, rest) = rest.split_once(')')?;
        let is_key = !key.is_empty() && key.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
        (is_key && rest.starts_with(':')).then(|| key.to_owned())
    })
}

/// The keys of the rows of the README's table.
fn rows() -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(readme).unwrap();
    let (_, rest) = text.split_once("<!-- differences -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- /differences -->").unwrap();
    let mut rows = Vec::new();
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "key, nginx, headwater, why: {line}");
        assert!(cells[1..5].iter().all(|cell| !cell.is_empty()), "{line}");
        rows.push(cells[1].trim_matches('`').to_owned());
    }
    rows
}

#[test]
fn marks_and_table_agree() {
    let mut marked = BTreeSet::new();
    for path in files(&source()) {
        let text = fs::read_to_string(&path).unwrap();
        for key in keys(&text) {
            let key = key.unwrap_or_else(|| panic!("{}: a mark without a key", path.display()));
            marked.insert(key);
        }
    }
    let rows = rows();
    let listed: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(listed.len(), rows.len(), "a key has two rows");
    let unlisted: Vec<_> = marked.difference(&listed).collect();
    assert!(
        unlisted.is_empty(),
        "marked, not in the README: {unlisted:?}"
    );
    let unmarked: Vec<_> = listed.difference(&marked).collect();
    assert!(
        unmarked.is_empty(),
        "in the README, not marked: {unmarked:?}"
    );
}

#[test]
fn keys_are_found() {
    let text = "// DIFFERS(a-b): x\n//! DIFFERS: no key\n/// DIFFERS(A): y";
    let found: Vec<_> = keys(text).collect();
    assert_eq!(found, [Some("a-b".to_owned()), None, None]);
}
