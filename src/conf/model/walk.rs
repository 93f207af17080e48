//! Visits every set of settings in a configuration: all that may name a log or a directory.

use super::{Config, Http, Location, Locations, Op, VisitLogs};

impl Config {
    /// Calls `visit` for the `error_log`s (None where there is none) and `access_log`s of every set of settings in
    /// `http` and `stream`; one that is inherited comes several times.
    pub fn each_logging(&self, visit: VisitLogs<'_>) {
        if let Some(http) = &self.http {
            http.each_location(&mut |location| {
                visit(location.core.error_log.as_deref(), &location.access_log);
            });
        }
        if let Some(stream) = &self.stream {
            visit(stream.core.error_log.as_deref(), &stream.access_log);
            for server in &stream.servers {
                visit(server.core.error_log.as_deref(), &server.access_log);
            }
        }
    }
}

impl Http {
    /// Calls `visit` for the settings of `http`, of each server, location, `if` and `limit_except`.
    pub fn each_location(&self, visit: &mut dyn FnMut(&Location)) {
        location(&self.location, visit);
        for server in &self.servers {
            location(&server.location, visit);
            ops(&server.rewrite, visit);
            for (_, named) in &server.named {
                location(named, visit);
            }
        }
    }
}

fn location(at: &Location, visit: &mut dyn FnMut(&Location)) {
    visit(at);
    ops(&at.rewrite, visit);
    if let Some((_, limited)) = &at.limit_except {
        location(limited, visit);
    }
    children(&at.children, visit);
}

fn children(locations: &Locations, visit: &mut dyn FnMut(&Location)) {
    for prefix in &locations.prefixes {
        for child in prefix.exact.iter().chain(&prefix.inclusive) {
            location(child, visit);
        }
    }
    for child in &locations.regexes {
        location(child, visit);
    }
}

fn ops(list: &[Op], visit: &mut dyn FnMut(&Location)) {
    for op in list {
        if let Op::If(block) = op {
            location(&block.location, visit);
            ops(&block.ops, visit);
        }
    }
}
