"""Whether a store keeps what it acknowledged, through kills, power cuts, full disks and pauses."""
