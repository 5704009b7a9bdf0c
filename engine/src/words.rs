//! Where words end in languages that put no spaces between them.

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::WordSegmenter;

/// Scripts of such languages: Thai and Lao, Myanmar, Khmer, kana, ideographs.
const SCRIPTS: [(char, char); 9] = [
    ('\u{e00}', '\u{eff}'),
    ('\u{1000}', '\u{109f}'),
    ('\u{1780}', '\u{17ff}'),
    ('\u{3040}', '\u{30ff}'),
    ('\u{31f0}', '\u{31ff}'),
    ('\u{3400}', '\u{4dbf}'),
    ('\u{4e00}', '\u{9fff}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{20000}', '\u{3ffff}'),
];

/// Each text with a space between words that have none, by the boundaries and dictionaries of
/// Unicode (UAX #29, CLDR). Texts of other scripts stay as they are.
pub fn spaced(texts: Vec<String>) -> Vec<String> {
    let segmenter = WordSegmenter::new_dictionary(WordBreakInvariantOptions::default());
    let spaced = |text: String| {
        if !text.chars().any(is_unspaced) {
            return text;
        }
        let ends: Vec<usize> = segmenter.segment_str(&text).collect();
        let mut out = String::with_capacity(text.len() + ends.len());
        for pair in ends.windows(2) {
            let part = &text[pair[0]..pair[1]];
            if let (Some(before), Some(first)) = (out.chars().next_back(), part.chars().next()) {
                let apart = before.is_whitespace() || first.is_whitespace();
                if !apart && (is_unspaced(before) || is_unspaced(first)) {
                    out.push(' ');
                }
            }
            out.push_str(part);
        }
        out
    };
    texts.into_iter().map(spaced).collect()
}

fn is_unspaced(letter: char) -> bool {
    letter >= SCRIPTS[0].0
        && SCRIPTS
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> String {
        spaced(vec![text.into()]).remove(0)
    }

    #[test]
    fn words_are_apart() {
        assert_eq!(one("größe it's a  test."), "größe it's a  test.");
        assert_eq!(one("我喜欢向量数据库"), "我 喜欢 向量 数据 库");
        assert_eq!(one("PostgreSQLの索引"), "PostgreSQL の 索引");
        assert_eq!(one("ฐานข้อมูล ขนาดใหญ่"), "ฐาน ข้อมูล ขนาด ใหญ่");
    }

    proptest! {
        #[test]
        fn nothing_but_spaces_is_added(text in "[a-z 。、向量索引ฐานข้อมูลか-ん]{0,40}") {
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            let found = one(&text);
            prop_assert_eq!(bare(&found), bare(&text));
            prop_assert_eq!(one(&found), found);
        }
    }
}
