// A VFS for SQLite that gathers what a commit appends to the write-ahead log into few system calls.

#pragma once

// Registers it as the default of the process, around the one that was; repeated calls do nothing. Connections that write a
// file beside others have to set `PRAGMA cache_spill = OFF`.
//
// Returns SQLite's result code.
int gathering_vfs_register(void);
