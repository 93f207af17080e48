//! `add_header`, `add_trailer`, `expires`.
//!
//! Mirrors `ngx_http_headers_filter_module.c`.

use super::{HSLI, Row, TAKE1, TAKE12, TAKE23};
use crate::conf::{
    error::Problem,
    model::{AddHeader, Expires},
    parser::Statement,
    read::{Inherit, Reader, choice, unset},
    value,
};

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "add_header",
        HSLI,
        TAKE23,
        |r, s| {
            let header = header(r, s)?;
            r.loc.headers.add.get_or_insert_default().push(header);
            Ok(())
        },
        "Adds a header field to responses.",
    )
    .takes("<name> <value> [always]", ""),
    Row::new(
        "add_trailer",
        HSLI,
        TAKE23,
        |r, s| {
            let header = header(r, s)?;
            r.loc.headers.trailers.get_or_insert_default().push(header);
            Ok(())
        },
        "Adds a field to the trailer of responses.",
    )
    .takes("<name> <value> [always]", ""),
    Row::new(
        "add_header_inherit",
        HSLI,
        TAKE1,
        |r, s| choice(&mut r.loc.headers_inherit, s, &INHERIT),
        "Says what becomes of fields that the blocks around add.",
    )
    .takes("on | off | merge", "on"),
    Row::new(
        "add_trailer_inherit",
        HSLI,
        TAKE1,
        |r, s| choice(&mut r.loc.trailers_inherit, s, &INHERIT),
        "Says what becomes of trailer fields that the blocks around add.",
    )
    .takes("on | off | merge", "on"),
    Row::new(
        "expires",
        HSLI,
        TAKE12,
        expires,
        "Sets Expires and Cache-Control of responses.",
    )
    .takes("[modified] <time>; epoch | max | off", "off"),
];

const INHERIT: [(&str, Inherit); 3] = [
    ("off", Inherit::Off),
    ("on", Inherit::On),
    ("merge", Inherit::Merge),
];

fn header(reader: &mut Reader, statement: &Statement) -> Result<AddHeader, Problem> {
    let [name, text, rest @ ..] = statement.args.as_slice() else {
        return Err(Problem::invalid_value());
    };
    let value = reader.template(text.bytes())?;
    let always = match rest {
        [] => false,
        [word, ..] if *word == "always" => true,
        [word, ..] => return Err(Problem::parameter(word)),
    };
    Ok(AddHeader {
        name: name.bytes().into(),
        value,
        always,
    })
}

fn expires(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    unset(reader.loc.headers.expires.as_ref())?;
    let (modified, word) = match statement.args.as_slice() {
        [word] => (false, word),
        [modified, word] if *modified == "modified" => (true, word),
        _ => return Err(Problem::invalid_value()),
    };
    let template = reader.template(word.bytes())?;
    reader.loc.headers.expires = Some(match template.as_literal() {
        Some(text) => Expires::parse(text, modified)
            .map_err(|message| Problem::Directive(message.to_owned()))?,
        None => Expires::Template(template, modified),
    });
    Ok(())
}

impl Expires {
    /// Reads the value of `expires`, without variables (`ngx_http_parse_expires`); `modified` stands before it.
    pub fn parse(text: &[u8], modified: bool) -> Result<Self, &'static str> {
        match text {
            b"epoch" if !modified => return Ok(Self::Epoch),
            b"max" if !modified => return Ok(Self::Max),
            b"off" if !modified => return Ok(Self::Off),
            _ => {}
        }
        let (sign, rest) = match text.split_first() {
            Some((c @ (b'@' | b'+' | b'-'), rest)) => (*c, rest),
            _ => (b'+', text),
        };
        if sign == b'@' && modified {
            return Err("daily time cannot be used with \"modified\" parameter");
        }
        let seconds = value::seconds(rest)
            .and_then(|seconds| i64::try_from(seconds).ok())
            .ok_or("invalid value")?;
        match sign {
            b'@' if seconds > 24 * 60 * 60 => Err("daily time value must be less than 24 hours"),
            b'@' => Ok(Self::Daily(seconds)),
            b'-' if modified => Ok(Self::Modified(-seconds)),
            b'-' => Ok(Self::Access(-seconds)),
            _ if modified => Ok(Self::Modified(seconds)),
            _ => Ok(Self::Access(seconds)),
        }
    }
}
