//! The named inversions: each row of the table leads to a function that is there.

use crate::tree;

const TABLE: &str = "tests/inversions.txt";
const MOST: usize = 40;

#[test]
fn each_named_inversion_is_of_a_function_that_is_there() {
    let table = tree::read(TABLE);
    let rows: Vec<&str> = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!((20..=MOST).contains(&rows.len()), "{TABLE} has {} rows", rows.len());
    for row in rows {
        let parts: Vec<&str> = row.split_whitespace().collect();
        let [file, function, _] = parts[..] else { panic!("{TABLE}: {row}: not file, function and value") };
        let name = function.rsplit("::").next().expect("a last part");
        assert!(tree::read(file).contains(&format!("fn {name}(")), "{TABLE}: {file} has no function {name}");
    }
}
