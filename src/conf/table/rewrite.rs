//! The rewrite module: `if`, `rewrite`, `return`, `set`, `break`.
//!
//! Mirrors `ngx_http_rewrite_module.c`.

use super::{
    BLOCK, FLAG, HTTP, LOCATION, LOCATION_IF, NONE, ONE_MORE, Row, SERVER, SERVER_IF, TAKE2,
    TAKE12, TAKE23,
};
use crate::{
    conf::{
        error::Problem,
        lexer::Word,
        model::{Condition, FileTest, Op, Rewrite, RewriteFlag, SlotSource},
        parser::Statement,
        read::{IfDraft, LocationDraft, OpDraft, Reader, Role, flag},
        value,
    },
    vars::VarId,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "if",
        SERVER | LOCATION,
        BLOCK | ONE_MORE,
        if_block,
        "Holds what applies to requests for which a condition is true.",
    )
    .takes("(<condition>) { ... }", "")
    .differs(&["patterns"]),
    Row::new(
        "rewrite",
        ANYWHERE,
        TAKE23,
        rewrite,
        "Changes a URI that matches a pattern, or redirects.",
    )
    .takes(
        "<pattern> <replacement> [last | break | redirect | permanent]",
        "",
    )
    .differs(&["patterns"]),
    Row::new(
        "return",
        ANYWHERE,
        TAKE12,
        return_,
        "Ends the request with this status.",
    )
    .takes("<code> [<text>]; <code> <url>; <url>", ""),
    Row::new("set", ANYWHERE, TAKE2, set, "Gives a variable a value.")
        .takes("$<variable> <value>", ""),
    Row::new(
        "break",
        ANYWHERE,
        NONE,
        |r, _| {
            push(r, Op::Break);
            Ok(())
        },
        "Ends the rewrite directives of this round.",
    ),
    Row::new(
        "rewrite_log",
        HTTP | ANYWHERE,
        FLAG,
        |r, s| flag(&mut r.loc.rewrite_log, s),
        "Logs what rewrite directives do at level notice.",
    )
    .default("off"),
    Row::new(
        "uninitialized_variable_warn",
        HTTP | ANYWHERE,
        FLAG,
        |r, s| flag(&mut r.loc.uninitialized_variable_warn, s),
        "Logs the use of variables that have no value.",
    )
    .default("on"),
];

/// `server`, `location` and `if` in them.
const ANYWHERE: u32 = SERVER | SERVER_IF | LOCATION | LOCATION_IF;

fn push(reader: &mut Reader, op: Op) {
    reader.loc.rewrite.push(OpDraft::Plain(op));
}

fn if_block(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let condition = condition(reader, &statement.args)?;
    let mut draft = LocationDraft::new(Role::If, statement.place.clone());
    draft.name.clone_from(&reader.loc.name);
    let context = if reader.loc.role == Role::Server {
        SERVER_IF
    } else {
        LOCATION_IF
    };
    let location = reader.location_block(draft, statement, context)?;
    reader.loc.rewrite.push(OpDraft::If(Box::new(IfDraft {
        condition,
        location,
    })));
    Ok(())
}

fn invalid(word: &[u8]) -> Problem {
    Problem::message(format!(
        "invalid condition \"{}\"",
        String::from_utf8_lossy(word)
    ))
}

/// The words between the brackets, which may stand apart from them.
fn inside(args: &[Word]) -> Result<Vec<&[u8]>, Problem> {
    let mut words: Vec<&[u8]> = args.iter().map(Word::bytes).collect();
    if let Some(word) = words.first_mut() {
        *word = word.strip_prefix(b"(").ok_or_else(|| invalid(word))?;
    }
    if words.len() > 1 && words.first().is_some_and(|word| word.is_empty()) {
        words.remove(0);
    }
    if let Some(word) = words.last_mut() {
        *word = word.strip_suffix(b")").ok_or_else(|| invalid(word))?;
    }
    if words.len() > 1 && words.last().is_some_and(|word| word.is_empty()) {
        words.pop();
    }
    Ok(words)
}

fn condition(reader: &mut Reader, args: &[Word]) -> Result<Condition, Problem> {
    let words = inside(args)?;
    let first = words.first().copied().unwrap_or_default();
    match first {
        [b'$', _, ..] => {
            if words.len() != 1 && words.len() != 3 {
                return Err(invalid(first));
            }
            let name = String::from_utf8_lossy(first.get(1..).unwrap_or_default());
            let var = reader.vars.resolve_name(&name);
            match words.as_slice() {
                [_, operator, value] => comparison(reader, var, operator, value),
                _ => Ok(Condition::Truth(var)),
            }
        }
        [b'-', test] | [b'!', b'-', test] => {
            let [_, path] = words.as_slice() else {
                return Err(invalid(first));
            };
            let path = reader.template(path)?;
            let test = match test {
                b'f' => FileTest::File,
                b'd' => FileTest::Directory,
                b'e' => FileTest::Exists,
                b'x' => FileTest::Executable,
                _ => return Err(invalid(first)),
            };
            Ok(Condition::File {
                path,
                test,
                negate: first.starts_with(b"!"),
            })
        }
        _ => Err(invalid(first)),
    }
}

fn comparison(
    reader: &mut Reader,
    var: VarId,
    operator: &[u8],
    value: &[u8],
) -> Result<Condition, Problem> {
    let negate = operator.starts_with(b"!");
    match operator {
        b"=" | b"!=" => Ok(Condition::Equal {
            var,
            value: reader.template(value)?,
            negate,
        }),
        b"~" | b"~*" | b"!~" | b"!~*" => Ok(Condition::Match {
            var,
            pattern: reader.pattern(value, operator.ends_with(b"*"))?,
            negate,
        }),
        _ => Err(Problem::message(format!(
            "unexpected \"{}\" in condition",
            String::from_utf8_lossy(operator)
        ))),
    }
}

fn rewrite(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [pattern, replacement, rest @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    let text = replacement.bytes();
    if text.is_empty() {
        return Err(Problem::message("empty replacement"));
    }
    let pattern = reader.pattern(pattern.bytes(), false)?;
    let redirects = is_address(text);
    let (text, add_args) = match text.strip_suffix(b"?") {
        Some(text) => (text, false),
        None => (text, true),
    };
    let flag = match rest.first().map(Word::bytes) {
        Some(b"permanent") => RewriteFlag::Permanent,
        Some(b"redirect") => RewriteFlag::Redirect,
        Some(b"last" | b"break") | None if redirects => RewriteFlag::Redirect,
        Some(b"last") => RewriteFlag::Last,
        Some(b"break") => RewriteFlag::Break,
        None => RewriteFlag::Next,
        Some(other) => {
            return Err(Problem::parameter(String::from_utf8_lossy(other)));
        }
    };
    let replacement = reader.template(text)?;
    push(
        reader,
        Op::Rewrite(Box::new(Rewrite {
            pattern,
            replacement,
            add_args,
            flag,
        })),
    );
    Ok(())
}

/// A replacement that is an address of its own.
fn is_address(text: &[u8]) -> bool {
    let starts: [&[u8]; 3] = [b"http://", b"https://", b"$scheme"];
    starts.into_iter().any(|start| text.starts_with(start))
}

fn return_(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [code, rest @ ..] = statement.args.as_slice() else {
        return Ok(());
    };
    let (status, text) = match value::number(code.bytes()) {
        Some(status) => (
            u16::try_from(status).ok().filter(|status| *status <= 999),
            rest.first(),
        ),
        None if rest.is_empty() && is_address(code.bytes()) => (Some(302), Some(code)),
        None => (None, None),
    };
    let status =
        status.ok_or_else(|| Problem::message(format!("invalid return code \"{code}\"")))?;
    let text = match text {
        Some(text) => Some(reader.template(text.bytes())?),
        None => None,
    };
    push(reader, Op::Return { status, text });
    Ok(())
}

fn set(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let [name, text] = statement.args.as_slice() else {
        return Ok(());
    };
    let variable = name
        .bytes()
        .strip_prefix(b"$")
        .ok_or_else(|| Problem::message(format!("invalid variable name \"{name}\"")))?;
    let variable = String::from_utf8_lossy(variable).into_owned();
    if variable.is_empty() {
        return Err(Problem::message("invalid variable name \"$\""));
    }
    let target = reader.vars.define(&variable, SlotSource::Assigned)?;
    let value = reader.template(text.bytes())?;
    push(reader, Op::Set { target, value });
    Ok(())
}
