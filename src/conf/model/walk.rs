//! Visits every set of settings in a configuration: all that may name a log or a directory.

use super::{Http, Location, Locations, Op};

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
