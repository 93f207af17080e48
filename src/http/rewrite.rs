//! The rewrite module at work: `set`, `if`, `rewrite`, `return`, `break`.
//!
//! Mirrors `http/modules/ngx_http_rewrite_module.c` and the codes of `http/ngx_http_script.c`.

use super::{
    content,
    exchange::{EscapeLog, Exchange},
    h1::uri::{self, Escape, Unescape},
    phases::Next,
};
use crate::{
    conf::model::{Condition, FileTest, If, Level, Op, Rewrite, RewriteFlag},
    vars::{Part, Source, Template, VarId},
};

/// How a run of rewrite directives ended.
#[derive(Debug)]
pub(super) enum Flow<'g> {
    /// On with the next phase (the URI may have changed).
    Continue,
    /// The request is answered.
    Stop(Next<'g>),
}

/// State of one run.
struct Run {
    /// Captures are escaped where they are used (`e->quote`): until a `rewrite` has matched.
    quote: bool,
    /// The URI must be looked up again.
    uri_changed: bool,
    log: bool,
}

/// What comes after a directive.
enum Step<'g> {
    Next,
    /// The run is over (`last`, `break`).
    Exit,
    Stop(Next<'g>),
}

/// Runs the directives of a block; says whether the URI changed so that a location must be found again.
pub(super) async fn run<'g>(x: &mut Exchange<'g>, ops: &'g [Op]) -> (Flow<'g>, bool) {
    if ops.is_empty() {
        return (Flow::Continue, false);
    }
    let mut run = Run {
        quote: true,
        uri_changed: false,
        log: x.location.rewrite_log,
    };
    let flow = match Box::pin(block(x, &mut run, ops)).await {
        Step::Stop(next) => Flow::Stop(next),
        Step::Next | Step::Exit => Flow::Continue,
    };
    (flow, run.uri_changed)
}

async fn block<'g>(x: &mut Exchange<'g>, run: &mut Run, ops: &'g [Op]) -> Step<'g> {
    for op in ops {
        let step = match op {
            Op::Set { target, value } => set(x, run, target, value),
            Op::If(inner) => {
                if !holds(x, run, &inner.condition) {
                    continue;
                }
                enter(x, inner);
                Box::pin(block(x, run, &inner.ops)).await
            }
            Op::Rewrite(rewrite) => rewrite_uri(x, run, rewrite),
            Op::Return { status, text } => {
                return Step::Stop(answer(x, *status, text.as_ref()).await);
            }
            Op::Break => {
                x.request.valid_location &= !run.uri_changed;
                run.uri_changed = false;
                Step::Exit
            }
        };
        match step {
            Step::Next => {}
            over => return over,
        }
    }
    Step::Next
}

async fn answer<'g>(x: &mut Exchange<'g>, status: u16, text: Option<&Template>) -> Next<'g> {
    match text {
        None if status >= 400 => Next::Status(status),
        _ => content::send_response(x, status, text).await,
    }
}

fn enter<'g>(x: &mut Exchange<'g>, inner: &'g If) {
    x.location = &inner.location;
    super::phases::update_location(x);
}

fn set<'g>(x: &mut Exchange<'g>, run: &Run, target: &VarId, template: &Template) -> Step<'g> {
    let mut value = Vec::new();
    render(x, template, run.quote, &mut value);
    match target {
        VarId::Slot(slot) => x.slots.assign(*slot, Some(value)),
        VarId::Args => {
            x.request.args = value;
            // The target as the client sent it says something else now.
            x.request.valid_target = false;
        }
        VarId::LimitRate => x.limit_rate = super::vars::parse_size(&value),
        _ => {}
    }
    Step::Next
}

/// Renders a template; captures are escaped as arguments when `quote` is set and the target had escapes.
fn render(x: &mut Exchange<'_>, template: &Template, quote: bool, out: &mut Vec<u8>) {
    let escape = quote && escapes_captures(x);
    for part in template.parts() {
        push_part(x, part, escape, out);
    }
}

fn push_part(x: &mut Exchange<'_>, part: &Part, escape: bool, out: &mut Vec<u8>) {
    match part {
        Part::Text(text) => out.extend_from_slice(text),
        Part::Var(VarId::Capture(n)) if escape => {
            if let Some(text) = x.slots.capture((*n).into()) {
                uri::escape(text, Escape::Args, out);
            }
        }
        Part::Var(id) => {
            x.value(id, out);
        }
    }
}

/// `r->quoted_uri || r->plus_in_uri`
fn escapes_captures(x: &Exchange<'_>) -> bool {
    let target = x.request.target();
    let path = &target[..memchr::memchr(b'?', target).unwrap_or(target.len())];
    x.request.quoted_uri || memchr::memchr(b'+', path).is_some()
}

fn value(x: &mut Exchange<'_>, id: &VarId) -> Vec<u8> {
    let mut out = Vec::new();
    x.value(id, &mut out);
    out
}

fn holds(x: &mut Exchange<'_>, run: &Run, condition: &Condition) -> bool {
    match condition {
        Condition::Truth(var) => !matches!(&value(x, var)[..], b"" | b"0"),
        Condition::Equal {
            var,
            value: right,
            negate,
        } => {
            let left = value(x, var);
            let mut other = Vec::new();
            render(x, right, run.quote, &mut other);
            (left == other) != *negate
        }
        Condition::Match {
            var,
            pattern,
            negate,
        } => {
            let subject = value(x, var);
            let matched = x.slots.matches(pattern, &subject);
            log_match(x, run, pattern.pattern.as_str(), &subject, matched);
            if !matched {
                x.slots.clear_captures();
            }
            matched != *negate
        }
        Condition::File { path, test, negate } => {
            let path = path.to_vec(x);
            let path = content::path(&path);
            file_test(&x.live.prefix().join(path), *test) != *negate
        }
    }
}

fn file_test(path: &std::path::Path, test: FileTest) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let Ok(meta) = std::fs::metadata(path) else {
        return false;
    };
    match test {
        FileTest::File => meta.is_file(),
        FileTest::Directory => meta.is_dir(),
        FileTest::Exists => true,
        FileTest::Executable => meta.permissions().mode() & 0o100 != 0,
    }
}

fn log_match(x: &Exchange<'_>, run: &Run, pattern: &str, subject: &[u8], matched: bool) {
    if run.log {
        let subject = subject.escape_log();
        let verb = if matched { "matches" } else { "does not match" };
        x.log(
            Level::Notice,
            format_args!("\"{pattern}\" {verb} \"{subject}\""),
        );
    }
}

fn rewrite_uri<'g>(x: &mut Exchange<'g>, run: &mut Run, rewrite: &Rewrite) -> Step<'g> {
    let subject = x.request.uri.clone();
    let matched = x.slots.matches(&rewrite.pattern, &subject);
    log_match(x, run, rewrite.pattern.pattern.as_str(), &subject, matched);
    if !matched {
        x.slots.clear_captures();
        return Step::Next;
    }
    let redirect = match rewrite.flag {
        RewriteFlag::Redirect => Some(302),
        RewriteFlag::Permanent => Some(301),
        _ => None,
    };
    let (mut text, args) = replacement(x, &rewrite.replacement, redirect.is_some());
    run.quote = false;
    if let Some(status) = redirect {
        return redirect_to(x, run, rewrite, status, (&text, args.is_some()));
    }
    x.internal = true;
    x.request.valid_target = false;
    if rewrite.flag == RewriteFlag::Break {
        x.request.valid_location = false;
        run.uri_changed = false;
    } else {
        run.uri_changed = true;
    }
    match args {
        Some(mut args) => {
            if rewrite.add_args && !x.request.args.is_empty() {
                args.push(b'&');
                args.extend_from_slice(&x.request.args);
            }
            x.request.args = args;
        }
        None if !rewrite.add_args => x.request.args.clear(),
        None => {}
    }
    if run.log {
        let (uri, args) = (text.escape_log(), x.request.args.escape_log());
        x.log(
            Level::Notice,
            format_args!("rewritten data: \"{uri}\", args: \"{args}\""),
        );
    }
    std::mem::swap(&mut x.request.uri, &mut text);
    if x.request.uri.is_empty() {
        x.log(
            Level::Error,
            format_args!("the rewritten URI has a zero length"),
        );
        return Step::Stop(Next::Status(500));
    }
    match rewrite.flag {
        RewriteFlag::Last | RewriteFlag::Break => Step::Exit,
        _ => Step::Next,
    }
}

/// The replacement with its variables. For a URI it is split at the first `?` of the template's own text; for a redirect
/// it stays whole and the arguments only say whether there was one.
fn replacement(
    x: &mut Exchange<'_>,
    template: &Template,
    redirect: bool,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let escape = escapes_captures(x);
    let mut text = Vec::new();
    let mut args: Option<Vec<u8>> = None;
    for part in template.parts() {
        match (part, &mut args) {
            (Part::Text(literal), None) if memchr::memchr(b'?', literal).is_some() => {
                let at = memchr::memchr(b'?', literal).unwrap_or(literal.len());
                let (before, after) = literal.split_at(at);
                text.extend_from_slice(before);
                if redirect {
                    text.extend_from_slice(after);
                    args = Some(Vec::new());
                } else {
                    args = Some(after[1..].to_vec());
                }
            }
            (part, Some(args)) if !redirect => push_part(x, part, escape, args),
            (part, has_args) => push_part(
                x,
                part,
                escape && (redirect || has_args.is_some()),
                &mut text,
            ),
        }
    }
    (text, args)
}

fn redirect_to<'g>(
    x: &mut Exchange<'g>,
    run: &Run,
    rewrite: &Rewrite,
    status: u16,
    (text, has_args): (&[u8], bool),
) -> Step<'g> {
    let mut address = Vec::new();
    uri::unescape_into(text, Unescape::Redirect, &mut address);
    if rewrite.add_args && !x.request.args.is_empty() {
        address.push(if has_args { b'&' } else { b'?' });
        address.extend_from_slice(&x.request.args);
    }
    if run.log {
        x.log(
            Level::Notice,
            format_args!("rewritten redirect: \"{}\"", address.escape_log()),
        );
    }
    x.response.set_location(&address);
    Step::Stop(Next::Status(status))
}
