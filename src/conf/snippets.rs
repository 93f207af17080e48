//! Every configuration in the documentation is read: what is shown must work.
//!
//! A block of Markdown that begins with three ticks and `nginx` is what stands in `http`; a word behind it says another
//! place (`main`, `server`, `location`, `upstream`, `stream`).

use std::{fs, path::Path};

use super::tests::load_file;

/// A snippet and where it is.
struct Snippet {
    place: String,
    context: String,
    text: String,
}

fn snippets(file: &Path) -> Vec<Snippet> {
    let text = fs::read_to_string(file).unwrap();
    let mut snippets = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(context) = line.trim().strip_prefix("```nginx") else {
            continue;
        };
        let body = lines.by_ref().map(|(_, line)| line);
        let body: Vec<&str> = body.take_while(|line| line.trim() != "```").collect();
        snippets.push(Snippet {
            place: format!("{}:{}", file.display(), number + 1),
            context: context.trim().to_owned(),
            text: body.join("\n"),
        });
    }
    snippets
}

/// A whole configuration around a snippet, with the groups that snippets speak of.
fn whole(snippet: &Snippet) -> String {
    let text = &snippet.text;
    let groups: Vec<&str> = ["app", "api"]
        .into_iter()
        .filter(|name| !text.contains(&format!("upstream {name} ")))
        .collect();
    let groups = groups
        .iter()
        .map(|name| format!("upstream {name} {{ server 127.0.0.1:1; }}"));
    let groups = groups.collect::<Vec<_>>().join(" ");
    match &*snippet.context {
        "main" => text.clone(),
        "stream" => format!("events {{ }} stream {{ {groups}\n{text}\n}}"),
        "" => format!("events {{ }} http {{ {groups}\n{text}\n}}"),
        "server" => format!("events {{ }} http {{ {groups} server {{\n{text}\n}} }}"),
        "location" => {
            format!("events {{ }} http {{ {groups} server {{ location / {{\n{text}\n}} }} }}")
        }
        "upstream" => format!("events {{ }} http {{ upstream u {{\n{text}\n}} }}"),
        other => panic!("{}: what is {other}?", snippet.place),
    }
}

#[test]
fn documentation_shows_what_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        files.push(entry.unwrap().path());
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.conf");
    let mut count = 0;
    for snippet in files.iter().flat_map(|file| snippets(file)) {
        fs::write(&file, whole(&snippet)).unwrap();
        let loaded = load_file(&file);
        let warnings = match &loaded {
            Ok(config) => config.warnings.join("\n"),
            Err(error) => error.to_string(),
        };
        assert!(warnings.is_empty(), "{}: {warnings}", snippet.place);
        count += 1;
    }
    assert!(count >= 15, "{count}");
}

/// What the documents link to is there.
#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        files.push(entry.unwrap().path());
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (_, rest) in text
            .match_indices("](")
            .map(|(at, _)| text.split_at(at + 2))
        {
            let (target, _) = rest.split_once(')').unwrap();
            let path = target.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            let path = file.with_file_name(path);
            assert!(path.exists(), "{}: {target}", file.display());
        }
    }
}
