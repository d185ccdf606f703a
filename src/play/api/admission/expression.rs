//! Expressions of admission policies (CEL): compiled once, and given JSON to look at.
//!
//! Times are numbers of seconds here (`timestamp`, `duration`): they can be compared, subtracted and added, which is what policies do
//! with them. A real API server has types of their own for them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program, Value as Cel};
use serde_json::Value;

/// How many compiled expressions are kept. A cluster has some hundred; beyond that they are compiled anew.
const KEPT: usize = 2048;

static ENV: LazyLock<Result<Arc<Env>, String>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    cel::extensions::strings(&mut env).map_err(|error| error.to_string())?;
    Ok(Arc::new(env))
});

/// Compiled expressions by their text: the same text is always the same program.
static PROGRAMS: LazyLock<Mutex<HashMap<String, Arc<Program>>>> = LazyLock::new(Mutex::default);

/// Compiles an expression.
///
/// # Errors
/// What the compiler says of it.
pub(super) fn compile(text: &str) -> Result<Arc<Program>, String> {
    let mut kept = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = kept.get(text) {
        return Ok(Arc::clone(program));
    }
    let env = ENV.as_ref().map_err(Clone::clone)?;
    let program = Arc::new(env.compile(text).map_err(|error| error.to_string())?);
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text.to_owned(), Arc::clone(&program));
    Ok(program)
}

/// What expressions see.
pub(super) struct Scene(Context<'static, 'static>);

impl Scene {
    /// A scene with these names in it.
    ///
    /// # Errors
    /// When the language itself could not be set up.
    pub(super) fn new(names: &[(&str, &Value)]) -> Result<Self, String> {
        let env = ENV.as_ref().map_err(Clone::clone)?;
        let mut context = Context::with_env(Arc::clone(env));
        let seconds = |text: Arc<String>| -> Result<i64, ExecutionError> {
            let time = text.parse::<jiff::Timestamp>();
            time.map(jiff::Timestamp::as_second).map_err(|e| ExecutionError::function_error("timestamp", e))
        };
        context.add_function("timestamp", seconds).map_err(|error| error.to_string())?;
        let length = |text: Arc<String>| -> Result<i64, ExecutionError> {
            let length = text.parse::<jiff::SignedDuration>();
            length.map(|d| d.as_secs()).map_err(|error| ExecutionError::function_error("duration", error))
        };
        context.add_function("duration", length).map_err(|error| error.to_string())?;
        let mut scene = Self(context);
        for (name, value) in names {
            scene.set(name, of(value));
        }
        Ok(scene)
    }

    /// Adds a name.
    pub(super) fn set(&mut self, name: &str, value: Cel) {
        self.0.add_variable_from_value(name, value);
    }

    /// What an expression comes to.
    ///
    /// # Errors
    /// When it can't be compiled or has no value, with the words of a real API server around what happened.
    pub(super) fn value(&self, text: &str) -> Result<Cel, String> {
        let shown = text.trim();
        let program = compile(text).map_err(|error| format!("compilation of '{shown}' failed: {error}"))?;
        program.execute(&self.0).map_err(|error| format!("expression '{shown}' resulted in error: {error}"))
    }

    /// Whether an expression holds.
    ///
    /// # Errors
    /// As [`Scene::value`], and when it is neither true nor false.
    pub(super) fn holds(&self, text: &str) -> Result<bool, String> {
        match self.value(text)? {
            Cel::Bool(holds) => Ok(holds),
            _ => Err(format!("expression '{}' resulted in error: it is neither true nor false", text.trim())),
        }
    }
}

/// JSON as expressions see it.
pub(super) fn of(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(list) => Cel::List(Arc::new(list.iter().map(of).collect())),
        Value::Object(map) => of_pairs(map.iter().map(|(key, value)| (key.clone(), of(value)))),
    }
}

/// A map of what is known by these names.
pub(super) fn of_pairs(pairs: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<Key, Cel> = pairs.map(|(key, value)| (Key::String(Arc::new(key)), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What our policies are written with.
    #[test]
    fn expressions_do_what_a_real_server_does_with_them() {
        let object = json!({
            "metadata": {"name": "a-1", "labels": {"x": "y"}, "annotations": {"a": "b", "c": "d"}},
            "spec": {"suspend": true, "n": 5}, "data": {"k": "v"},
        });
        let scene = Scene::new(&[("object", &object), ("oldObject", &Value::Null)]).unwrap();
        for yes in [
            "object.metadata.?labels.orValue({})[?'x'].orValue('') == 'y'",
            "object.metadata.?nothing.orValue({}) == {}",
            "object.metadata.?annotations.orValue({}).map(k, k).filter(k, k != 'a') == ['c']",
            "object.metadata.annotations.all(k, k in ['a', 'c']) && ['a'].exists(k, k in object.metadata.annotations)",
            "has(object.data) && 'k' in object.data && !has(object.data.l)",
            "object.spec.?x == object.spec.?y && object.spec.?n != object.spec.?suspend",
            "object.metadata.name.matches('^a-[0-9]$') && object.metadata.name.startsWith('a' + '-')",
            "object.nothing.at.all == 1 || true",
            "oldObject == null",
            "'abc'.indexOf('c') == 2 && 'abc'.charAt(0) == 'a' && [1, 2].map(i, 'xyz'.charAt(i)).join('') == 'yz'",
            "timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') <= duration('24h')",
            "timestamp('2026-01-02T00:00:01Z') - timestamp('2026-01-01T00:00:00Z') > duration('24h')",
            "7 / 2 == 3 && 7 % 4 == 3",
        ] {
            assert_eq!(scene.holds(yes), Ok(true), "{yes}");
        }
        for wrong in [
            "object.nothing == 1",
            "oldObject.metadata.name == 'a'",
            "'text'",
            "object.spec.n + 'a' == ''",
            "what",
            "1 +",
            "timestamp('soon') == timestamp('later')",
        ] {
            assert!(scene.holds(wrong).is_err(), "{wrong}");
        }
    }
}
