//! `geo`: a value for an address, by networks (the longest prefix counts) or by ranges of IPv4 addresses.
//!
//! [`Networks`] and [`Ranges`] gather what the configuration says, in its order, because what is doubled, split or deleted
//! depends on it; [`Geo`] is what lookups use. Mirrors `ngx_http_geo_module.c`.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::Template;
use crate::common::{addr::Addr, forwarded, hash::FnvMap};

mod networks;
mod ranges;

pub use networks::Networks;
pub use ranges::{Overlap, Ranges};

/// `geo` table.
#[derive(Debug, Default)]
pub struct Geo {
    /// Where the address comes from; None for the client's.
    pub variable: Option<Template>,
    /// `proxy`: who may name the client in `X-Forwarded-For`.
    pub proxies: Vec<IpNet>,
    /// `proxy_recursive`
    pub recursive: bool,
    /// `volatile`
    pub volatile: bool,
    /// The values.
    pub table: Table,
}

/// The values of a [`Geo`].
#[derive(Debug)]
pub enum Table {
    /// By networks.
    Networks(networks::Lookup),
    /// `ranges`
    Ranges(ranges::Lookup),
}

impl Default for Table {
    fn default() -> Self {
        Self::Networks(Networks::default().build())
    }
}

impl Geo {
    /// The variable whose value is the address; None for the client's address.
    pub fn variable(&self) -> Option<&Template> {
        self.variable.as_ref()
    }

    /// Whether the value is computed anew each time it is used.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// The value for `addr`, None when the variable holds no address; `forwarded` is the `X-Forwarded-For` of the request,
    /// empty when there is none.
    pub fn lookup(&self, addr: Option<&Addr>, forwarded: &[u8]) -> &[u8] {
        let client = addr.filter(|_| !self.proxies.is_empty()).and_then(|addr| {
            forwarded::client(addr, forwarded, self.recursive, |addr| self.is_proxy(addr))
        });
        let ip = client.as_ref().or(addr).and_then(Addr::ip);
        // A Unix socket, or what is no address, counts as 255.255.255.255.
        let ip = ip.map_or(NO_ADDRESS, |ip| ip.to_canonical());
        match &self.table {
            Table::Networks(table) => table.find(ip),
            Table::Ranges(table) => match ip {
                IpAddr::V4(ip) => table.find(ip),
                IpAddr::V6(_) => table.find(Ipv4Addr::BROADCAST),
            },
        }
    }

    fn is_proxy(&self, addr: &Addr) -> bool {
        addr.ip().is_some_and(|ip| {
            let ip = ip.to_canonical();
            self.proxies.iter().any(|net| net.contains(&ip))
        })
    }
}

const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

/// Values, each once, by number.
#[derive(Debug, Default)]
struct Values {
    list: Vec<Box<[u8]>>,
    numbers: FnvMap<Box<[u8]>, u32>,
}

impl Values {
    fn number(&mut self, value: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(value.into());
        self.numbers.insert(value.into(), number);
        number
    }

    fn get(&self, number: u32) -> &[u8] {
        self.list.get(number as usize).map_or(&[], |value| value)
    }

    /// No more are to come.
    fn freeze(mut self) -> Self {
        self.numbers = FnvMap::default();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Addr {
        forwarded::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn who_the_client_is() {
        let mut networks = Networks::default();
        for (net, value) in [
            ("127.0.0.0/8", "loopback"),
            ("192.0.2.0/24", "test"),
            ("255.0.0.0/8", "none"),
        ] {
            networks.add(net.parse().unwrap(), value.as_bytes());
        }
        let geo = Geo {
            proxies: vec!["127.0.0.1/32".parse().unwrap()],
            recursive: true,
            table: Table::Networks(networks.build()),
            ..Geo::default()
        };
        let unix = Addr::Unix(std::path::Path::new("").into());
        for (from, list, expected) in [
            (Some(addr("127.0.0.1")), "", "loopback"),
            (Some(addr("::ffff:127.0.0.1")), "", "loopback"),
            (Some(addr("127.0.0.1")), "192.0.2.1, 127.0.0.1", "test"),
            (Some(addr("::ffff:127.0.0.1")), "192.0.2.1", "test"),
            (Some(addr("127.0.0.2")), "192.0.2.1", "loopback"),
            (Some(addr("8.8.8.8")), "192.0.2.1", ""),
            (Some(addr("::1")), "", ""),
            (Some(unix), "", "none"),
            (None, "192.0.2.1", "none"),
        ] {
            let value = geo.lookup(from.as_ref(), list.as_bytes());
            assert_eq!(value, expected.as_bytes(), "{from:?} {list}");
        }
    }

    #[test]
    fn ranges_know_ipv4_alone() {
        let mut ranges = Ranges::default();
        ranges.set_default(b"default");
        let (start, end) = ([10, 0, 0, 0].into(), [10, 0, 0, 9].into());
        ranges.add(start, end, b"ten").unwrap();
        let geo = Geo {
            table: Table::Ranges(ranges.build()),
            ..Geo::default()
        };
        for (from, expected) in [
            ("10.0.0.9", "ten"),
            ("::ffff:10.0.0.9", "ten"),
            ("10.0.0.10", "default"),
            ("::1", "default"),
        ] {
            assert_eq!(
                geo.lookup(Some(&addr(from)), b""),
                expected.as_bytes(),
                "{from}"
            );
        }
    }
}
