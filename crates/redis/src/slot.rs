//! The slot of a key in a cluster, as every node computes it.

/// How many slots a cluster has.
pub(crate) const SLOTS: u16 = 16384;

/// The slot of a key: of what stands in its first braces, if anything does, else of all of it.
pub(crate) fn slot_of(name: &str) -> u16 {
    let tagged = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tagged.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(name);
    crc16(hashed.as_bytes()) % SLOTS
}

/// CRC-16 with the polynomial 0x1021, which begins at 0: what XMODEM sends.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mixed = crc ^ (u16::from(*byte) << 8);
        (0..8).fold(mixed, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_that_servers_compute() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As CLUSTER KEYSLOT of Redis 7.0.15 says.
        for (name, slot) in [
            ("", 0),
            ("foo", 12182),
            ("rl:{foo}:api:tb", 12182),
            ("{}foo", 9500),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("rl:{global}:tb", slot_of("global")),
            ("a{b", slot_of("a{b")),
        ] {
            assert_eq!(slot_of(name), slot, "{name}");
        }
        assert_ne!(slot_of("a{b"), slot_of("b"));
    }
}
