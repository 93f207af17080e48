//! The manual page headwater.conf(5), printed from the rows.
//!
//! What differs from nginx stands in the README's table alone; a row names its keys, and the text is put in here.

use super::{
    ANY, AREAS, Arguments, BLOCK, Contexts, EVENTS, FLAG, HTTP, LIMIT_EXCEPT, LOCATION,
    LOCATION_IF, MAIL, MAIL_SERVER, MAIN, ONE_MORE, Row, SERVER, SERVER_IF, STREAM, STREAM_SERVER,
    STREAM_UPSTREAM, Support, TWO_MORE, UPSTREAM, rows,
};
use crate::vars::VarId;

/// A row of the README's table of differences.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    /// What the marks in the source call it.
    pub key: &'a str,
    /// What nginx does.
    pub nginx: &'a str,
    /// What headwater does.
    pub headwater: &'a str,
}

/// The rows between the marks of the README's table of differences.
pub fn differences(readme: &str) -> Vec<Difference<'_>> {
    let table = readme.split_once("<!-- differences -->\n");
    let table = table.and_then(|(_, rest)| rest.split_once("<!-- /differences -->"));
    let lines = table.map_or("", |(table, _)| table).lines().skip(2);
    let cells = lines.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .filter_map(|cells| match *cells {
            [_, key, nginx, headwater, _, _] => Some(Difference {
                key: key.trim_matches('`'),
                nginx,
                headwater,
            }),
            _ => None,
        })
        .collect()
}

/// headwater.conf(5), in roff.
pub fn man_page(differences: &[Difference<'_>]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (area, rows) in AREAS {
        section(&mut page, area, rows, differences);
    }
    variables(&mut page);
    elsewhere(&mut page, differences);
    page.push_str(END);
    page
}

fn section(page: &mut String, area: &str, rows: &[Row], differences: &[Difference<'_>]) {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.name);
    add(page, format_args!(".SH {}\n", area.to_uppercase()));
    for row in rows {
        entry(page, row, differences);
    }
}

fn entry(page: &mut String, row: &Row, differences: &[Difference<'_>]) {
    let support = match row.support {
        Support::Honoured(_) => "",
        Support::Accepted(_) => " Accepted, without meaning here.",
        Support::Refused => " Not supported yet.",
    };
    add(
        page,
        format_args!(".TP\n.B {}\n{}{support}\n", row.name, prose(row.doc)),
    );
    match row.forms() {
        Some(forms) => {
            let forms = forms.iter().map(|form| syntax(row, form));
            let forms = forms.collect::<Vec<_>>().join("\n.br\n");
            add(page, format_args!(".br\nSyntax: {forms}\n"));
        }
        None => add(
            page,
            format_args!(".br\nArguments: {}.\n", arguments(row.arguments)),
        ),
    }
    if !row.default.is_empty() {
        let default = literal(row.default);
        add(page, format_args!(".br\nDefault: \\fB{default}\\fR\n"));
    }
    add(
        page,
        format_args!(".br\nContext: {}\n", contexts(row.contexts)),
    );
    for difference in differences {
        if row.differs.contains(&difference.key) {
            let (nginx, headwater) = (prose(difference.nginx), prose(difference.headwater));
            add(
                page,
                format_args!(".br\nnginx: {nginx}. headwater: {headwater}.\n"),
            );
        }
    }
}

/// One form of a directive: what is typed in bold, what is put in its place in italics.
fn syntax(row: &Row, form: &str) -> String {
    let (form, end) = match form.strip_suffix("{ ... }") {
        Some(form) => (form.trim_end(), " { ... }"),
        None => (form, ";"),
    };
    let space = if form.is_empty() { "" } else { " " };
    let mut text = format!("\\fB{}\\fR{space}", row.name);
    let mut bold = false;
    let mut rest = form;
    while let Some(next) = rest.chars().next() {
        let (piece, after) = rest.split_at(next.len_utf8());
        rest = after;
        match piece {
            "<" => {
                let (name, after) = rest.split_once('>').unwrap_or((rest, ""));
                rest = after;
                bold = false;
                add(&mut text, format_args!("\\fI{}\\fR", literal(name)));
            }
            " " | "[" | "]" | "|" => {
                text += if bold { "\\fR" } else { "" };
                bold = false;
                text += piece;
            }
            _ => {
                text += if bold { "" } else { "\\fB" };
                bold = true;
                text += &literal(piece);
            }
        }
    }
    text + if bold { "\\fR" } else { "" } + end
}

fn variables(page: &mut String) {
    page.push_str(VARIABLES);
    let groups = [
        ("in http and stream", VarId::SHARED_VARIABLES),
        ("in http", VarId::HTTP_VARIABLES),
        ("in stream", VarId::STREAM_VARIABLES),
    ];
    for (place, group) in groups {
        add(page, format_args!(".SS Variables {place}\n"));
        for (name, doc) in group {
            add(page, format_args!(".TP\n.B ${name}\n{}\n", prose(doc)));
        }
    }
    page.push_str(".SS Families of variables\n");
    for (start, _, doc) in VarId::FAMILIES {
        add(
            page,
            format_args!(".TP\n.BI $ {start} name\n{}\n", prose(doc)),
        );
    }
    page.push_str(".TP\n.BR $1 \" to \" $9\nWhat the groups of the last pattern matched.\n");
}

/// Differences that no directive is about.
fn elsewhere(page: &mut String, differences: &[Difference<'_>]) {
    page.push_str(".SH OTHER DIFFERENCES FROM NGINX\n");
    for difference in differences {
        if rows().all(|row| !row.differs.contains(&difference.key)) {
            let (nginx, headwater) = (prose(difference.nginx), prose(difference.headwater));
            add(
                page,
                format_args!(".TP\n\\(bu\nnginx: {nginx}. headwater: {headwater}.\n"),
            );
        }
    }
}

/// Text with `words` of a configuration in it.
fn prose(text: &str) -> String {
    let mut parts = text.split('`');
    let mut roff = escaped(parts.next().unwrap_or_default());
    while let Some(word) = parts.next() {
        add(&mut roff, format_args!("\\fB{}\\fR", literal(word)));
        roff += &escaped(parts.next().unwrap_or_default());
    }
    roff
}

/// Text that is typed as it stands.
fn literal(text: &str) -> String {
    let mut roff = String::new();
    for character in text.chars() {
        match character {
            '-' => roff += "\\-",
            '\'' => roff += "\\(aq",
            '~' => roff += "\\(ti",
            '^' => roff += "\\(ha",
            '`' => roff += "\\(ga",
            '\\' => roff += "\\e",
            other => roff.push(other),
        }
    }
    roff
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e")
}

fn arguments(set: Arguments) -> String {
    let counts: Vec<String> = (0..8)
        .filter(|count| set & (1 << count) != 0)
        .map(|count| count.to_string())
        .collect();
    let mut text = if set & FLAG != 0 {
        "on or off".to_owned()
    } else if set & ONE_MORE != 0 {
        "1 or more".to_owned()
    } else if set & TWO_MORE != 0 {
        "2 or more".to_owned()
    } else {
        counts.join(", ")
    };
    if set & BLOCK != 0 {
        text.push_str(" and a block");
    }
    text
}

fn contexts(set: Contexts) -> String {
    if set == ANY {
        return "any".to_owned();
    }
    let names: Vec<&str> = CONTEXTS
        .iter()
        .filter(|(context, _)| set & context != 0)
        .map(|(_, name)| *name)
        .collect();
    names.join(", ")
}

pub(super) fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
    text.push_str(&std::fmt::format(more));
}

const CONTEXTS: [(Contexts, &str); 14] = [
    (MAIN, "main"),
    (EVENTS, "events"),
    (HTTP, "http"),
    (SERVER, "server"),
    (SERVER_IF, "if in server"),
    (LOCATION, "location"),
    (LOCATION_IF, "if in location"),
    (LIMIT_EXCEPT, "limit_except"),
    (UPSTREAM, "upstream"),
    (STREAM, "stream"),
    (STREAM_SERVER, "server in stream"),
    (STREAM_UPSTREAM, "upstream in stream"),
    (MAIL, "mail"),
    (MAIL_SERVER, "server in mail"),
];

const INTRODUCTION: &str = r#".\" Printed from the table of directives (src/conf/table); a test compares.
.TH HEADWATER.CONF 5
.ad l
.nh
.SH NAME
headwater.conf \- configuration of headwater, in nginx's language
.SH DESCRIPTION
A configuration is a list of directives: words and a semicolon, or words and a block of directives in braces. A word with
spaces, semicolons or braces in it stands in quotes; a backslash takes the special meaning from a quote or a backslash, and
.BR \et ,
.B \er
and
.B \en
are tab, carriage return and line feed. A
.B #
where a word could begin starts a comment that ends with the line.
.PP
Sizes are bytes, or end in
.B k
or
.B m
(and
.B g
where large ones make sense). Times are seconds, or numbers with
.B ms s m h d w M y
from the largest unit to the smallest:
.BR 1h30m .
.B $name
and
.B ${name}
are variables. Relative paths start at the prefix
.RB ( \-p ),
those of
.B include
at the directory of the configuration file.
.PP
What a block does not say holds as the block around it says. Lists such as those of
.B proxy_set_header
and
.B add_header
are inherited as a whole, by blocks that have none of their own.
.PP
Below, what is typed as it stands is
.BR bold ,
what something stands in the place of is in
.IR italics ;
[\~] holds what may be left out, | stands between words of which one is taken, and ... means more of the word before it. Where there
is no default, nothing holds unless it is said.
"#;

const VARIABLES: &str = r".SH VARIABLES
A variable of a try has a value for each server that was asked, with commas between them, and a colon where one location handed the
request on to another. A dash stands in the logs for what has no value.
";

const END: &str = ".SH SEE ALSO\n.BR headwater (8)\n";
