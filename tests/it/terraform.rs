//! The Terraform modules of `assets/terraform`, as far as they can be looked at without AWS's provider: their form, that each module
//! is given what it asks for and nothing else, and that their variables are those of `environments/NAME.tfvars`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hcl_edit::structure::{Block, Body};

use crate::support;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/terraform")
}

/// The blocks of a module's files.
fn module(folder: &Path) -> Vec<Block> {
    let mut blocks = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tf") {
            let text = std::fs::read_to_string(&path).unwrap();
            let body: Body = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            blocks.extend(body.into_blocks());
        }
    }
    assert!(!blocks.is_empty(), "{} has no *.tf files", folder.display());
    blocks
}

fn label(block: &Block) -> &str {
    block.labels.first().map_or("", |label| label.as_str())
}

/// The variables of a module; whether each has a default.
fn variables(blocks: &[Block]) -> BTreeMap<String, bool> {
    let variables = blocks.iter().filter(|block| block.has_ident("variable"));
    variables.map(|block| (label(block).to_owned(), block.body.has_attribute("default"))).collect()
}

/// Checks the modules that this one calls, and returns their folders.
fn calls(folder: &Path, blocks: &[Block]) -> Vec<PathBuf> {
    let mut called = Vec::new();
    for block in blocks.iter().filter(|block| block.has_ident("module")) {
        let source = block.body.get_attribute("source").and_then(|a| a.value.as_str()).unwrap();
        let source = folder.join(source).canonicalize().unwrap_or_else(|error| panic!("{source}: {error}"));
        let asked = variables(&module(&source));
        let given: BTreeSet<&str> =
            block.body.attributes().map(|a| a.key.as_str()).filter(|key| *key != "source").collect();
        for (name, has_default) in &asked {
            assert!(*has_default || given.contains(name.as_str()), "module {} lacks {name}", label(block));
        }
        for name in given {
            assert!(asked.contains_key(name), "module {} does not ask for {name}", label(block));
        }
        called.push(source);
    }
    called
}

#[test]
fn every_module_is_called_with_what_it_asks_for() {
    let mut waiting = vec![root().canonicalize().unwrap()];
    let mut seen = BTreeSet::new();
    while let Some(folder) = waiting.pop() {
        if seen.insert(folder.clone()) {
            waiting.extend(calls(&folder, &module(&folder)));
        }
    }
    let modules = std::fs::read_dir(root().join("modules")).unwrap();
    for entry in modules {
        let folder = entry.unwrap().path().canonicalize().unwrap();
        assert!(seen.contains(&folder), "nobody calls {}", folder.display());
    }
}

#[test]
fn its_variables_are_those_of_an_environment() {
    let blocks = module(&root());
    let of_terraform = variables(&blocks);
    let documented = std::fs::read_to_string(root().join("../../docs/environments.md")).unwrap();
    let table = documented.lines().skip_while(|line| !line.starts_with("| variable |")).skip(2);
    let mut known = 0;
    for row in table.take_while(|row| row.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for name in cells[1].split(", ").map(|name| name.trim_matches('`')) {
            known += 1;
            let has_default =
                of_terraform.get(name).unwrap_or_else(|| panic!("Terraform does not know {name}"));
            assert_eq!(*has_default, cells[2] != "must be filled in", "{name}");
        }
    }
    assert!(known > 15, "the table of docs/environments.md was not found");
    for block in blocks.iter().filter(|block| block.has_ident("variable")) {
        assert!(block.body.has_attribute("description"), "{} says nothing of itself", label(block));
    }
}

/// No layer but those that may has a way from the Internet: the rules are read from the files, since no provider can be had here.
#[test]
fn only_elb_and_the_bastion_are_reached_from_outside() {
    let blocks = module(&root().join("modules/network"));
    let text = |name: &str| {
        let block = blocks.iter().find(|b| b.labels.get(1).is_some_and(|l| l.as_str() == name)).unwrap();
        block.body.to_string()
    };
    let locals: String =
        blocks.iter().filter(|b| b.has_ident("locals")).map(|b| b.body.to_string()).collect();
    assert!(locals.contains(r#"if contains(["secure", "compute"], subnet.layer)"#), "{locals}");
    assert!(text("nat").contains("local.closed") || text("nat").contains("subnet.layer == \"nat\""));
    let internet = blocks.iter().filter(|b| b.body.to_string().contains("aws_internet_gateway.this"));
    let names: Vec<&str> = internet.filter_map(|b| b.labels.get(1)).map(|l| l.as_str()).collect();
    assert_eq!(names, ["internet"], "one route leads to the Internet gateway");
    assert!(text("internet").contains("aws_route_table.open.id"));
    let outside = locals.lines().filter(|line| line.contains("cidr = cidr")).collect::<Vec<_>>();
    assert_eq!(outside.len(), 2, "{outside:?}");
    assert!(outside.iter().all(|line| line.contains("to = \"mgmt\"") || line.contains("to = \"elb\"")));
}

#[test]
fn it_is_formatted_as_terraform_does_where_one_is_at_hand() {
    let Some(program) = ["terraform", "tofu"].into_iter().find(|program| {
        std::process::Command::new(program).arg("version").output().is_ok_and(|o| o.status.success())
    }) else {
        return;
    };
    let home = support::temp();
    let output = std::process::Command::new(program)
        .args(["fmt", "-check", "-recursive", "-diff"])
        .current_dir(root())
        .env("HOME", home.path())
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
