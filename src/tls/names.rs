//! OpenSSL's names of ciphers and groups, all that a client may offer.
//!
//! As `SSL_CIPHER_get_name` and `SSL_group_to_name` of OpenSSL 3.3 have them, with the hybrid groups of 3.5. Numbers are those of IANA's
//! registry of TLS parameters.

/// OpenSSL's name of the cipher suite with this number.
pub(super) fn cipher(code: u16) -> Option<&'static str> {
    find(&CIPHERS, code)
}

/// OpenSSL's name of the group with this number.
pub(super) fn group(code: u16) -> Option<&'static str> {
    find(&GROUPS, code)
}

/// Appends numbers of a list, by their names where they have one, with colons between.
pub(super) fn list(codes: &[u16], name: fn(u16) -> Option<&'static str>, out: &mut Vec<u8>) {
    for (n, code) in codes.iter().enumerate() {
        if n > 0 {
            out.push(b':');
        }
        match name(*code) {
            Some(name) => out.extend_from_slice(name.as_bytes()),
            None => out.extend_from_slice(format!("0x{code:04x}").as_bytes()),
        }
    }
}

/// A name in a table, which is sorted.
fn find(table: &[(u16, &'static str)], code: u16) -> Option<&'static str> {
    let at = table.binary_search_by_key(&code, |(code, _)| *code).ok()?;
    table.get(at).map(|(_, name)| *name)
}

const CIPHERS: [(u16, &str); 174] = [
    (0x0001, "NULL-MD5"),
    (0x0002, "NULL-SHA"),
    (0x0007, "IDEA-CBC-SHA"),
    (0x002c, "PSK-NULL-SHA"),
    (0x002d, "DHE-PSK-NULL-SHA"),
    (0x002e, "RSA-PSK-NULL-SHA"),
    (0x002f, "AES128-SHA"),
    (0x0032, "DHE-DSS-AES128-SHA"),
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0034, "ADH-AES128-SHA"),
    (0x0035, "AES256-SHA"),
    (0x0038, "DHE-DSS-AES256-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x003a, "ADH-AES256-SHA"),
    (0x003b, "NULL-SHA256"),
    (0x003c, "AES128-SHA256"),
    (0x003d, "AES256-SHA256"),
    (0x0040, "DHE-DSS-AES128-SHA256"),
    (0x0041, "CAMELLIA128-SHA"),
    (0x0044, "DHE-DSS-CAMELLIA128-SHA"),
    (0x0045, "DHE-RSA-CAMELLIA128-SHA"),
    (0x0046, "ADH-CAMELLIA128-SHA"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006a, "DHE-DSS-AES256-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0x006c, "ADH-AES128-SHA256"),
    (0x006d, "ADH-AES256-SHA256"),
    (0x0081, "GOST2001-GOST89-GOST89"),
    (0x0083, "GOST2001-NULL-GOST94"),
    (0x0084, "CAMELLIA256-SHA"),
    (0x0087, "DHE-DSS-CAMELLIA256-SHA"),
    (0x0088, "DHE-RSA-CAMELLIA256-SHA"),
    (0x0089, "ADH-CAMELLIA256-SHA"),
    (0x008c, "PSK-AES128-CBC-SHA"),
    (0x008d, "PSK-AES256-CBC-SHA"),
    (0x0090, "DHE-PSK-AES128-CBC-SHA"),
    (0x0091, "DHE-PSK-AES256-CBC-SHA"),
    (0x0094, "RSA-PSK-AES128-CBC-SHA"),
    (0x0095, "RSA-PSK-AES256-CBC-SHA"),
    (0x0096, "SEED-SHA"),
    (0x0099, "DHE-DSS-SEED-SHA"),
    (0x009a, "DHE-RSA-SEED-SHA"),
    (0x009b, "ADH-SEED-SHA"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0x00a2, "DHE-DSS-AES128-GCM-SHA256"),
    (0x00a3, "DHE-DSS-AES256-GCM-SHA384"),
    (0x00a6, "ADH-AES128-GCM-SHA256"),
    (0x00a7, "ADH-AES256-GCM-SHA384"),
    (0x00a8, "PSK-AES128-GCM-SHA256"),
    (0x00a9, "PSK-AES256-GCM-SHA384"),
    (0x00aa, "DHE-PSK-AES128-GCM-SHA256"),
    (0x00ab, "DHE-PSK-AES256-GCM-SHA384"),
    (0x00ac, "RSA-PSK-AES128-GCM-SHA256"),
    (0x00ad, "RSA-PSK-AES256-GCM-SHA384"),
    (0x00ae, "PSK-AES128-CBC-SHA256"),
    (0x00af, "PSK-AES256-CBC-SHA384"),
    (0x00b0, "PSK-NULL-SHA256"),
    (0x00b1, "PSK-NULL-SHA384"),
    (0x00b2, "DHE-PSK-AES128-CBC-SHA256"),
    (0x00b3, "DHE-PSK-AES256-CBC-SHA384"),
    (0x00b4, "DHE-PSK-NULL-SHA256"),
    (0x00b5, "DHE-PSK-NULL-SHA384"),
    (0x00b6, "RSA-PSK-AES128-CBC-SHA256"),
    (0x00b7, "RSA-PSK-AES256-CBC-SHA384"),
    (0x00b8, "RSA-PSK-NULL-SHA256"),
    (0x00b9, "RSA-PSK-NULL-SHA384"),
    (0x00ba, "CAMELLIA128-SHA256"),
    (0x00bd, "DHE-DSS-CAMELLIA128-SHA256"),
    (0x00be, "DHE-RSA-CAMELLIA128-SHA256"),
    (0x00bf, "ADH-CAMELLIA128-SHA256"),
    (0x00c0, "CAMELLIA256-SHA256"),
    (0x00c3, "DHE-DSS-CAMELLIA256-SHA256"),
    (0x00c4, "DHE-RSA-CAMELLIA256-SHA256"),
    (0x00c5, "ADH-CAMELLIA256-SHA256"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0x5600, "TLS_FALLBACK_SCSV"),
    (0xc006, "ECDHE-ECDSA-NULL-SHA"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc010, "ECDHE-RSA-NULL-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA"),
    (0xc015, "AECDH-NULL-SHA"),
    (0xc018, "AECDH-AES128-SHA"),
    (0xc019, "AECDH-AES256-SHA"),
    (0xc01d, "SRP-AES-128-CBC-SHA"),
    (0xc01e, "SRP-RSA-AES-128-CBC-SHA"),
    (0xc01f, "SRP-DSS-AES-128-CBC-SHA"),
    (0xc020, "SRP-AES-256-CBC-SHA"),
    (0xc021, "SRP-RSA-AES-256-CBC-SHA"),
    (0xc022, "SRP-DSS-AES-256-CBC-SHA"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xc035, "ECDHE-PSK-AES128-CBC-SHA"),
    (0xc036, "ECDHE-PSK-AES256-CBC-SHA"),
    (0xc037, "ECDHE-PSK-AES128-CBC-SHA256"),
    (0xc038, "ECDHE-PSK-AES256-CBC-SHA384"),
    (0xc039, "ECDHE-PSK-NULL-SHA"),
    (0xc03a, "ECDHE-PSK-NULL-SHA256"),
    (0xc03b, "ECDHE-PSK-NULL-SHA384"),
    (0xc050, "ARIA128-GCM-SHA256"),
    (0xc051, "ARIA256-GCM-SHA384"),
    (0xc052, "DHE-RSA-ARIA128-GCM-SHA256"),
    (0xc053, "DHE-RSA-ARIA256-GCM-SHA384"),
    (0xc056, "DHE-DSS-ARIA128-GCM-SHA256"),
    (0xc057, "DHE-DSS-ARIA256-GCM-SHA384"),
    (0xc05c, "ECDHE-ECDSA-ARIA128-GCM-SHA256"),
    (0xc05d, "ECDHE-ECDSA-ARIA256-GCM-SHA384"),
    (0xc060, "ECDHE-ARIA128-GCM-SHA256"),
    (0xc061, "ECDHE-ARIA256-GCM-SHA384"),
    (0xc06a, "PSK-ARIA128-GCM-SHA256"),
    (0xc06b, "PSK-ARIA256-GCM-SHA384"),
    (0xc06c, "DHE-PSK-ARIA128-GCM-SHA256"),
    (0xc06d, "DHE-PSK-ARIA256-GCM-SHA384"),
    (0xc06e, "RSA-PSK-ARIA128-GCM-SHA256"),
    (0xc06f, "RSA-PSK-ARIA256-GCM-SHA384"),
    (0xc072, "ECDHE-ECDSA-CAMELLIA128-SHA256"),
    (0xc073, "ECDHE-ECDSA-CAMELLIA256-SHA384"),
    (0xc076, "ECDHE-RSA-CAMELLIA128-SHA256"),
    (0xc077, "ECDHE-RSA-CAMELLIA256-SHA384"),
    (0xc094, "PSK-CAMELLIA128-SHA256"),
    (0xc095, "PSK-CAMELLIA256-SHA384"),
    (0xc096, "DHE-PSK-CAMELLIA128-SHA256"),
    (0xc097, "DHE-PSK-CAMELLIA256-SHA384"),
    (0xc098, "RSA-PSK-CAMELLIA128-SHA256"),
    (0xc099, "RSA-PSK-CAMELLIA256-SHA384"),
    (0xc09a, "ECDHE-PSK-CAMELLIA128-SHA256"),
    (0xc09b, "ECDHE-PSK-CAMELLIA256-SHA384"),
    (0xc09c, "AES128-CCM"),
    (0xc09d, "AES256-CCM"),
    (0xc09e, "DHE-RSA-AES128-CCM"),
    (0xc09f, "DHE-RSA-AES256-CCM"),
    (0xc0a0, "AES128-CCM8"),
    (0xc0a1, "AES256-CCM8"),
    (0xc0a2, "DHE-RSA-AES128-CCM8"),
    (0xc0a3, "DHE-RSA-AES256-CCM8"),
    (0xc0a4, "PSK-AES128-CCM"),
    (0xc0a5, "PSK-AES256-CCM"),
    (0xc0a6, "DHE-PSK-AES128-CCM"),
    (0xc0a7, "DHE-PSK-AES256-CCM"),
    (0xc0a8, "PSK-AES128-CCM8"),
    (0xc0a9, "PSK-AES256-CCM8"),
    (0xc0aa, "DHE-PSK-AES128-CCM8"),
    (0xc0ab, "DHE-PSK-AES256-CCM8"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xc0ae, "ECDHE-ECDSA-AES128-CCM8"),
    (0xc0af, "ECDHE-ECDSA-AES256-CCM8"),
    (0xc100, "GOST2012-KUZNYECHIK-KUZNYECHIKOMAC"),
    (0xc101, "GOST2012-MAGMA-MAGMAOMAC"),
    (0xc102, "IANA-GOST2012-GOST8912-GOST8912"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
    (0xccab, "PSK-CHACHA20-POLY1305"),
    (0xccac, "ECDHE-PSK-CHACHA20-POLY1305"),
    (0xccad, "DHE-PSK-CHACHA20-POLY1305"),
    (0xccae, "RSA-PSK-CHACHA20-POLY1305"),
    (0xff85, "LEGACY-GOST2012-GOST8912-GOST8912"),
    (0xff87, "GOST2012-NULL-GOST12"),
];

const GROUPS: [(u16, &str); 34] = [
    (0x0002, "sect163r1"),
    (0x0004, "sect193r1"),
    (0x0005, "sect193r2"),
    (0x0008, "sect239k1"),
    (0x000f, "secp160k1"),
    (0x0010, "secp160r1"),
    (0x0011, "secp160r2"),
    (0x0012, "secp192k1"),
    (0x0013, "prime192v1"),
    (0x0014, "secp224k1"),
    (0x0015, "secp224r1"),
    (0x0016, "secp256k1"),
    (0x0017, "prime256v1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001a, "brainpoolP256r1"),
    (0x001b, "brainpoolP384r1"),
    (0x001c, "brainpoolP512r1"),
    (0x001d, "X25519"),
    (0x001e, "X448"),
    (0x001f, "brainpoolP256r1tls13"),
    (0x0020, "brainpoolP384r1tls13"),
    (0x0021, "brainpoolP512r1tls13"),
    (0x0100, "ffdhe2048"),
    (0x0101, "ffdhe3072"),
    (0x0102, "ffdhe4096"),
    (0x0103, "ffdhe6144"),
    (0x0104, "ffdhe8192"),
    (0x0200, "MLKEM512"),
    (0x0201, "MLKEM768"),
    (0x0202, "MLKEM1024"),
    (0x11eb, "SecP256r1MLKEM768"),
    (0x11ec, "X25519MLKEM768"),
    (0x11ed, "SecP384r1MLKEM1024"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(CIPHERS.is_sorted_by(|a, b| a.0 < b.0) && GROUPS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn lists_have_names_and_numbers() {
        let text = |codes: &[u16], name| {
            let mut out = Vec::new();
            list(codes, name, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(&[0x0a0a, 0x1301, 0xc02b, 0xff], cipher),
            "0x0a0a:TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
        );
        assert_eq!(
            text(&[0x1d, 0x17, 0x9999], group),
            "X25519:prime256v1:0x9999"
        );
        assert_eq!(text(&[0x403, 0x804], |_| None), "0x0403:0x0804");
        assert_eq!(text(&[], cipher), "");
    }
}
