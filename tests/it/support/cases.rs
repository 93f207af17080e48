//! Tables of bytes as text, so that a test shows its cases a line each.

/// The rows `name: bytes` of a table; in the bytes `\r`, `\n`, `\t`, `\\` and `\x41` stand for what they say.
pub(crate) fn cases(table: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    let rows = table.lines().map(str::trim_start);
    let rows = rows.filter(|row| !row.is_empty());
    rows.map(|row| {
        let (name, text) = row.split_once(": ").expect("a row has a name");
        (name, unescape(text))
    })
    .collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let unescaped = match byte {
            b'\\' => match rest.next().expect("something is escaped") {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'x' => {
                    let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
                    u8::try_from(digit() * 16 + digit()).unwrap()
                }
                other => other,
            },
            byte => byte,
        };
        bytes.push(unescaped);
    }
    bytes
}
