//! Tables over all bytes, made when the program is compiled.

/// The table of what `match` says of each byte: `byte_table!(|byte| match byte { … })`.
///
/// A macro, because a function that is evaluated at compile time can neither take a closure nor call a function pointer.
macro_rules! byte_table {
    (|$byte:ident| $class:expr) => {{
        let mut table = [0; 256];
        let mut index = 0;
        while index < table.len() {
            #[expect(clippy::cast_possible_truncation, reason = "there are 256 bytes")]
            let $byte = index as u8;
            table[index] = $class;
            index += 1;
        }
        table
    }};
}

pub(crate) use byte_table;
