//! Tests of the access log: what a format writes, and where.

use std::{fs, io::Read as _, path::Path};

use super::*;
use crate::{
    conf::model::{Escape, LogFormat},
    vars::{Template, VarId},
};

struct Uri(&'static str);
impl Source for Uri {
    fn value(&mut self, _id: &VarId, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.0.as_bytes());
        true
    }
}

fn template(text: &str) -> Template {
    Template::compile(text.as_bytes(), &mut |_| VarId::Uri).unwrap()
}

fn access_log(target: LogTarget) -> AccessLog {
    AccessLog {
        target,
        format: Arc::new(LogFormat {
            name: "test".into(),
            escape: Escape::Default,
            template: template("<$uri>"),
        }),
        condition: None,
        buffer: None,
        flush: None,
        gzip: None,
    }
}

fn root(path: &Path) -> Root {
    Root {
        path: Template::literal(path.to_str().unwrap().as_bytes()),
        alias: false,
        alias_len: Some(0),
    }
}

fn place(root: &Root) -> Place<'_> {
    Place {
        error: ErrorSink::default(),
        conn: 1,
        root: Some(root),
        cache: None,
    }
}

fn logs() -> (Logs, Rc<AccessLogs>) {
    let (logs, _) = Logs::startup(None, false);
    (logs.clone(), AccessLogs::new(logs))
}

#[test]
fn lines_are_written_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let (logs, access) = logs();
    let log = access_log(LogTarget::File(path.as_path().into()));
    let root = root(dir.path());
    access.write(&log, &mut Uri("/a"), place(&root));
    assert_eq!(fs::read(&path).unwrap(), b"");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let run = async { tokio::time::timeout(Duration::from_millis(20), access.run()).await };
    assert!(runtime.block_on(run).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"</a>\n");
    logs.flush();
}

#[test]
fn conditions_and_paths_with_variables() {
    let dir = tempfile::tempdir().unwrap();
    let (_, access) = logs();
    let text = format!("{}/$uri.log", dir.path().display());
    let mut log = access_log(LogTarget::Template(template(&text)));
    log.condition = Some(template("$uri"));
    let (root, missing) = (root(dir.path()), root(&dir.path().join("missing")));
    for uri in ["a", "", "0", "b", "a"] {
        access.write(&log, &mut Uri(uri), place(&root));
    }
    access.write(&log, &mut Uri("c"), place(&missing));
    let file = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
    assert_eq!(file("a.log").as_deref(), Some("<a>\n<a>\n"));
    assert_eq!(file("b.log").as_deref(), Some("<b>\n"));
    assert_eq!(file("c.log"), None);
    fs::rename(dir.path().join("a.log"), dir.path().join("old")).unwrap();
    access.write(&log, &mut Uri("a"), place(&root));
    assert_eq!(file("a.log").as_deref(), Some("<a>\n"));
}

#[test]
fn a_full_buffer_goes_out_and_gzip_is_readable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.gz");
    let (_, access) = logs();
    let mut log = access_log(LogTarget::File(path.as_path().into()));
    log.buffer = Some(20);
    log.gzip = Some(1);
    let root = root(dir.path());
    for uri in ["/123456", "/123457", "/a-line-longer-than-the-buffer", "/1"] {
        access.write(&log, &mut Uri(uri), place(&root));
    }
    let read = || {
        let mut text = String::new();
        let file = fs::File::open(&path).unwrap();
        flate2::read::MultiGzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    let before = "</123456>\n</123457>\n</a-line-longer-than-the-buffer>\n";
    assert_eq!(read(), before);
    access.flush();
    assert_eq!(read(), format!("{before}</1>\n"));
}
