"""The experiment on durability: acknowledged writes through kills, power cuts, full disks,
pauses."""
