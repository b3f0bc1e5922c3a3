// Counts the calls of malloc and its kin, for scripts/check-cost: LD_PRELOAD puts it into the service. The counts are in the
// file that COUNTERS names: calls, and the bytes that were asked for, each a number of 64 bits.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

// glibc's own. To look them up by dlsym would take memory.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static uint64_t unshared[2];
static uint64_t *counters = unshared;

__attribute__((constructor)) static void share(void) {
  // strace, which is not the parent, may count as well.
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  const char *path = getenv("COUNTERS");
  int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  if (ftruncate(file, sizeof unshared) == 0) {
    void *shared = mmap(NULL, sizeof unshared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED) counters = shared;
  }
  close(file);
}

static void count(size_t bytes) {
  __atomic_fetch_add(&counters[0], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counters[1], bytes, __ATOMIC_RELAXED);
}

void *malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
  count(size);
  return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  count(size);
  void *found = __libc_memalign(alignment, size);
  if (!found) return ENOMEM;
  *memory = found;
  return 0;
}
