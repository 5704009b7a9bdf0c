//! JSON by hand: the little that requests hold.

use std::io::Write;

/// Append a text in quotes.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..=0x1f => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Append an array of finite numbers, each in the fewest digits that give the same float32.
pub fn put_floats(out: &mut Vec<u8>, values: &[f32]) {
    out.push(b'[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // Writing to memory does not fail.
        let _ = write!(out, "{value:?}");
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_written_as_json_has_them() {
        let mut out = vec![];
        put_text(&mut out, "a\"b\\c\nü");
        put_floats(&mut out, &[0.1, -1e-30, 3.0, 1e20]);
        put_floats(&mut out, &[]);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, r#""a\"b\\c\u000aü"[0.1,-1e-30,3.0,1e20][]"#);
    }
}
