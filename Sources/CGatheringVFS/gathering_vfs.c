// SQLite appends each page to the write-ahead log by two writes, of the frame's header and of the page, so a commit of
// twenty pages takes forty system calls. Here writes that continue one another are gathered. They are passed on with the
// frame that commits, before SQLite tells other connections of it, and before the file is read, synchronized, measured or
// cut. So whatever `synchronous` says, nobody can tell the file from one that was written at once.
//
// A frame's header has 24 bytes, and is all that SQLite writes with so many. Its second number is the size of the database
// in pages where the frame commits, else 0: https://www.sqlite.org/fileformat2.html, section 4.1.
//
// A connection that is not alone in writing has to set `PRAGMA cache_spill = OFF`, so that it writes to the log only when it
// commits. Else frames of a transaction that is rolled back stay gathered, and are passed on over what another connection
// has committed since.
//
// A write that fails is reported by the call that passed it on: then that is the commit, which SQLite rolls back. Where pages
// spill, it may be a read: whoever spills has to roll a transaction back after any failure.
//
// The database file has no part in this: its methods are those of the VFS beneath, but for a fault that a test plants.

#include "gathering_vfs.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// SQLite's own VFS writes less than 128 KiB at once.
enum { CAPACITY = 120 * 1024, FRAME_HEADER = 24 };

// The log of one connection. The file of the VFS beneath follows in the same memory.
struct log {
  sqlite3_file base;
  sqlite3_file *file;
  unsigned char *bytes;  // NULL until the first write: most connections only read.
  sqlite3_int64 offset;  // of the first gathered byte
  int count;
  int commits;  // whether the last header was that of a frame that commits
  int planted;  // the errno of a failure that a test wanted, else 0
};

static struct log *as_log(sqlite3_file *file) { return (struct log *)file; }

enum operation { WRITE, SYNC, READ };

#ifdef DEBUG
// The errno with which a test wants this operation to fail, else 0. COUNTERSIGN_PLANTED_LOG_FAULT=write:8:5 fails the eighth
// write of a log by this process with errno 5; sync counts syncs of a log, and read reads of a database file. Never in what
// is deployed.
static int planted_fault(enum operation operation) {
  static const char *const names[] = {"write", "sync", "read"};
  static atomic_int counts[3];
  char name[8];
  int number, code;
  const char *fault = getenv("COUNTERSIGN_PLANTED_LOG_FAULT");
  if (!fault || sscanf(fault, "%7[a-z]:%d:%d", name, &number, &code) != 3) return 0;
  if (strcmp(name, names[operation]) != 0 || atomic_fetch_add(&counts[operation], 1) + 1 != number) return 0;
  return code;
}

static const sqlite3_io_methods *database_methods;

static int database_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
  return planted_fault(READ) ? SQLITE_IOERR_READ : database_methods->xRead(file, bytes, count, offset);
}

// Puts the fault before the reads of a database file, the first that is opened.
static void plant(sqlite3_file *file) {
  static sqlite3_io_methods methods;
  if (!getenv("COUNTERSIGN_PLANTED_LOG_FAULT") || !file->pMethods || database_methods) return;
  database_methods = file->pMethods;
  methods = *file->pMethods;
  methods.xRead = database_read;
  file->pMethods = &methods;
}
#else
static int planted_fault(enum operation operation) {
  (void)operation;
  return 0;
}

static void plant(sqlite3_file *file) { (void)file; }
#endif

static int is_to_fail(struct log *log, enum operation operation) {
  int code = planted_fault(operation);
  if (code != 0) log->planted = code;
  return code != 0;
}

static int write_beneath(struct log *log, const void *bytes, int count, sqlite3_int64 offset) {
  if (is_to_fail(log, WRITE)) return SQLITE_IOERR_WRITE;
  return log->file->pMethods->xWrite(log->file, bytes, count, offset);
}

// Passes the gathered bytes on. After a failure they are gone, as SQLite does not rely on them any more.
static int pass_on(struct log *log) {
  if (log->count == 0) return SQLITE_OK;
  int count = log->count;
  log->count = 0;
  return write_beneath(log, log->bytes, count, log->offset);
}

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  struct log *log = as_log(file);
  if (log->count > 0 && (offset != log->offset + log->count || count > CAPACITY - log->count)) {
    int code = pass_on(log);
    if (code != SQLITE_OK) return code;
  }
  int is_header = count == FRAME_HEADER;
  if (is_header) log->commits = memcmp((const char *)bytes + 4, "\0\0\0", 4) != 0;
  if (!log->bytes) log->bytes = malloc(CAPACITY);
  // The header of a frame that commits may be written once more by itself, with a new checksum: no page would follow.
  if (!log->bytes || count > CAPACITY || (is_header && log->commits && log->count == 0)) {
    return write_beneath(log, bytes, count, offset);
  }
  if (log->count == 0) log->offset = offset;
  memcpy(log->bytes + log->count, bytes, (size_t)count);
  log->count += count;
  return log->commits && !is_header ? pass_on(log) : SQLITE_OK;
}

// Octets that are still gathered were rolled back, since a frame that commits is passed on at once. They are not
// written: another connection may have committed there since.
static int log_close(sqlite3_file *file) {
  struct log *log = as_log(file);
  free(log->bytes);
  log->bytes = NULL;
  return log->file->pMethods->xClose(log->file);
}

static int log_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
  struct log *log = as_log(file);
  int code = pass_on(log);
  return code == SQLITE_OK ? log->file->pMethods->xRead(log->file, bytes, count, offset) : code;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size) {
  struct log *log = as_log(file);
  int code = pass_on(log);
  return code == SQLITE_OK ? log->file->pMethods->xTruncate(log->file, size) : code;
}

static int log_sync(sqlite3_file *file, int flags) {
  struct log *log = as_log(file);
  int code = pass_on(log);
  if (code == SQLITE_OK && is_to_fail(log, SYNC)) return SQLITE_IOERR_FSYNC;
  return code == SQLITE_OK ? log->file->pMethods->xSync(log->file, flags) : code;
}

static int log_file_size(sqlite3_file *file, sqlite3_int64 *size) {
  struct log *log = as_log(file);
  int code = pass_on(log);
  return code == SQLITE_OK ? log->file->pMethods->xFileSize(log->file, size) : code;
}

static int log_lock(sqlite3_file *file, int level) {
  struct log *log = as_log(file);
  return log->file->pMethods->xLock(log->file, level);
}

static int log_unlock(sqlite3_file *file, int level) {
  struct log *log = as_log(file);
  return log->file->pMethods->xUnlock(log->file, level);
}

static int log_check_reserved_lock(sqlite3_file *file, int *is_held) {
  struct log *log = as_log(file);
  return log->file->pMethods->xCheckReservedLock(log->file, is_held);
}

static int log_file_control(sqlite3_file *file, int operation, void *argument) {
  struct log *log = as_log(file);
  if (operation == SQLITE_FCNTL_LAST_ERRNO && log->planted != 0) {
    *(int *)argument = log->planted;
    return SQLITE_OK;
  }
  return log->file->pMethods->xFileControl(log->file, operation, argument);
}

static int log_sector_size(sqlite3_file *file) {
  struct log *log = as_log(file);
  return log->file->pMethods->xSectorSize(log->file);
}

static int log_device_characteristics(sqlite3_file *file) {
  struct log *log = as_log(file);
  return log->file->pMethods->xDeviceCharacteristics(log->file);
}

// Version 1: SQLite calls what came later, shared memory and mapping, for the database file alone.
static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_file_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_reserved_lock,
    .xFileControl = log_file_control,
    .xSectorSize = log_sector_size,
    .xDeviceCharacteristics = log_device_characteristics,
};

static sqlite3_vfs *beneath;

static int open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *flags_out) {
  (void)vfs;
  if (!(flags & SQLITE_OPEN_WAL)) {
    int code = beneath->xOpen(beneath, name, file, flags, flags_out);
    if (code == SQLITE_OK && flags & SQLITE_OPEN_MAIN_DB) plant(file);
    return code;
  }
  struct log *log = as_log(file);
  memset(log, 0, sizeof *log);
  log->file = (sqlite3_file *)(log + 1);
  int code = beneath->xOpen(beneath, name, log->file, flags, flags_out);
  // A file with methods is closed by SQLite, also where it could not be opened.
  if (log->file->pMethods) log->base.pMethods = &log_methods;
  return code;
}

int gathering_vfs_register(void) {
  // Without SQLite's count of its memory, for which each allocation takes a lock. Refused once SQLite is initialized.
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  // In C a static that is initialized by a call is no constant, so SQLite's own mutex keeps two threads apart.
  int code = sqlite3_initialize();
  if (code != SQLITE_OK) return code;
  sqlite3_mutex *mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1);
  sqlite3_mutex_enter(mutex);
  static sqlite3_vfs gathering;
  if (!beneath) {
    beneath = sqlite3_vfs_find(NULL);
    if (beneath) {
      // Everything but the opening of a file is done by the methods of the VFS beneath, which take what they are given.
      gathering = *beneath;
      gathering.pNext = NULL;
      gathering.zName = "gathering";
      gathering.szOsFile = (int)sizeof(struct log) + beneath->szOsFile;
      gathering.xOpen = open;
      code = sqlite3_vfs_register(&gathering, 1);
    } else {
      code = SQLITE_ERROR;
    }
  }
  sqlite3_mutex_leave(mutex);
  return code;
}
