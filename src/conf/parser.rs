//! From files to a tree of statements, `include` resolved.
//!
//! A syntax error or a file that cannot be read becomes a [`Node::Error`] at its place: nginx interprets while it reads,
//! so the first problem in the order of the files is the one reported, whatever its kind. The walk over the tree
//! ([`super::read`]) meets the node when it is its turn.
//!
//! Mirrors `ngx_conf_parse` and `ngx_conf_include` (`core/ngx_conf_file.c`).

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    error::{ConfError, Place, failed},
    lexer::{Lexer, Origin, Token, Word},
};

/// One directive as written.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The directive's name.
    pub(crate) name: Word,
    /// Its arguments.
    pub(crate) args: Vec<Word>,
    /// What follows the arguments.
    pub(crate) body: Body,
    /// Where its arguments end.
    pub(crate) place: Place,
}

/// What follows the arguments of a statement.
#[derive(Debug)]
pub(crate) enum Body {
    /// `;`
    Simple,
    /// `{ }`, and the line where that ends.
    Block(Vec<Node>, usize),
    /// `;` after `include FILE`: the files' content. Whether it counts is up to the block around it.
    Include(Vec<Node>),
}

/// A piece of the tree.
#[derive(Debug)]
pub(crate) enum Node {
    /// A directive.
    Statement(Statement),
    /// What is wrong here; nothing follows it on its level.
    Error(ConfError),
}

impl Statement {
    /// The statements of the block as plain lines of words, `include` resolved: for blocks such as `types` and `map`
    /// that are no lists of directives.
    pub(crate) fn lines(&self) -> Result<Vec<&Self>, ConfError> {
        let mut lines = Vec::new();
        if let Body::Block(nodes, _) = &self.body {
            collect_lines(nodes, &mut lines)?;
        }
        Ok(lines)
    }

    /// Where its block ends, or itself.
    pub(crate) fn end(&self) -> Place {
        match self.body {
            Body::Block(_, line) => Place {
                file: self.place.file.clone(),
                line,
            },
            _ => self.place.clone(),
        }
    }
}

/// The first statement of this name on this level, `include` resolved. The error is one that comes before it, at any depth.
pub(super) fn find<'a>(
    nodes: &'a [Node],
    name: &str,
) -> Result<Option<&'a Statement>, &'a ConfError> {
    for node in nodes {
        let statement = match node {
            Node::Statement(statement) => statement,
            Node::Error(error) => return Err(error),
        };
        match &statement.body {
            Body::Simple if statement.name == *name => return Ok(Some(statement)),
            Body::Simple => {}
            Body::Include(nodes) => {
                if let Some(found) = find(nodes, name)? {
                    return Ok(Some(found));
                }
            }
            // What has that name inside is something else.
            Body::Block(nodes, _) => read_well(nodes)?,
        }
    }
    Ok(None)
}

/// The error is the first one at any depth.
fn read_well(nodes: &[Node]) -> Result<(), &ConfError> {
    nodes.iter().try_for_each(|node| match node {
        Node::Error(error) => Err(error),
        Node::Statement(statement) => match &statement.body {
            Body::Simple => Ok(()),
            Body::Include(nodes) | Body::Block(nodes, _) => read_well(nodes),
        },
    })
}

fn collect_lines<'a>(nodes: &'a [Node], lines: &mut Vec<&'a Statement>) -> Result<(), ConfError> {
    for node in nodes {
        match node {
            Node::Error(error) => return Err(error.clone()),
            Node::Statement(line) => match &line.body {
                Body::Simple => lines.push(line),
                Body::Include(nodes) => collect_lines(nodes, lines)?,
                Body::Block(..) => return Err(ConfError::at("unexpected \"{\"", &line.place)),
            },
        }
    }
    Ok(())
}

/// Everything that was read.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The statements of `-g`.
    pub(crate) globals: Vec<Node>,
    /// The statements of the file.
    pub(crate) nodes: Vec<Node>,
    /// Each file once, in order of reading.
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
}

/// Reads `file` and what it includes; `globals` are the arguments of `-g`.
pub(crate) fn parse(file: &Path, globals: &[String]) -> Tree {
    let mut parser = Parser {
        directory: directory(file),
        open: Vec::new(),
        files: Vec::new(),
    };
    let globals = globals
        .iter()
        .flat_map(|text| parser.text(text.as_bytes(), None))
        .collect();
    let nodes = match fs::read(file) {
        Ok(text) => parser.file(file, text),
        Err(error) => vec![Node::Error(ConfError::new(unreadable(file, &error)))],
    };
    Tree {
        globals,
        nodes,
        files: parser.files,
    }
}

/// Reads one text, in which `include` finds nothing.
pub(crate) fn parse_text(text: &[u8]) -> Tree {
    let mut parser = Parser {
        directory: NOWHERE.to_owned(),
        open: Vec::new(),
        files: Vec::new(),
    };
    Tree {
        globals: Vec::new(),
        nodes: parser.text(text, Some(&Path::new("/text").into())),
        files: Vec::new(),
    }
}

/// The file's name up to its last slash: as nginx does, no component is tidied up.
fn directory(file: &Path) -> String {
    let text = file.to_string_lossy();
    let end = text.rfind('/').map_or(0, |slash| slash + 1);
    text[..end].to_owned()
}

/// `prefix` and `path` one after the other, as nginx joins them (`ngx_get_full_name`).
pub(super) fn join(prefix: &str, path: &str) -> PathBuf {
    if path.starts_with('/') {
        return path.into();
    }
    let slash = if prefix.ends_with('/') { "" } else { "/" };
    format!("{prefix}{slash}{path}").into()
}

struct Parser {
    /// Where relative `include`s start, with a slash at its end.
    directory: String,
    /// The files that are being read, outermost first.
    open: Vec<PathBuf>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Parser {
    fn file(&mut self, path: &Path, text: Vec<u8>) -> Vec<Node> {
        self.open.push(path.to_owned());
        let slot = self.files.len();
        let known = self.files.iter().any(|(name, _)| name == path);
        if !known {
            self.files.push((path.to_owned(), Vec::new()));
        }
        let nodes = self.text(&text, Some(&path.into()));
        if let (false, Some(entry)) = (known, self.files.get_mut(slot)) {
            entry.1 = text;
        }
        self.open.pop();
        nodes
    }

    fn text(&mut self, text: &[u8], file: Option<&Arc<Path>>) -> Vec<Node> {
        let origin = match file {
            Some(_) => Origin::File,
            None => Origin::CommandLine,
        };
        let mut lexer = Lexer::new(text, origin);
        self.block(&mut lexer, file, 0).0
    }

    /// The nodes up to the end of the block (or file, at depth 0), and the line of that end.
    fn block(
        &mut self,
        lexer: &mut Lexer<'_>,
        file: Option<&Arc<Path>>,
        depth: usize,
    ) -> (Vec<Node>, usize) {
        let mut nodes = Vec::new();
        let problem = loop {
            let token = lexer.next();
            let place = Place {
                file: file.cloned(),
                line: lexer.line(),
            };
            match token {
                Ok(Token::Statement(words)) => {
                    nodes.push(self.statement(words, place));
                }
                Ok(Token::BlockStart(_)) if file.is_none() => {
                    break "block directives are not supported in -g option".to_owned();
                }
                Ok(Token::BlockStart(_)) if depth >= MAX_DEPTH => {
                    break "too many nested blocks".to_owned();
                }
                Ok(Token::BlockStart(words)) => {
                    let (children, end) = self.block(lexer, file, depth + 1);
                    let broken = matches!(children.last(), Some(Node::Error(_)));
                    nodes.push(statement(words, Body::Block(children, end), place));
                    if broken {
                        return (nodes, end);
                    }
                }
                Ok(Token::BlockEnd) if depth > 0 => return (nodes, lexer.line()),
                Ok(Token::BlockEnd) => break "unexpected \"}\"".to_owned(),
                Ok(Token::End) if depth == 0 => return (nodes, lexer.line()),
                Ok(Token::End) => break "unexpected end of file, expecting \"}\"".to_owned(),
                Err(message) => break message,
            }
        };
        let place = Place {
            file: file.cloned(),
            line: lexer.line(),
        };
        nodes.push(Node::Error(ConfError::at(problem, &place)));
        (nodes, place.line)
    }

    fn statement(&mut self, words: Vec<Word>, place: Place) -> Node {
        let body = match words.as_slice() {
            [name, pattern] if *name == "include" => {
                let pattern = pattern.text();
                Body::Include(self.include(&pattern, &place))
            }
            _ => Body::Simple,
        };
        statement(words, body, place)
    }

    fn include(&mut self, pattern: &str, place: &Place) -> Vec<Node> {
        if self.directory == NOWHERE {
            return Vec::new();
        }
        let full = join(&self.directory, pattern);
        if !pattern.contains(['*', '?', '[']) {
            return self.include_file(&full, place);
        }
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let mut paths: Vec<PathBuf> = match glob::glob_with(&full.to_string_lossy(), options) {
            Ok(paths) => paths.flatten().collect(),
            Err(_) => return Vec::new(),
        };
        paths.sort_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        let mut nodes = Vec::new();
        for path in paths {
            nodes.extend(self.include_file(&path, place));
            if matches!(nodes.last(), Some(Node::Error(_))) {
                break;
            }
        }
        nodes
    }

    fn include_file(&mut self, path: &Path, place: &Place) -> Vec<Node> {
        let problem = if self.open.iter().any(|open| open == path) {
            // DIFFERS(include-cycle): nginx opens the file again and again until it has no descriptors left.
            format!("\"{}\" includes itself", path.display())
        } else {
            match fs::read(path) {
                Ok(text) => return self.file(path, text),
                Err(error) => unreadable(path, &error),
            }
        };
        vec![Node::Error(ConfError::at(problem, place))]
    }
}

fn statement(mut words: Vec<Word>, body: Body, place: Place) -> Node {
    let name = if words.is_empty() {
        Word::from("")
    } else {
        words.remove(0)
    };
    Node::Statement(Statement {
        name,
        args: words,
        body,
        place,
    })
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let call = match error.raw_os_error() {
        Some(libc_eisdir) if libc_eisdir == nix::errno::Errno::EISDIR as i32 => "pread",
        _ => "open",
    };
    failed(call, path, error)
}

/// The directory of a text that is no file.
const NOWHERE: &str = "";

/// DIFFERS(nesting): nginx reads blocks in blocks until its stack is full; no context needs nearly as many.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = parse(&dir.path().join(files[0].0), &[]);
        (dir, tree)
    }

    fn shape(nodes: &[Node]) -> String {
        nodes.iter().map(one).collect()
    }

    fn one(node: &Node) -> String {
        let statement = match node {
            Node::Error(error) => return format!("!{error}"),
            Node::Statement(statement) => statement,
        };
        let words: Vec<String> = std::iter::once(&statement.name)
            .chain(&statement.args)
            .map(ToString::to_string)
            .collect();
        let words = words.join(" ");
        match &statement.body {
            Body::Simple => format!("{words};"),
            Body::Block(nodes, _) => format!("{words}{{{}}}", shape(nodes)),
            Body::Include(nodes) => format!("{words}[{}]", shape(nodes)),
        }
    }

    #[test]
    fn includes_are_relative_to_the_first_file() {
        let (_dir, tree) = tree(&[
            (
                "main.conf",
                "a; b { include \"sub/*.conf\"; } include none*;",
            ),
            ("sub/2.conf", "y;"),
            ("sub/1.conf", "x { include sub/z; }"),
            ("sub/z", "z;"),
            ("sub/.hidden.conf", "}"),
        ]);
        assert_eq!(
            shape(&tree.nodes),
            "a;b{include sub/*.conf[x{include sub/z[z;]}y;]}include none*[]"
        );
        let names: Vec<_> = tree
            .files
            .iter()
            .map(|(p, _)| p.file_name().unwrap())
            .collect();
        assert_eq!(names, ["main.conf", "1.conf", "z", "2.conf"]);
        assert_eq!(tree.files[2].1, b"z;");
    }

    #[test]
    fn errors_keep_their_place() {
        for (text, expected) in [
            (
                "a;\nb {\n c;\n",
                "unexpected end of file, expecting \"}\" in F:4",
            ),
            ("a;\n}", "unexpected \"}\" in F:2"),
            (
                "a { b",
                "unexpected end of file, expecting \";\" or \"}\" in F:1",
            ),
            ("\ninclude main.conf;", "\"F\" includes itself in F:2"),
            (
                "include no;",
                "open() \"D/no\" failed (2: No such file or directory) in F:1",
            ),
        ] {
            let (dir, tree) = tree(&[("main.conf", text)]);
            let shown = shape(&tree.nodes)
                .replace(&format!("{}/main.conf", dir.path().display()), "F")
                .replace(&dir.path().display().to_string(), "D");
            assert!(shown.contains(&format!("!{expected}")), "{shown}");
        }
    }

    #[test]
    fn a_missing_file_has_no_place() {
        let tree = parse(Path::new("/nowhere/x.conf"), &["daemon off;".to_owned()]);
        assert_eq!(shape(&tree.globals), "daemon off;");
        assert_eq!(
            shape(&tree.nodes),
            "!open() \"/nowhere/x.conf\" failed (2: No such file or directory)"
        );
    }
}
