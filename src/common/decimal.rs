//! Numbers as text, without the machinery of formatting.

/// Appends a decimal number.
pub fn push(out: &mut Vec<u8>, number: u64) {
    push_padded(out, number, 1);
}

/// Appends seconds with three decimals.
pub fn push_seconds(out: &mut Vec<u8>, millis: u64) {
    push(out, millis / 1000);
    out.push(b'.');
    push_padded(out, millis % 1000, 3);
}

/// Appends a decimal number of at least `width` digits.
fn push_padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while number > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_seconds() {
        let mut out = Vec::new();
        for number in [0, 7, 120, u64::MAX] {
            push(&mut out, number);
            out.push(b' ');
        }
        for millis in [0, 1, 1020, 61_234] {
            push_seconds(&mut out, millis);
            out.push(b' ');
        }
        let expected = "0 7 120 18446744073709551615 0.000 0.001 1.020 61.234 ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
