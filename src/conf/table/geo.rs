//! The lines of `geo`.
//!
//! Mirrors `ngx_http_geo_block` and what it calls; in `stream` there is no header that `proxy` could be about.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::{
    http_small::network,
    maps::{block, lines, variable},
};
use crate::{
    conf::{error::Problem, lexer::Word, model::SlotSource, parser::Statement, read::Reader},
    vars::{
        Part, Template,
        geo::{Geo, Networks, Ranges, Table},
    },
};

/// What the lines said so far.
#[derive(Default)]
struct Draft {
    proxies: Vec<IpNet>,
    recursive: bool,
    volatile: bool,
    /// Made by the first line that needs them.
    networks: Option<Networks>,
    /// Made by `ranges`.
    ranges: Option<Ranges>,
}

pub(super) fn geo(reader: &mut Reader, statement: &Statement) -> Result<(), Problem> {
    let (source, target) = match statement.args.as_slice() {
        [target] => (None, variable(target)?),
        [source, target] => {
            let source = variable(source)?;
            (Some(source), variable(target)?)
        }
        _ => return Err(Problem::invalid_value()),
    };
    let source = source.map(|name| Template::from(Part::Var(reader.vars.resolve(&name))));
    reader.vars.define(&target, SlotSource::Assigned)?;
    let mut draft = Draft::default();
    lines(reader, block(statement), true, &mut |reader, line| {
        draft.line(reader, line)
    })?;
    let geo = Geo {
        variable: source,
        proxies: draft.proxies,
        recursive: draft.recursive,
        volatile: draft.volatile,
        table: match draft.ranges {
            Some(ranges) => Table::Ranges(ranges.build()),
            None => Table::Networks(draft.networks.unwrap_or_default().build()),
        },
    };
    reader.vars.define(&target, SlotSource::Geo(geo.into()))?;
    Ok(())
}

impl Draft {
    fn line(&mut self, reader: &mut Reader, line: &Statement) -> Result<(), Problem> {
        if line.args.is_empty() && self.word(&line.name, reader.in_stream())? {
            return Ok(());
        }
        let [value] = line.args.as_slice() else {
            return Err(Problem::message("invalid number of the geo parameters"));
        };
        if line.name == "proxy" && !reader.in_stream() {
            let net = parse_network(reader, value, line)?;
            self.proxies.push(net);
            return Ok(());
        }
        match &mut self.ranges {
            Some(ranges) => range_line(reader, ranges, line, value),
            None => network_line(reader, self.networks.get_or_insert_default(), line, value),
        }
    }

    /// A line of one word; false when it means nothing.
    fn word(&mut self, word: &Word, in_stream: bool) -> Result<bool, Problem> {
        match word.bytes() {
            b"ranges" if self.networks.is_some() => {
                return Err(Problem::message(
                    "the \"ranges\" directive must be the first directive inside \"geo\" block",
                ));
            }
            b"ranges" => {
                self.ranges.get_or_insert_default();
            }
            b"proxy_recursive" if !in_stream => self.recursive = true,
            b"volatile" => self.volatile = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn network_line(
    reader: &mut Reader,
    networks: &mut Networks,
    line: &Statement,
    value: &Word,
) -> Result<(), Problem> {
    if line.name == "delete" {
        let net = parse_network(reader, value, line)?;
        if !networks.delete(net) {
            reader.warn(format_args!("no network \"{value}\" to delete"), line);
        }
        return Ok(());
    }
    let nets = if line.name == "default" {
        vec![
            IpNet::V4(ipnet::Ipv4Net::default()),
            IpNet::V6(ipnet::Ipv6Net::default()),
        ]
    } else {
        vec![parse_network(reader, &line.name, line)?]
    };
    for net in nets {
        if let Some(old) = networks.add(net, value.bytes()) {
            let old = String::from_utf8_lossy(&old);
            let name = &line.name;
            reader.warn(
                format_args!(
                    "duplicate network \"{name}\", value: \"{value}\", old value: \"{old}\""
                ),
                line,
            );
        }
    }
    Ok(())
}

fn range_line(
    reader: &mut Reader,
    ranges: &mut Ranges,
    line: &Statement,
    value: &Word,
) -> Result<(), Problem> {
    if line.name == "default" {
        if let Some(old) = ranges.set_default(value.bytes()) {
            let old = String::from_utf8_lossy(&old);
            reader.warn(
                format_args!(
                    "duplicate default geo range value: \"{value}\", old value: \"{old}\""
                ),
                line,
            );
        }
        return Ok(());
    }
    if line.name == "delete" {
        let (first, last) = parse_range(value)?;
        if !ranges.delete(first, last) {
            reader.warn(format_args!("no address range \"{value}\" to delete"), line);
        }
        return Ok(());
    }
    let range = &line.name;
    let (first, last) = parse_range(range)?;
    let doubled = ranges
        .add(first, last, value.bytes())
        .map_err(|overlap| Problem::Message(format!("range \"{range}\" overlaps \"{overlap}\"")))?;
    for old in doubled {
        let old = String::from_utf8_lossy(&old);
        reader.warn(
            format_args!("duplicate range \"{range}\", value: \"{value}\", old value: \"{old}\""),
            line,
        );
    }
    Ok(())
}

fn parse_network(reader: &mut Reader, word: &Word, line: &Statement) -> Result<IpNet, Problem> {
    let text = word.text();
    let found = network(&text).filter(|(net, _)| {
        // The last address is a network when it stands alone: nginx has no other way to say "no address".
        net.addr() != IpAddr::V4(Ipv4Addr::BROADCAST) || text == "255.255.255.255"
    });
    let Some((net, odd)) = found else {
        return Err(Problem::Message(format!("invalid network \"{word}\"")));
    };
    if odd {
        reader.warn(
            format_args!("low address bits of {word} are meaningless"),
            line,
        );
    }
    Ok(net)
}

fn parse_range(word: &Word) -> Result<(Ipv4Addr, Ipv4Addr), Problem> {
    let text = word.text();
    let ends = text.split_once('-').and_then(|(first, last)| {
        let (first, last): (Ipv4Addr, Ipv4Addr) = (first.parse().ok()?, last.parse().ok()?);
        // nginx cannot tell the last address of all from none.
        (first <= last && last != Ipv4Addr::BROADCAST).then_some((first, last))
    });
    ends.ok_or_else(|| Problem::Message(format!("invalid range \"{word}\"")))
}
