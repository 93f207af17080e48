//! `try_files`. Mirrors `ngx_http_try_files_module.c`.

use super::{file, path};
use crate::{
    conf::model::TryFallback,
    http::{
        exchange::Exchange,
        phases::{self, Next},
    },
};

/// Takes the first of the paths that is there as the URI; None: on with the next phase.
pub(crate) fn try_files<'g>(x: &mut Exchange<'g>) -> Option<Next<'g>> {
    let conf = x.location.try_files.as_ref()?;
    for (template, is_dir) in &conf.candidates {
        let Some(base) = file::base(x) else {
            return Some(Next::Status(500));
        };
        let mut name = template.to_vec(x);
        if let Some(skip) = file::aliased(x).filter(|skip| *skip > 0)
            && template.as_literal().is_none()
            && name.starts_with(x.request.uri.get(..skip).unwrap_or_default())
        {
            name.drain(..skip);
        }
        let full = [&base[..], &name].concat();
        if std::fs::metadata(path(&full)).is_ok_and(|meta| meta.is_dir() == *is_dir) {
            take(x, name, *is_dir);
            return None;
        }
    }
    Some(match &conf.fallback {
        TryFallback::Status(status) => Next::Status(*status),
        TryFallback::Uri(template) => {
            let target = template.to_vec(x);
            if target.starts_with(b"@") {
                phases::named_location(x, &target)
            } else {
                let (uri, args) = phases::split_args(&target);
                phases::internal_redirect(x, uri, args)
            }
        }
    })
}

/// Makes a path that was found the URI.
fn take(x: &mut Exchange<'_>, name: Vec<u8>, is_dir: bool) {
    match file::aliased(x) {
        Some(0) => x.request.uri = name,
        Some(skip) => {
            x.request.uri.truncate(skip);
            x.request.uri.extend_from_slice(&name);
        }
        None if !is_dir => {
            x.request.uri = name;
            x.add_uri_to_alias = true;
        }
        None => {}
    }
}
