//! What is printed from the table: the manual page headwater.conf(5) and the README's table of directives.

use std::collections::BTreeMap;

use super::{
    ANY, AREAS, Arguments, BLOCK, Contexts, EVENTS, FLAG, HTTP, LIMIT_EXCEPT, LOCATION,
    LOCATION_IF, MAIL, MAIL_SERVER, MAIN, ONE_MORE, Row, SERVER, SERVER_IF, STREAM, STREAM_SERVER,
    STREAM_UPSTREAM, Support, TWO_MORE, UPSTREAM,
};

/// headwater.conf(5), in roff.
pub fn man_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (area, rows) in AREAS {
        section(&mut page, area, rows);
    }
    page.push_str(END);
    page
}

fn section(page: &mut String, area: &str, rows: &[Row]) {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|row| row.name);
    add(page, format_args!(".SH {}\n", area.to_uppercase()));
    for row in rows {
        let support = match row.support {
            Support::Honoured(_) => "",
            Support::Accepted(_) => " Accepted, without meaning here.",
            Support::Refused => " Not supported yet.",
        };
        add(
            page,
            format_args!(
                ".TP\n.B {}\n{}{support}\n.br\nArguments: {}. Context: {}.\n",
                row.name,
                row.doc.replace('\\', "\\e"),
                arguments(row.arguments),
                contexts(row.contexts),
            ),
        );
    }
}

/// The directives by area as a table in Markdown.
pub fn coverage() -> String {
    let mut table = String::from(
        "| Area | Honoured | Accepted, without meaning here | Not yet |\n|---|---|---|---|\n",
    );
    let mut totals = [0; 3];
    for (area, rows) in AREAS {
        let mut cells: [Vec<&str>; 3] = Default::default();
        for row in rows {
            let cell = match row.support {
                Support::Honoured(_) => 0,
                Support::Accepted(_) => 1,
                Support::Refused => 2,
            };
            cells[cell].push(row.name);
            totals[cell] += 1;
        }
        add(&mut table, format_args!("| {area} |"));
        for names in &cells {
            add(&mut table, format_args!(" {} |", listed(names)));
        }
        table.push('\n');
    }
    let [honoured, accepted, refused] = totals;
    add(
        &mut table,
        format_args!("| **All** | {honoured} | {accepted} | {refused} |\n"),
    );
    table
}

/// Names in order; a large family is one entry.
fn listed(names: &[&str]) -> String {
    let mut families: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let family = name.split_once('_').map_or(*name, |(family, _)| family);
        families.entry(family).or_default().push(name);
    }
    let mut shown = Vec::new();
    for (family, mut names) in families {
        if names.len() > 8 {
            shown.push(format!("`{family}_*` ({})", names.len()));
        } else {
            names.sort_unstable();
            names.dedup();
            shown.extend(names.iter().map(|name| format!("`{name}`")));
        }
    }
    shown.join(" ")
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

fn add(text: &mut String, more: std::fmt::Arguments<'_>) {
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
"#;

const END: &str = ".SH SEE ALSO\n.BR headwater (8)\n";
