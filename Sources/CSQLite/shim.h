#include <sqlite3.h>

// Swift cannot call a variadic C function: each wrapper below fixes the type of the arguments that vary.

// A text in double quotation marks is a name, and never a value: https://www.sqlite.org/quirks.html, section 8.
static inline int csqlite_refuse_quoted_values(sqlite3 *connection) {
  int code = sqlite3_db_config(connection, SQLITE_DBCONFIG_DQS_DDL, 0, (int *)0);
  return code ? code : sqlite3_db_config(connection, SQLITE_DBCONFIG_DQS_DML, 0, (int *)0);
}

// Closing the last connection neither copies the log into the file nor removes it.
static inline int csqlite_keep_log(sqlite3 *connection) {
  return sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
}
