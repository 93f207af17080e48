//! Puts the locations of one level into the order in which they are looked up.
//!
//! Mirrors `ngx_http_init_locations` and `ngx_http_join_exact_locations` (`http/ngx_http.c`).

use std::sync::Arc;

use crate::conf::{
    error::{ConfError, Place},
    model::{Location, LocationKind, Locations, PrefixLocation},
};

/// Sorts, joins `= name` with `name`, and links each name to the longest that is a prefix of it.
pub(super) fn arrange(locations: Vec<(Arc<Location>, Place)>) -> Result<Locations, ConfError> {
    let mut arranged = Locations::default();
    let mut named: Vec<(Arc<Location>, Place)> = Vec::new();
    for (location, place) in locations {
        match location.kind {
            LocationKind::Regex(_) => arranged.regexes.push(location),
            _ => named.push((location, place)),
        }
    }
    named.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name).then(is_exact(b).cmp(&is_exact(a))));
    for (location, place) in named {
        join(&mut arranged.prefixes, location, &place)?;
    }
    link(&mut arranged.prefixes);
    Ok(arranged)
}

fn is_exact(location: &Location) -> bool {
    matches!(location.kind, LocationKind::Exact)
}

fn join(
    prefixes: &mut Vec<PrefixLocation>,
    location: Arc<Location>,
    place: &Place,
) -> Result<(), ConfError> {
    if prefixes
        .last()
        .is_none_or(|last| last.name != location.name)
    {
        prefixes.push(PrefixLocation {
            name: location.name.clone(),
            exact: None,
            inclusive: None,
            parent: None,
        });
    }
    let Some(last) = prefixes.last_mut() else {
        return Ok(());
    };
    let name = String::from_utf8_lossy(&location.name).into_owned();
    let slot = if is_exact(&location) {
        &mut last.exact
    } else {
        &mut last.inclusive
    };
    if slot.replace(location).is_some() {
        return Err(ConfError::at(
            format_args!("duplicate location \"{name}\""),
            place,
        ));
    }
    Ok(())
}

/// Only a name with an inclusive location holds others.
fn link(prefixes: &mut [PrefixLocation]) {
    let mut open: Vec<usize> = Vec::new();
    for index in 0..prefixes.len() {
        while let Some(&last) = open.last() {
            if prefixes[index].name.starts_with(&prefixes[last].name) {
                break;
            }
            open.pop();
        }
        prefixes[index].parent = open.last().copied();
        if prefixes[index].inclusive.is_some() {
            open.push(index);
        }
    }
}
