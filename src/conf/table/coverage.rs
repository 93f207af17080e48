//! The README's table of directives, printed from the rows.

use std::collections::BTreeMap;

use super::{AREAS, Support, manual::add};

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
