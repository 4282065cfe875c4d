// io_shim: makes the disk bad, or slow, for chosen files of any program. A test tool, loaded with LD_PRELOAD.
//
//   LD_PRELOAD=libio_shim.so IO_SHIM_RULES='on=read path=.gguf calls=3-3 fail=EIO' program
//
// IO_SHIM_RULES holds rules with ';' between them; a rule is words with blanks between them. Which calls it is about:
//   on=read|write|sync|direct   pread and its variants [the default]; write, pwrite; fsync, fdatasync; open with
//   O_DIRECT path=TEXT                   the file's name contains TEXT (after its links; for on=direct as given) [every
//   file] offset=FIRST-END            the call touches a byte of [FIRST, END); END may be left out calls=FIRST-LAST of
//   the calls that fit all this, the FIRST-th (from 1) to the LAST-th; LAST may be left out
// What happens to them; every rule that fits acts, in order, until one fails the call:
//   fail=EIO|EINTR|EAGAIN|EINVAL|ENOSPC|ETIMEDOUT   the call does nothing and fails
//   eof             the file ends at FIRST of offset= (0 without it), as one that was truncated while open
//   short=BYTES     at most so many bytes; a longer read's buffer is spoilt behind them
//   hang=SECONDS    the call returns so much later, whatever signals come
//   rate=BYTES      per second, shared by all threads: a call's bytes pass after those of the calls before it; with
//   latency=SECONDS added to each call, and overlapping: what a disk with a queue of any depth does
//   log             a line in the file IO_SHIM_LOG when the call is over: on offset bytes result begin end (seconds)
// Numbers of bytes take K, M, G (powers of 1024); times and rates may have fractions (rate=300e6). A rule that cannot
// be read ends the program with status 125.
//
// io_uring is refused (ENOSYS, at syscall()) to a program under the shim, because its reads would go past it; so do
// mapped files, and what the C library does inside itself (fopen, fread). Thread-safety: no locks, atomics only; works
// in signal handlers. Programs built with the address sanitizer need ASAN_OPTIONS=verify_asan_link_order=0; the shim
// itself is built without sanitizers.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
// The function that the program would have called without the shim.
#define REAL(name) ((__typeof__(&name))real(&real_##name, #name))
#define DECLARE_REAL(name) static void* real_##name

enum { kMaxRules = 16, kUnlimited = -1, kBadRules = 125 };
enum on { kRead, kWrite, kSync, kDirect };
static const char* const kOnNames[] = {"read", "write", "sync", "direct"};

struct rule {
  enum on on;
  const char* path;
  int64_t first_byte, end_byte;
  int64_t first_call, last_call;
  int error;
  int eof, log;
  int64_t most_bytes;
  double hang, rate, latency;
  int64_t calls;    // atomic: how many fitted
  int64_t free_at;  // atomic: when the last byte of the calls so far has passed, nanoseconds
};

static struct rule rules[kMaxRules];
static int n_rules;
static int log_fd = -1;

// What the rules make of one call.
struct verdict {
  int error;     // 0: the call is made
  int64_t most;  // bytes, or kUnlimited
  int64_t end;   // when it may return, nanoseconds
  int64_t begin;
  int log;
};

// ---- rules
// -----------------------------------------------------------------------------------------------------------

static void bad_rule(const char* word) {
  dprintf(2, "io_shim: cannot read '%s' in IO_SHIM_RULES\n", word);
  _exit(kBadRules);
}

static int64_t bytes_of(const char* text, char** end) {
  double value = strtod(text, end);
  if (*end == text) bad_rule(text);
  const char* const units = "KMG";
  const char* unit = **end ? strchr(units, **end) : NULL;
  if (unit) ++*end;
  for (const char* u = units; unit && u <= unit; ++u) value *= 1024;
  return (int64_t)value;
}

static void range_of(const char* text, int64_t* first, int64_t* last) {
  char* end;
  *first = bytes_of(text, &end);
  if (*end++ != '-') bad_rule(text);
  if (*end) *last = bytes_of(end, &end);
  if (*end || *first < 0 || *last < *first) bad_rule(text);
}

static double number_of(const char* text) {
  char* end;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0)) bad_rule(text);
  return value;
}

static int error_of(const char* name) {
  static const struct {
    const char* name;
    int value;
  } known[] = {{"EIO", EIO},       {"EINTR", EINTR},   {"EAGAIN", EAGAIN},
               {"EINVAL", EINVAL}, {"ENOSPC", ENOSPC}, {"ETIMEDOUT", ETIMEDOUT}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strcmp(known[i].name, name) == 0) return known[i].value;
  bad_rule(name);
  return 0;
}

static enum on on_of(const char* name) {
  for (int i = kRead; i <= kDirect; ++i)
    if (strcmp(kOnNames[i], name) == 0) return (enum on)i;
  bad_rule(name);
  return kRead;
}

static void parse_word(struct rule* rule, char* word) {
  char* value = strchr(word, '=');
  if (strcmp(word, "eof") == 0) {
    rule->eof = 1;
  } else if (strcmp(word, "log") == 0) {
    rule->log = 1;
  } else if (!value) {
    bad_rule(word);
  } else {
    *value++ = '\0';
    char* end = value + strlen(value);
    if (strcmp(word, "on") == 0)
      rule->on = on_of(value);
    else if (strcmp(word, "path") == 0)
      rule->path = value;
    else if (strcmp(word, "offset") == 0)
      range_of(value, &rule->first_byte, &rule->end_byte);
    else if (strcmp(word, "calls") == 0)
      range_of(value, &rule->first_call, &rule->last_call);
    else if (strcmp(word, "fail") == 0)
      rule->error = error_of(value);
    else if (strcmp(word, "short") == 0)
      rule->most_bytes = bytes_of(value, &end);
    else if (strcmp(word, "hang") == 0)
      rule->hang = number_of(value);
    else if (strcmp(word, "rate") == 0)
      rule->rate = (double)bytes_of(value, &end);
    else if (strcmp(word, "latency") == 0)
      rule->latency = number_of(value);
    else
      bad_rule(word);
    if (*end) bad_rule(value);
  }
}

static void parse_rule(char* text) {
  struct rule rule = {
      .path = "", .end_byte = INT64_MAX, .first_call = 1, .last_call = INT64_MAX, .most_bytes = kUnlimited};
  char* rest = text;
  int words = 0;
  for (char* word; (word = strtok_r(rest, " ", &rest)); ++words) parse_word(&rule, word);
  if (words == 0) return;
  if (n_rules == kMaxRules) bad_rule("too many rules");
  rules[n_rules++] = rule;
}

__attribute__((constructor)) static void start(void) {
  const char* text = getenv("IO_SHIM_RULES");
  const char* log = getenv("IO_SHIM_LOG");
  if (log) log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (!text) return;
  char* rest = strdup(text);  // the rules point into it for the life of the program
  for (char* rule; rest && (rule = strsep(&rest, ";"));) parse_rule(rule);
}

// ---- what happens to a call
// ------------------------------------------------------------------------------------------

static void* real(void** function, const char* name) {
  if (!*function) *function = dlsym(RTLD_NEXT, name);
  return *function;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// As a read that waits for its disk: signals are handled, and do not end it.
static void sleep_until(int64_t end) {
  const struct timespec time = {end / 1000000000, end % 1000000000};
  if (end > now())
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
}

// When the bytes of a call that begins now have passed.
static int64_t passed_at(struct rule* rule, int64_t begin, int64_t bytes) {
  const int64_t duration = (int64_t)((double)bytes / rule->rate * 1e9);
  int64_t free_at = __atomic_load_n(&rule->free_at, __ATOMIC_RELAXED), end;
  do end = (free_at > begin ? free_at : begin) + duration;
  while (!__atomic_compare_exchange_n(&rule->free_at, &free_at, end, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return end;
}

static int fits(struct rule* rule, enum on on, const char* path, int64_t offset, int64_t bytes) {
  if (rule->on != on || !strstr(path, rule->path)) return 0;
  if (rule->first_byte > 0 || rule->end_byte < INT64_MAX) {
    if (offset < 0 || offset >= rule->end_byte || offset + bytes <= rule->first_byte) return 0;
  }
  const int64_t call = __atomic_add_fetch(&rule->calls, 1, __ATOMIC_RELAXED);
  return call >= rule->first_call && call <= rule->last_call;
}

static void limit(struct verdict* verdict, int64_t most) {
  if (verdict->most == kUnlimited || most < verdict->most) verdict->most = most > 0 ? most : 0;
}

static void apply(struct rule* rule, int64_t offset, int64_t bytes, struct verdict* verdict) {
  int64_t end = verdict->begin + (int64_t)((rule->hang + rule->latency) * 1e9);
  if (rule->rate > 0) end += passed_at(rule, verdict->begin, bytes) - verdict->begin;
  if (end > verdict->end) verdict->end = end;
  if (rule->eof) limit(verdict, rule->first_byte - offset);
  if (rule->most_bytes != kUnlimited) limit(verdict, rule->most_bytes);
  verdict->log |= rule->log;
  verdict->error = rule->error;
}

static struct verdict judge(enum on on, const char* path, int64_t offset, int64_t bytes) {
  const int64_t begin = now();
  struct verdict verdict = {0, kUnlimited, begin, begin, 0};
  for (int i = 0; i < n_rules && verdict.error == 0; ++i)
    if (fits(&rules[i], on, path, offset, bytes)) apply(&rules[i], offset, bytes, &verdict);
  return verdict;
}

static struct verdict judge_fd(enum on on, int fd, int64_t offset, int64_t bytes) {
  char link[32], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  return judge(on, path, offset, bytes);
}

static void note(enum on on, int64_t offset, int64_t bytes, int64_t result, int64_t begin) {
  char line[160];
  const int length = snprintf(line, sizeof line, "%s %lld %lld %lld %.6f %.6f\n", kOnNames[on], (long long)offset,
                              (long long)bytes, (long long)result, (double)begin / 1e9, (double)now() / 1e9);
  if (log_fd >= 0) syscall(SYS_write, log_fd, line, (size_t)length);
}

// The end of every call: it takes its time, and errno is that of the call. `result` is its own, or what a rule says.
static ssize_t finish(const struct verdict* verdict, enum on on, int64_t offset, int64_t bytes, ssize_t result) {
  const int error = verdict->error != 0 ? verdict->error : errno;
  sleep_until(verdict->end);
  if (verdict->log) note(on, offset, bytes, result < 0 ? -error : result, verdict->begin);
  errno = error;
  return result;
}

// ---- the functions that the program calls
// ----------------------------------------------------------------------------

DECLARE_REAL(pread64);
DECLARE_REAL(preadv64);
DECLARE_REAL(preadv64v2);
DECLARE_REAL(write);
DECLARE_REAL(pwrite64);
DECLARE_REAL(fsync);
DECLARE_REAL(fdatasync);
DECLARE_REAL(openat64);

static int64_t size_of(const struct iovec* parts, int n) {
  int64_t bytes = 0;
  for (int i = 0; i < n; ++i) bytes += (int64_t)parts[i].iov_len;
  return bytes;
}

// Of a read that brought `got` bytes only `most` shall have arrived: nobody may rely on those behind.
static ssize_t shorten(const struct iovec* parts, int n, ssize_t got, int64_t most) {
  if (most == kUnlimited || got <= most) return got;
  int64_t at = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t size = (int64_t)parts[i].iov_len, keep = most - at < 0 ? 0 : most - at < size ? most - at : size;
    memset((char*)parts[i].iov_base + keep, 0xdb, (size_t)(size - keep));
    at += size;
  }
  return most;
}

static ssize_t read_parts(int fd, const struct iovec* parts, int n, off64_t offset, int flags) {
  const int64_t bytes = size_of(parts, n);
  const struct verdict verdict = judge_fd(kRead, fd, offset, bytes);
  ssize_t got = -1;
  if (verdict.error == 0) {
    got = n == 1 && flags == 0 ? REAL(pread64)(fd, parts->iov_base, parts->iov_len, offset)
          : flags == 0         ? REAL(preadv64)(fd, parts, n, offset)
                               : REAL(preadv64v2)(fd, parts, n, offset, flags);
    got = shorten(parts, n, got, verdict.most);
  }
  return finish(&verdict, kRead, offset, bytes, got);
}

PUBLIC ssize_t pread64(int fd, void* out, size_t bytes, off64_t offset) {
  const struct iovec part = {out, bytes};
  return read_parts(fd, &part, 1, offset, 0);
}
PUBLIC ssize_t pread(int fd, void* out, size_t bytes, off_t offset) { return pread64(fd, out, bytes, offset); }
PUBLIC ssize_t __pread64_chk(int fd, void* out, size_t bytes, off64_t offset, size_t room) {
  if (bytes > room) abort();
  return pread64(fd, out, bytes, offset);
}
PUBLIC ssize_t __pread_chk(int fd, void* out, size_t bytes, off_t offset, size_t room) {
  return __pread64_chk(fd, out, bytes, offset, room);
}
PUBLIC ssize_t preadv64(int fd, const struct iovec* parts, int n, off64_t offset) {
  return read_parts(fd, parts, n, offset, 0);
}
PUBLIC ssize_t preadv(int fd, const struct iovec* parts, int n, off_t offset) { return preadv64(fd, parts, n, offset); }
PUBLIC ssize_t preadv64v2(int fd, const struct iovec* parts, int n, off64_t offset, int flags) {
  return read_parts(fd, parts, n, offset, flags);
}
PUBLIC ssize_t preadv2(int fd, const struct iovec* parts, int n, off_t offset, int flags) {
  return preadv64v2(fd, parts, n, offset, flags);
}

static size_t at_most(size_t bytes, int64_t most) {
  return most == kUnlimited || bytes <= (size_t)most ? bytes : (size_t)most;
}

PUBLIC ssize_t write(int fd, const void* from, size_t bytes) {
  const int64_t offset = lseek64(fd, 0, SEEK_CUR);  // -1 for pipes, which no offset= fits
  const struct verdict verdict = judge_fd(kWrite, fd, offset, (int64_t)bytes);
  const ssize_t written = verdict.error ? -1 : REAL(write)(fd, from, at_most(bytes, verdict.most));
  return finish(&verdict, kWrite, offset, (int64_t)bytes, written);
}
PUBLIC ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t offset) {
  const struct verdict verdict = judge_fd(kWrite, fd, offset, (int64_t)bytes);
  const ssize_t written = verdict.error ? -1 : REAL(pwrite64)(fd, from, at_most(bytes, verdict.most), offset);
  return finish(&verdict, kWrite, offset, (int64_t)bytes, written);
}
PUBLIC ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  return pwrite64(fd, from, bytes, offset);
}

PUBLIC int fsync(int fd) {
  const struct verdict verdict = judge_fd(kSync, fd, 0, 0);
  return (int)finish(&verdict, kSync, 0, 0, verdict.error ? -1 : REAL(fsync)(fd));
}
PUBLIC int fdatasync(int fd) {
  const struct verdict verdict = judge_fd(kSync, fd, 0, 0);
  return (int)finish(&verdict, kSync, 0, 0, verdict.error ? -1 : REAL(fdatasync)(fd));
}

static int open_file(int folder, const char* path, int flags, mode_t mode) {
  if (!(flags & O_DIRECT)) return REAL(openat64)(folder, path, flags, mode);
  const struct verdict verdict = judge(kDirect, path, 0, 0);
  return (int)finish(&verdict, kDirect, 0, 0, verdict.error ? -1 : REAL(openat64)(folder, path, flags, mode));
}

// The third argument is there only when a file may be created.
#define MODE_AFTER(flags, mode)                           \
  mode_t mode = 0;                                        \
  if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
    va_list arguments;                                    \
    va_start(arguments, flags);                           \
    mode = va_arg(arguments, mode_t);                     \
    va_end(arguments);                                    \
  }

PUBLIC int open64(const char* path, int flags, ...) {
  MODE_AFTER(flags, mode)
  return open_file(AT_FDCWD, path, flags, mode);
}
PUBLIC int open(const char* path, int flags, ...) {
  MODE_AFTER(flags, mode)
  return open_file(AT_FDCWD, path, flags, mode);
}
PUBLIC int openat64(int folder, const char* path, int flags, ...) {
  MODE_AFTER(flags, mode)
  return open_file(folder, path, flags, mode);
}
PUBLIC int openat(int folder, const char* path, int flags, ...) {
  MODE_AFTER(flags, mode)
  return open_file(folder, path, flags, mode);
}
// What opens become with _FORTIFY_SOURCE when they give no mode.
PUBLIC int __open_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
PUBLIC int __open64_2(const char* path, int flags) { return open_file(AT_FDCWD, path, flags, 0); }
PUBLIC int __openat_2(int folder, const char* path, int flags) { return open_file(folder, path, flags, 0); }
PUBLIC int __openat64_2(int folder, const char* path, int flags) { return open_file(folder, path, flags, 0); }

DECLARE_REAL(syscall);

PUBLIC long syscall(long number, ...) {
  long a[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_io_uring_setup && n_rules > 0) {
    errno = ENOSYS;
    return -1;
  }
  return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
