//! OpenSSL's names: lists of ciphers, groups, and what connections have agreed on.

use rustls::{
    CipherSuite, NamedGroup, SupportedCipherSuite,
    crypto::{
        SupportedKxGroup,
        aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS, DEFAULT_KX_GROUPS},
    },
};

use super::names;

/// OpenSSL's name of a cipher suite.
pub fn cipher_name(suite: CipherSuite) -> Option<&'static str> {
    names::cipher(suite.into())
}

/// OpenSSL's name of a group.
pub fn group_name(group: NamedGroup) -> Option<&'static str> {
    names::group(group.into())
}

/// The suites of TLS 1.2 that a list of OpenSSL's selects, in its order; what rustls does not have is left out.
/// Mirrors `ssl_create_cipher_list` of OpenSSL as far as its words are about ciphers that are still there.
pub(super) fn select(list: &str) -> Vec<SupportedCipherSuite> {
    let mut chosen: Vec<&'static str> = Vec::new();
    let mut killed: Vec<&'static str> = Vec::new();
    let words = list
        .split([':', ',', ' ', ';'])
        .filter(|word| !word.is_empty());
    for word in words {
        let (operator, rest) = match word.as_bytes()[0] {
            b'!' | b'-' | b'+' => word.split_at(1),
            b'@' => continue,
            _ => ("", word),
        };
        let matching = NAMES.into_iter().filter(|name| matches(rest, name));
        match operator {
            "!" => {
                killed.extend(matching);
                chosen.retain(|name| !killed.contains(name));
            }
            "-" => chosen.retain(|name| !matches(rest, name)),
            "+" => {
                let (last, first): (Vec<_>, Vec<_>) =
                    chosen.into_iter().partition(|name| matches(rest, name));
                chosen = [first, last].concat();
            }
            _ => {
                for name in matching {
                    if !chosen.contains(&name) && !killed.contains(&name) {
                        chosen.push(name);
                    }
                }
            }
        }
    }
    chosen.into_iter().filter_map(suite).collect()
}

/// The suites of TLS 1.3 of a list (`Ciphersuites`), all without one.
pub(super) fn select_tls13(list: Option<&str>) -> Vec<SupportedCipherSuite> {
    let all = [
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
    ];
    match list {
        None => all.into_iter().filter_map(suite).collect(),
        Some(list) => list.split([':', ',', ' ']).filter_map(suite).collect(),
    }
}

fn suite(name: &str) -> Option<SupportedCipherSuite> {
    let mut all = ALL_CIPHER_SUITES.iter();
    all.find(|suite| cipher_name(suite.suite()) == Some(name))
        .copied()
}

/// Those of TLS 1.2 that there are, in OpenSSL's order.
const NAMES: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
];

/// Whether `word`, perhaps several with `+` between, means the suite.
fn matches(word: &str, name: &str) -> bool {
    word == name || word.split('+').all(|part| has(part, name))
}

fn has(property: &str, name: &str) -> bool {
    match property {
        "ALL" | "DEFAULT" | "COMPLEMENTOFDEFAULT" if property != "COMPLEMENTOFDEFAULT" => true,
        "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" | "ECDH" | "FIPS" => true,
        "aRSA" => name.contains("-RSA-"),
        "aECDSA" | "ECDSA" => name.contains("-ECDSA-"),
        "AES" | "AESGCM" => name.contains("-AES"),
        "AES128" => name.contains("-AES128-"),
        "AES256" => name.contains("-AES256-"),
        "CHACHA20" => name.contains("-CHACHA20-"),
        "SHA256" => name.ends_with("SHA256"),
        "SHA384" => name.ends_with("SHA384"),
        _ => false,
    }
}

/// The groups of `ssl_ecdh_curve`, in its order; None when it names none that there is.
pub(super) fn groups(list: &str) -> Option<Vec<&'static dyn SupportedKxGroup>> {
    if list == "auto" {
        return Some(DEFAULT_KX_GROUPS.to_vec());
    }
    let group = |name: &str| {
        let name = match name {
            "P-256" | "secp256r1" => "prime256v1",
            "P-384" => "secp384r1",
            name => name,
        };
        let mut all = ALL_KX_GROUPS.iter();
        all.find(|group| {
            group_name(group.name()).is_some_and(|known| known.eq_ignore_ascii_case(name))
        })
    };
    let found: Vec<_> = list.split(':').filter_map(group).copied().collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> String {
        let names = select(list)
            .iter()
            .filter_map(|s| cipher_name(s.suite()))
            .collect::<Vec<_>>();
        names.join(" ")
    }

    #[test]
    fn lists_of_openssl() {
        assert_eq!(names("HIGH:!aNULL:!MD5"), NAMES.join(" "));
        assert_eq!(names("DEFAULT"), NAMES.join(" "));
        assert_eq!(
            names("ECDHE+AESGCM:!aECDSA"),
            "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256"
        );
        assert_eq!(
            names("EECDH+CHACHA20:EECDH+AES128:RSA+AES128:!RC4:-aRSA"),
            "ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-ECDSA-AES128-GCM-SHA256"
        );
        assert_eq!(
            names("AES128:AES256:+AES128:!aECDSA"),
            "ECDHE-RSA-AES256-GCM-SHA384 ECDHE-RSA-AES128-GCM-SHA256"
        );
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256 @STRENGTH"),
            "ECDHE-RSA-AES128-GCM-SHA256"
        );
        assert_eq!(names("RC4:AES128-SHA"), "");
        assert_eq!(names("!aRSA:ALL:aRSA:!AES:!CHACHA20"), "");
        assert_eq!(select_tls13(Some("TLS_AES_128_GCM_SHA256")).len(), 1);
    }

    #[test]
    fn curves() {
        let names = |list: &str| {
            groups(list).map(|g| {
                g.iter()
                    .filter_map(|g| group_name(g.name()))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(names("secp384r1:X448:p-256"), Some(vec!["secp384r1"]));
        assert_eq!(
            names("X25519:prime256v1"),
            Some(vec!["X25519", "prime256v1"])
        );
        assert_eq!(names("brainpoolP256r1"), None);
        assert!(names("auto").is_some_and(|all| all.len() >= 3));
    }
}
