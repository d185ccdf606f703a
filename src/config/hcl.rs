//! HCL as variables' files use it: names and plain values. Every key and value knows its place.

mod older;

use std::sync::Arc;

use hcl_edit::Span;
use hcl_edit::expr::{Expression, ObjectKey, UnaryOperator};
use hcl_edit::structure::{Block, Body, Structure};
use hcl_edit::template::Element;

use self::older::Newer;
use super::place::{Layer, Mistake, MistakeKind, Place};
use super::tree::{Entry, Node, Table, Value};

/// Reads one text. After a syntax error the table is empty: the parser stops at the first.
pub(super) fn parse(layer: &Arc<Layer>, text: &str) -> (Table, Vec<Mistake>) {
    let newer = older::renew(text);
    let mut reading = Reading { layer, text, newer: &newer, mistakes: Vec::new() };
    if let Some(offset) = newer.unclosed {
        let what = "this is not HCL: what begins here has no end";
        let mistake = Mistake::new(&Place::at(layer, text, offset), MistakeKind::Syntax, what);
        return (Table::new(), vec![mistake]);
    }
    let table = match hcl_edit::parser::parse_body(&newer.text) {
        Ok(body) => reading.body(&body),
        Err(error) => {
            // Only the description: the error's own display quotes the line, which may hold a secret.
            let what = format!("this is not HCL: {}", error.message().replace('\n', ", "));
            let place = reading.place(error.location().offset());
            reading.mistakes.push(Mistake::new(&place, MistakeKind::Syntax, what));
            Table::new()
        }
    };
    (table, reading.mistakes)
}

struct Reading<'a> {
    layer: &'a Arc<Layer>,
    text: &'a str,
    newer: &'a Newer,
    mistakes: Vec<Mistake>,
}

impl Reading<'_> {
    fn place(&self, offset: usize) -> Place {
        Place::at(self.layer, self.text, self.newer.in_original(offset))
    }

    fn of(&self, thing: &impl Span) -> Place {
        self.place(thing.span().map_or(0, |span| span.start))
    }

    fn body(&mut self, body: &Body) -> Table {
        let mut table = Table::new();
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    let key = self.of(&attribute.key);
                    self.put(&mut table, attribute.key.as_str(), key, &attribute.value);
                }
                Structure::Block(block) => self.block(&mut table, block),
            }
        }
        table
    }

    /// `a "b" { … }` is the map `a` with the map `b` in it.
    fn block(&mut self, table: &mut Table, block: &Block) {
        let key = self.of(&block.ident);
        let mut inner = self.body(&block.body);
        for label in block.labels.iter().rev() {
            let node = Node { value: Value::Table(inner), place: key.clone(), raw: None };
            inner = Table::from([(label.as_str().to_owned(), Entry { key: key.clone(), node })]);
        }
        let node = Node { value: Value::Table(inner), place: key.clone(), raw: None };
        self.insert(table, block.ident.as_str(), Entry { key, node });
    }

    /// Puts a value under a key; `null` is no value.
    fn put(&mut self, table: &mut Table, name: &str, key: Place, value: &Expression) {
        if let Some(node) = self.node(value) {
            self.insert(table, name, Entry { key, node });
        }
    }

    fn insert(&mut self, table: &mut Table, name: &str, entry: Entry) {
        if table.contains_key(name) {
            let text = format!("{name} is given twice");
            self.mistakes.push(Mistake::new(&entry.key, MistakeKind::Value, text).advise("keep one"));
        } else {
            table.insert(name.to_owned(), entry);
        }
    }

    fn node(&mut self, expression: &Expression) -> Option<Node> {
        let place = self.of(expression);
        let value = match expression {
            Expression::Null(_) => return None,
            Expression::Bool(flag) => Value::Flag(*flag.value()),
            Expression::Number(number) => number_of(number.value(), 1),
            Expression::UnaryOp(op) => match &op.expr {
                Expression::Number(number) if *op.operator.value() == UnaryOperator::Neg => {
                    number_of(number.value(), -1)
                }
                _ => return self.refuse(&place, expression),
            },
            Expression::String(text) => Value::Text(text.value().clone()),
            Expression::StringTemplate(_) | Expression::HeredocTemplate(_) => match plain_text(expression) {
                Some(text) => Value::Text(text),
                None => return self.refuse(&place, expression),
            },
            Expression::Array(items) => {
                Value::List(items.iter().filter_map(|item| self.node(item)).collect())
            }
            Expression::Object(items) => {
                let mut table = Table::new();
                for (key, value) in items.iter() {
                    self.item(&mut table, key, value.expr());
                }
                Value::Table(table)
            }
            Expression::Parenthesis(inner) => return self.node(inner.inner()),
            _ => return self.refuse(&place, expression),
        };
        Some(Node { value, place, raw: None })
    }

    fn item(&mut self, table: &mut Table, key: &ObjectKey, value: &Expression) {
        let place = self.of(key);
        let name = match key {
            ObjectKey::Ident(name) => name.as_str().to_owned(),
            ObjectKey::Expression(expression) => match self.node(expression).map(|node| node.value) {
                Some(Value::Text(text)) => text,
                Some(Value::Integer(number)) => number.to_string(),
                Some(Value::Flag(flag)) => flag.to_string(),
                _ => {
                    let text = "this is no key: a name, a text or a number can be one";
                    self.mistakes.push(Mistake::new(&place, MistakeKind::Value, text));
                    return;
                }
            },
        };
        self.put(table, &name, place, value);
    }

    fn refuse(&mut self, place: &Place, expression: &Expression) -> Option<Node> {
        let (text, advice) = match expression {
            Expression::Variable(name) => {
                let name = name.value().as_str();
                (format!("{name} stands without quotes"), format!("write {name:?}"))
            }
            Expression::StringTemplate(_) | Expression::HeredocTemplate(_) => (
                "a text with ${…} or %{…} in it".to_owned(),
                "a file of variables holds plain values; $${ is a plain ${".to_owned(),
            ),
            _ => ("this is an expression".to_owned(), "a file of variables holds plain values".to_owned()),
        };
        self.mistakes.push(Mistake::new(place, MistakeKind::Value, text).advise(advice));
        None
    }
}

fn number_of(number: &hcl_edit::Number, sign: i64) -> Value {
    match number.as_i64().and_then(|number| number.checked_mul(sign)) {
        Some(number) => Value::Integer(number),
        #[expect(clippy::cast_precision_loss, reason = "it is 1 or -1")]
        None => Value::Float(number.as_f64().unwrap_or(f64::NAN) * sign as f64),
    }
}

/// The text of a template that has nothing but text in it.
fn plain_text(expression: &Expression) -> Option<String> {
    let literal = |element: &Element| element.as_literal().map(|text| text.value().clone());
    match expression {
        Expression::StringTemplate(template) => template.iter().map(literal).collect(),
        Expression::HeredocTemplate(heredoc) => heredoc.template.iter().map(literal).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::LayerKind;
    use super::*;

    fn read(text: &str) -> (String, String) {
        let layer = Layer::new(0, "F", LayerKind::BuiltIn);
        let (table, mistakes) = parse(&layer, text);
        let shown = serde_json::to_string(&Value::Table(table).to_toml()).unwrap();
        (shown, mistakes.iter().map(|m| format!("{m}\n")).collect())
    }

    fn right(text: &str) -> String {
        let (shown, mistakes) = read(text);
        assert_eq!(mistakes, "", "{text}");
        shown
    }

    #[test]
    fn every_kind_of_value() {
        let text = "# a comment\n// another\n/* and\n one */\na = \"x\" # behind\nb = 7\nc = -1.5\nd = true\ne = [\"p\", 2,]\n\
                    f = {\n  \"az0\" = \"q\"\n  az1 : 3, az2 = [1]\n}\ng = <<EOF\ntwo\nlines\nEOF\nh = <<-EOF\n  in\n   dented\n  EOF\ni = null\n\
                    j = \"$${x} \\\"\\u00e9\"\nk = (5)\nl = { 10 = 1 }\nm = 99999999999999999999\n";
        let shown = right(text);
        for part in [
            r#""a":"x""#,
            r#""b":7"#,
            r#""c":-1.5"#,
            r#""d":true"#,
            r#""e":["p",2]"#,
            r#""f":{"az0":"q","az1":3,"az2":[1]}"#,
            r#""g":"two\nlines\n""#,
            r#""h":"in\n dented\n""#,
            r#""j":"${x} \"é""#,
            r#""k":5"#,
            r#""l":{"10":1}"#,
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        assert!(!shown.contains("\"i\""), "null is no value: {shown}");
    }

    #[test]
    fn maps_need_no_equals_sign() {
        let with = right("t = {\n \"10.0.0.1_zone\" = \"a\"\n b = { c = 1 }\n}\nu = {}\n");
        assert_eq!(right("t {\n \"10.0.0.1_zone\" = \"a\"\n b { c = 1 }\n}\nu{}\n"), with);
        assert_eq!(right("t{\"10.0.0.1_zone\"=\"a\", b {c=1}}\nu {\n}"), with);
        assert_eq!(right("n \"one\" {\n a = 1\n}\n"), right("n = { one = { a = 1 } }\n"));
    }

    #[test]
    fn mistakes_have_the_place_in_the_file_as_it_was_written() {
        for (text, said) in [
            ("a = \"x\"\nt { a = 1 }\nb = ${x}\n", "F:3:5: this is not HCL"),
            ("t { a = 1, b = lan }\n", "F:1:16: lan stands without quotes; write \"lan\""),
            ("é = 1\nt { a = \"${var.x}\" }\n", "F:2:9: a text with ${…}"),
            ("a = upper(\"x\")\n", "F:1:5: this is an expression"),
            ("a = 1\na = 2\n", "F:2:1: this is not HCL"),
            ("t {\n}\nt {\n}\n", "F:3:1: this is not HCL"),
            ("n \"a\" {\n}\nn \"b\" {\n}\n", "F:3:1: n is given twice; keep one"),
            ("t {\n a = 1\n a = 2\n}\n", "F:3:2: this is not HCL"),
            ("a = \"x\nb = 1\n", "F:1:5: this is not HCL: what begins here has no end"),
            ("a = <<EOF\nx\n", "F:1:5: this is not HCL: what begins here has no end"),
            ("t { a = { \n", "F:1:9: this is not HCL: what begins here has no end"),
        ] {
            let (_, mistakes) = read(text);
            assert!(mistakes.starts_with(said), "{text:?} said {mistakes}");
        }
    }

    #[test]
    fn a_file_that_nests_without_end_is_refused() {
        for (open, close) in [("[", "]"), ("{a=", "}"), ("(", ")"), ("\"${", "}\""), ("[", "")] {
            let (_, mistakes) = read(&format!("a = {}{}", open.repeat(50_000), close.repeat(50_000)));
            assert!(mistakes.starts_with("F:1:"), "{open} said {mistakes}");
        }
    }
}
