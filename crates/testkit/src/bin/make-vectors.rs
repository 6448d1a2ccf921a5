//! Writes the golden vectors anew from the model. Run it after the contract has changed.

use std::fs;

use tollkeeper_testkit::vectors;

fn main() -> Result<(), String> {
    for (name, text) in vectors::make()? {
        let path = vectors::folder().join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
